"""Find the hosts and the job that a text names, hosts named because they are fine, and groups. Hosts match as whole words. Pure."""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from graph.extraction.host_index import NON_HOST_PATTERN, HostIndex
from graph.extraction.host_lists import (
    BRACKET_RANGE_PATTERN,
    HOST_NAME_PATTERN,
    LIST_WORDS,
    MAX_RANGE_HOSTS,
    parse_bracket_range,
    parse_host_list,
)
from tools.inventory.name_suggestions import find_nearest_hosts

# Find the hosts and the job that a text names. Hosts match as whole words; ranges in any notation. Pure.
#
# An unknown name that looks like a host is reported as spelt and never replaced by another. Only `lenient` callers get a
# host whose separators differ, with the original spelling.

_NODE_NUMBERS_PATTERN = re.compile(
    r"(?<!\d )\b(?:nodes?|hosts?|machines?|servers?|knoten|rechner|n[oœ]uds?|nodos?) #?(?P<first>\d{1,6})(?![\w:%])"
    r"(?P<more>(?: ?(?:-|–|…|\.\.\.?|,|/|&|\+|\b(?:to|through|thru|until|till?|bis|und|and|or|et|y|à)\b)(?: (?:and|or|und))? ?#?\d{1,6}(?![\w:%])){0,64}+)"
    r"(?!\.\d)(?! ?(?:gpu|node|rank|times|x\b|minute|hour))",
    re.IGNORECASE,
)
_NUMBER_STEP_PATTERN = re.compile(r"([^\d#]{1,12})#?(\d{1,6})")
_RANGE_WORD_PATTERN = re.compile(r" ?(?:-|–|…|\.\.\.?|to|through|thru|until|till?|bis|à) ?", re.IGNORECASE)
_CALLED_HOST_PATTERN = re.compile(
    r"\b(?:nodes?|hosts?|machines?|servers?|box) (?:called |named )?[`*'\"]?(?P<name>[a-z][a-z0-9._-]{0,60}\d[a-z0-9._-]{0,60})|"
    r"(?<![\w.-])(?P<before>[a-z][a-z0-9._-]{0,60}\d) (?:box|node|host|machine|server)\b",
    re.IGNORECASE,
)
_JOB_PATTERNS = (
    re.compile(
        r"\b(?:slurm[ _-]?)?job[ _-]?(?:id|number|no\.?|nr\.?)?[ ]?[:=#`'\"]{0,3} ?(?:is |was )?[#`*'\"]{0,2}"
        r"(?P<job>\d{2,12}(?:_\d{1,6})?)(?![\w-])",
        re.IGNORECASE,
    ),
    re.compile(
        r"\b(?:slurm[ _-]?)?job [#`*'\"]{0,2}(?P<job>\d)(?![\w%:-]|\.\d)"
        r"(?! ?(?:of|x|times?|gpus?|nodes?|hosts?|ranks?|tasks?|steps?|seconds?|minutes?|hours?|days?|weeks?|more|other)\b)",
        re.IGNORECASE,
    ),
    re.compile(
        r"\b(?:slurm[ _]?)?job[ _-]?id[ ]?[:=]? ?[`'\"]?(?P<job>[A-Za-z0-9][A-Za-z0-9._-]{0,63}\d[A-Za-z0-9._-]{0,20}|\d{1,12})",
        re.IGNORECASE,
    ),
    re.compile(r"\bjob(?: called| named)?[ :=]{1,2}[`'\"](?P<job>[A-Za-z0-9][A-Za-z0-9._-]{1,63})[`'\"]", re.IGNORECASE),
)


@dataclass(frozen=True, slots=True)
class NamedHosts:
    hosts: tuple[str, ...]
    unknown: tuple[str, ...]
    read_as: tuple[tuple[str, str], ...] = ()  # Names as written, each with the host it was read as.


class HostSpan(NamedTuple):
    start: int
    end: int
    names: list[str]


def find_hosts(
    text: str, known: "Collection[str] | HostIndex", domains: Collection[str] | None = None, *, lenient: bool = False
) -> NamedHosts:
    """Return known hosts in the text, and unknown names and ranges that look like hosts.

    Args:
        known: Pass a `HostIndex`, which has its own domains, to read many texts.
        domains: Domains of known hosts; a full name elsewhere is another host. None accepts any, as in machine output.
        lenient: Read `gpu_003` as gpu-003 where no other host can be meant.
    """
    book = known if isinstance(known, HostIndex) else HostIndex(known, domains)
    return resolve_names([name for span in find_host_spans(text, book) for name in span.names], book, lenient=lenient)


