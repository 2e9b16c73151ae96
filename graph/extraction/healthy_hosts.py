"""Find hosts that a text names because they are fine: `gpu-020 is fine but gpu-021 hangs`, `all but gpu-003`."""

import re

from graph.extraction.host_index import HostIndex
from graph.extraction.hosts import HostSpan, find_host_spans, resolve_names

MAX_CHARS = 4000  # Characters read per text.
_GOOD_PATTERN = (
    r"(?:fine|ok(?:ay)?|healthy|good|well|all ?right|clean|normal|green|happy|unaffected|not affected|not hit|in ordnung|gesund|sain|bien|"
    r"(?:free of|without) (?:problems?|issues?|errors?|faults?))"
)
_ADVERBS_PATTERN = r"(?:(?:all|both|still|also|too|just|now|totally|perfectly|completely|absolutely|apparently|otherwise) ){0,2}"
_VERB_PATTERN = (
    r"(?P<one>is|looks|seems|stays|runs|(?P<works>works|funktioniert|läuft|marche|fonctionne|funciona)|ist|est|está|"
    r"(?P<none>has no|shows no|reports no|does not hang|does not fail|doesn['’]t hang|doesn['’]t fail))|"
    r"(?P<all>are|look|seem|stay|run|(?P<work>work|funktionieren|laufen|marchent|fonctionnent|funcionan)|sind|sont|están|"
    r"(?P<few>have no|show no|report no|do not hang|do not fail|don['’]t hang|don['’]t fail))"
)
_AFTER_HOST_PATTERN = re.compile(rf"[`*'\"):]{{0,3}} {{1,2}}{_ADVERBS_PATTERN}(?:{_VERB_PATTERN})\b ?{_ADVERBS_PATTERN}", re.IGNORECASE)
_GOOD_WORD_PATTERN = re.compile(rf"{_GOOD_PATTERN}\b", re.IGNORECASE)
_TROUBLE_WORD_PATTERN = re.compile(r"(?:problems?|issues?|errors?|faults?|trouble|xids?|hangs?)\b", re.IGNORECASE)
# Limits or withdraws the claim that a host is fine.
_LIMITATION_PATTERN = re.compile(
    r" ?(?:when|if|unless|until|till|only|alone|by itself|by themselves|again|except|without|for |up to|as long|most of|sometimes|at first|"
    r"in single|single|on paper|to (?!me|us)|at (?!the moment|present)|\?|['\"`’*)]{0,2}\?)",
    re.IGNORECASE,
)
_BEFORE_HOST_PATTERN = re.compile(
    r"\b(?:(?:all|every(?:thing|one)?|each|any|none|(?:every|each|all|any|the other|other) (?:other )?(?:the )?(?:nodes?|hosts?|machines?|ones?)) "
    r"(?:but|except(?: for)?|besides|apart from|other than|bar)|except(?: for)?|apart from|other than|excluding|unlike|(?:but|,) ?not (?:on )?|"
    r"not on|compared (?:to|with)|alle (?:ausser|außer)|außer|ausser|tous sauf|sauf|todos menos|menos|excepto|"
    r"(?P<kind>healthy|working|good) (?:nodes?|hosts?|machines?|ones?|peers?)?|"
    rf"(?P<on>works? {_ADVERBS_PATTERN}(?:{_GOOD_PATTERN} )?on|(?:runs?|is|are|it['’]s|all) {_ADVERBS_PATTERN}{_GOOD_PATTERN} on|"
    rf"fine on|ok(?:ay)? on|no (?:problems?|issues?|errors?) on|"
    r"(?:does not|doesn['’]t|do not|don['’]t) (?:hang|fail|crash|happen|occur) on)) ?:? ?(?:the )?(?:hosts? |nodes? )?[`*'\"(]{0,2}$",
    re.IGNORECASE,
)
_HEALTH_CLAIM_PATTERN = re.compile(
    rf"\b(?:is|are|works?|runs?|looks?|seems?) {_ADVERBS_PATTERN}{_GOOD_PATTERN}\b|\bworks?\b|\bfine\b", re.IGNORECASE
)
_QUESTION_PATTERN = re.compile(
    r"\b(?:if|whether|ob|si|check(?: that)?|make sure|sure|think|thought|believe|hope|was told|says?)\b[^.;!?\n]{0,40}$", re.IGNORECASE
)
_DENIAL_PATTERN = re.compile(
    r"\b(?:nothing|no longer|never|not|no \w+|none|only|hardly|barely|cannot|n['’]t)\b[^.,;!?\n]{0,24}$", re.IGNORECASE
)
_LIST_JOIN_PATTERN = re.compile(r"[`*'\"]{0,2}(?: ?[,/&+;] ?(?:and |or |und )?| (?:and|or|und|et|y) )[`*'\"]{0,2}", re.IGNORECASE)
_CONTRAST_PATTERN = re.compile(r"\b(?:but|yet|however|although|though|aber|mais|pero|still (?:hang|fail|crash|slow)\w*)\b", re.IGNORECASE)
_OTHER_HOSTS_PATTERN = re.compile(
    r"\b(?:others?|the rest|rest|all|every\w*|no other|elsewhere|remaining|different|another|andere\w*|autres|otros)\b", re.IGNORECASE
)
_SENTENCE_END_PATTERN = re.compile(r"[.!?;](?=\s|$)|\n")
_CANDIDATE_PATTERN = re.compile(
    r"\b(?:works?|but|except|besides|apart|other than|excluding|unlike|not|n['’]t|no|compared|au(?:ß|ss)er|sauf|menos|excepto|funktionier\w*|läuft|"
    r"laufen|marche\w*|fonctionne\w*|funciona\w*)\b",
    re.IGNORECASE,
)