def find_host_spans(text: str, host_index: HostIndex) -> list[HostSpan]:
    host_spans: list[HostSpan] = []

    def take(match: re.Match[str]) -> str:
        names = parse_bracket_range(match[0], host_index)
        host_spans.extend([HostSpan(match.start(), match.end(), names)] if names else [])
        return " " * len(match[0]) if names else match[0]

    rest = BRACKET_RANGE_PATTERN.sub(take, text) if host_index else text
    at = 0
    while match := HOST_NAME_PATTERN.search(rest, at):
        row = parse_host_list(rest, match, host_index)
        host_spans += [HostSpan(match.start(), row.end, row.names)] if row else []
        at = row.end if row else match.end()
    host_spans += [
        HostSpan(match.start(), match.end(), names)
        for match in _NODE_NUMBERS_PATTERN.finditer(rest)
        if (names := _parse_numbered_hosts(match, host_index))
    ]
    taken_starts = {span.start for span in host_spans}
    for match in _CALLED_HOST_PATTERN.finditer(rest):
        start, end = match.span(match.lastgroup or 0)
        if start not in taken_starts and (name := _parse_called_host(match, host_index)):
            host_spans.append(HostSpan(start, end, [name]))
    return sorted(host_spans, key=lambda span: span.start)


_BARE_NUMBER_PATTERN = re.compile(r"(?<![\w.:/#\[,-])0\d{2,5}(?![\w.:%\]-])")
# A range from a zero-padded number: `001-3`.
_BARE_RANGE = re.compile(r"(?<![\w.:/#\[,-])(?P<first>0\d{2,5})(?:-|\.\.| to )(?P<last>\d{1,6})(?![\w.:%\]-])")
# Before a number: it counts no hosts.
_OTHER_COUNT_PATTERN = re.compile(
    r"\b(?:jobs?|ranks?|steps?|epochs?|iterations?|batch|tickets?|incidents?|codes?|s?xids?|pids?|errors?|runs?|rooms?|racks?|ports?|lanes?|"
    r"tasks?|arrays?|users?|versions?|attempts?|lines?|ids?|nr|no|number)\W{0,3}(?:is |was )?(?:\d{1,8}(?:, ?| and | or | ?/ ?)){0,4}$",
    re.IGNORECASE,
)
_MAX_COUNT_CHARS = 64
MAX_EXPANDED_HOSTS = 32  # Longest range of numbers that is written out.


def expand_host_numbers(text: str, known: "Collection[str] | HostIndex") -> str:
    """Write `003` as `gpu-003` and `nodes 3-5` as `gpu-003, gpu-004, gpu-005`, where exactly one known host has the
    number.

    In text about numbered hosts a zero-padded number hardly means anything else.
    """
    book = known if isinstance(known, HostIndex) else HostIndex(known)

    def full(found: re.Match[str]) -> str:
        before = found.string[max(0, found.start() - _MAX_COUNT_CHARS) : found.start()]
        return found[0] if _OTHER_COUNT_PATTERN.search(before) else book.find_by_digits(found[0]) or found[0]

    def all_of(found: re.Match[str]) -> str:
        names = _parse_numbered_hosts(found, book)
        prefix = "hosts " if found[0].lower().startswith("hosts") else ""
        return f"{prefix}{', '.join(names)}" if 0 < len(names) <= MAX_EXPANDED_HOSTS and all(map(book.find_host, names)) else found[0]

    def between(found: re.Match[str]) -> str:
        before = found.string[max(0, found.start() - _MAX_COUNT_CHARS) : found.start()]
        first, last, width = int(found["first"]), int(found["last"]), len(found["first"])
        if _OTHER_COUNT_PATTERN.search(before) or not first < last < first + MAX_EXPANDED_HOSTS:
            return found[0]
        names = [book.find_by_digits(f"{number:0{width}}") for number in range(first, last + 1)]
        return ", ".join(filter(None, names)) if all(names) else found[0]

    return _BARE_NUMBER_PATTERN.sub(full, _BARE_RANGE.sub(between, _NODE_NUMBERS_PATTERN.sub(all_of, text)))


def find_job_id(text: str) -> str:
    match = next((match for pattern in _JOB_PATTERNS if (match := pattern.search(text))), None)
    return match["job"].rstrip(".-") if match else ""


def _parse_called_host(match: re.Match[str], host_index: HostIndex) -> str:
    """A device's name counts only if a host of that number is known."""
    name = (match["name"] or match["before"]).rstrip(".-_")
    return name if host_index and (not NON_HOST_PATTERN.match(name) or (match["before"] and host_index.find_similar_host(name))) else ""