def find_hosts_called_healthy(text: str, host_index: HostIndex) -> frozenset[str]:
    """Return known hosts that every mention calls fine."""
    text = text[:MAX_CHARS]
    if not (re.search(_GOOD_PATTERN, text, re.IGNORECASE) or _CANDIDATE_PATTERN.search(text)):
        return frozenset()
    spans = find_host_spans(text, host_index)
    fine = _find_healthy_spans(text, spans)
    names = [frozenset(resolve_names(span.names, host_index, lenient=True).hosts) for span in spans]
    blamed = frozenset[str]().union(*(span_hosts for at, span_hosts in enumerate(names) if at not in fine))
    return frozenset[str]().union(*(names[at] for at in fine)) - blamed


def find_excluded_hosts(text: str, host_index: HostIndex) -> frozenset[str]:
    """Return known hosts that a text excludes: `drain all but gpu-003`. None where all others are called fine."""
    text = text[:MAX_CHARS]
    if not _CANDIDATE_PATTERN.search(text):
        return frozenset()
    spans = find_host_spans(text, host_index)
    places = [at for at in range(len(spans)) if _is_left_out(text, spans, at)]
    ends = {place for at in places for place in range(at, _find_list_end(text, spans, at) + 1)}
    return frozenset(host for at in ends for host in resolve_names(spans[at].names, host_index, lenient=True).hosts)


def _find_healthy_spans(text: str, spans: list[HostSpan]) -> set[int]:
    fine: set[int] = set()
    plural = False
    for at in range(len(spans) - 1, -1, -1):
        joined = bool(_get_list_join(text, spans, at))
        health = _parse_health_after(text, spans, at)
        if health is not None:
            fine.add(at)
            plural = health
        elif joined and plural and at + 1 in fine:
            fine.add(at)
        else:
            plural = False
    for at in range(len(spans)):
        if _is_cleared_before(text, spans, at):
            fine.update(range(at, _find_list_end(text, spans, at) + 1))
    return fine


def _get_list_join(text: str, spans: list[HostSpan], at: int) -> str:
    between = text[spans[at].end : spans[at + 1].start] if at + 1 < len(spans) else ""
    return between if _LIST_JOIN_PATTERN.fullmatch(between) else ""


def _find_list_end(text: str, spans: list[HostSpan], at: int) -> int:
    """Return the last host that `all but` excludes. A comma followed by a verb ends the list: `unlike n1, n2 hangs`."""
    last = at
    while _get_list_join(text, spans, last):
        last += 1
    if (
        last > at
        and _get_list_join(text, spans, last - 1).strip("`*'\" ") == ","
        and re.match(r"[`*'\"]{0,2} {1,2}(?!but\b|and\b|yet\b)[A-Za-z]", text[spans[last].end :])
    ):
        return at
    return last


def _parse_health_after(text: str, spans: list[HostSpan], at: int) -> bool | None:
    """Return True if the text calls a whole list fine, False for its last host, else None."""
    span = spans[at]
    match = _AFTER_HOST_PATTERN.match(text, span.end)
    text_before = text[max(0, span.start - 80) : span.start]
    left_out = _BEFORE_HOST_PATTERN.search(text_before)
    if match is None or _QUESTION_PATTERN.search(text_before) or (left_out and not left_out["kind"]):
        return None
    end = match.end()
    is_none_or_few = bool(match["none"] or match["few"])
    good = (_TROUBLE_WORD_PATTERN if is_none_or_few and match[0].rstrip().endswith("no") else _GOOD_WORD_PATTERN).match(text, end)
    works = match["works"] or match["work"] or (is_none_or_few and not match[0].rstrip().endswith("no"))
    if good:
        end = good.end()
    elif not works:
        return None
    if _LIMITATION_PATTERN.match(text, end) or _is_taken_back(text, spans, at, end):
        return None
    return bool(match["all"]) or len(span.names) > 1


def _is_cleared_before(text: str, spans: list[HostSpan], at: int) -> bool:
    """If all others are fine, this host is the faulty one."""
    start = spans[at].start
    match = _BEFORE_HOST_PATTERN.search(text[max(0, start - 80) : start])
    if match is None:
        return False
    if match["kind"] or match["on"]:
        text_before, end = match.string[: match.start()], spans[at].end
        return not (
            _is_taken_back(text, spans, at, end)
            or _LIMITATION_PATTERN.match(text, end)
            or _QUESTION_PATTERN.search(text_before)
            or _DENIAL_PATTERN.search(text_before)
        )
    return _is_left_out(text, spans, at)


def _is_left_out(text: str, spans: list[HostSpan], at: int) -> bool:
    start = spans[at].start
    match = _BEFORE_HOST_PATTERN.search(text[max(0, start - 80) : start])
    if match is None or match["kind"] or match["on"]:
        return False
    begin = max((end.end() for end in _SENTENCE_END_PATTERN.finditer(text, 0, start)), default=0)
    stop = _SENTENCE_END_PATTERN.search(text, spans[at].end)
    sentence = f"{text[begin:start]} {text[spans[at].end : stop.start() if stop else len(text)]}"
    return not _HEALTH_CLAIM_PATTERN.search(sentence)


def _is_taken_back(text: str, spans: list[HostSpan], at: int, end: int) -> bool:
    """A following `but` without another host applies to this one."""
    stop = _SENTENCE_END_PATTERN.search(text, end)
    last = stop.start() if stop else len(text)
    if stop and stop[0] == "?":
        return True
    turn = _CONTRAST_PATTERN.search(text, end, last)
    if turn is None:
        return False
    names_other_hosts = any(turn.start() <= span.start < last for span in spans) or _OTHER_HOSTS_PATTERN.search(text, turn.start(), last)
    return not names_other_hosts