def _parse_numbered_hosts(match: re.Match[str], host_index: HostIndex) -> list[str]:
    """Return the hosts of `nodes 3-6` or `hosts 1, 3 and 5`."""
    numbers = [int(match["first"])]
    for step, number in _NUMBER_STEP_PATTERN.findall(match["more"]):
        spans = _RANGE_WORD_PATTERN.fullmatch(step) and numbers[-1] < int(number) < numbers[-1] + MAX_RANGE_HOSTS
        numbers += range(numbers[-1] + 1, int(number) + 1) if spans else [int(number)]
    known_hosts = [host for number in numbers if (host := host_index.find_by_number(number))]
    if not known_hosts or len(numbers) == 1:
        return known_hosts
    return [name for number in numbers[:MAX_RANGE_HOSTS] if (name := host_index.find_by_number(number) or host_index.build_name(number))]


def resolve_names(names: Iterable[str], host_index: HostIndex, *, lenient: bool = False) -> NamedHosts:
    """Split names into known and unknown ones. `lenient`: accept a known host with other separators and record the
    spelling.
    """
    hosts: dict[str, None] = {}
    unknown: list[str] = []
    read_as: list[tuple[str, str]] = []
    for name in dict.fromkeys(names):
        if host := host_index.find_host(name):
            hosts[host] = None
        elif lenient and (host := host_index.find_similar_host(name)):
            hosts[host] = None
            read_as.append((name, host))
        else:
            unknown.append(name)
    return NamedHosts(tuple(hosts), tuple(unknown), tuple(read_as))


# Hosts that a text names because they are fine: `gpu-020 is fine but gpu-021 hangs`, `all but gpu-003`.

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
    blamed = frozenset[str]().union(*(row for at, row in enumerate(names) if at not in fine))
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
    before = text[max(0, span.start - 80) : span.start]
    left_out = _BEFORE_HOST_PATTERN.search(before)
    if match is None or _QUESTION_PATTERN.search(before) or (left_out and not left_out["kind"]):
        return None
    end = match.end()
    none = bool(match["none"] or match["few"])
    good = (_TROUBLE_WORD_PATTERN if none and match[0].rstrip().endswith("no") else _GOOD_WORD_PATTERN).match(text, end)
    works = match["works"] or match["work"] or (none and not match[0].rstrip().endswith("no"))
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
        before, end = match.string[: match.start()], spans[at].end
        return not (
            _is_taken_back(text, spans, at, end)
            or _LIMITATION_PATTERN.match(text, end)
            or _QUESTION_PATTERN.search(before)
            or _DENIAL_PATTERN.search(before)
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


# Hosts named in a command: hosts, ranges, and inventory groups (`train` or `@train`). Pure.
#
# Unknown groups are reported like unknown hosts. The caller passes only visible groups with their visible hosts.

MAX_COMMAND_CHARS = 4000  # Characters read per command
MAX_NAMES = 256  # names in it
MIN_GROUP_CHARS = 3  # Shortest word that may be a misspelt group name.
_NAME_PATTERN = re.compile(r"(?:[^\s,;\[\]]|\[[^\]\[\s]*\])+")
_FILLER_WORDS = LIST_WORDS | {
    "again",
    "all",
    "at",
    "group",
    "groups",
    "hosts",
    "in",
    "it",
    "node",
    "nodes",
    "now",
    "of",
    "on",
    "please",
    "the",
    "this",
}


def resolve_hosts_and_groups(
    words: str,
    known: Collection[str],
    groups: Mapping[str, Collection[str]],
    domains: Collection[str] | None = None,
    *,
    strict: bool = True,
) -> NamedHosts:
    """Return the hosts named, those of groups first, and unknown names.

    `strict`: every word is meant as a name; otherwise only known names, near misses of a group, and `@name`.
    """
    of_groups: dict[str, None] = {}
    lost: list[str] = []
    rest = words[:MAX_COMMAND_CHARS]
    for match in list(_NAME_PATTERN.finditer(rest))[:MAX_NAMES]:
        name = match[0].strip("`'\"*.:!?")
        bare = name.removeprefix("@")
        if (group := find_group(bare, groups)) is not None:
            of_groups.update(dict.fromkeys(groups[group]))
        elif name.startswith("@") or (_is_word(name) and name not in known and (strict or is_near_group_name(name, groups))):
            lost.append(bare)
        else:
            continue
        rest = f"{rest[: match.start()]}{';' * len(match[0])}{rest[match.end() :]}"
    spoken_hosts = find_hosts(rest, known, domains)
    return NamedHosts(tuple(dict.fromkeys((*of_groups, *spoken_hosts.hosts))), tuple(dict.fromkeys((*lost, *spoken_hosts.unknown))))


def find_group(name: str, groups: Collection[str]) -> str | None:
    return next((group for group in groups if group.casefold() == name.casefold()), None)


def is_near_group_name(name: str, groups: Collection[str]) -> bool:
    return len(name) >= MIN_GROUP_CHARS and bool(find_nearest_hosts(name, groups))


def _is_word(name: str) -> bool:
    return any(map(str.isalpha, name)) and not any(char.isdigit() or char == "[" for char in name) and name.lower() not in _FILLER_WORDS
