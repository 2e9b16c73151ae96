"""Parse a message into an intent: exact commands first, then a trained classifier with explicit vetoes. Pure and bounded; unclear
messages are marked so, with the nearest intents.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from graph.dialogue.addressed import OF_A_PERSON, begins_with_command
from graph.dialogue.asserted_cause import find_asserted_text, find_stated_cause
from graph.dialogue.attributes import find_attributes
from graph.dialogue.classifier import compute_probabilities
from graph.dialogue.clauses import LEADING_WORDS, Clause, split_clauses
from graph.dialogue.commands import find_exact_command, find_guide_name, is_remedy_command, is_stop_command, parse_command
from graph.dialogue.days import find_named_day
from graph.dialogue.details import find_detail
from graph.dialogue.intents import INTENTS, Intent
from graph.dialogue.known_words import list_known_words
from graph.dialogue.mentions import NamedEntities, is_exclusive_check
from graph.dialogue.news import find_fault_statements, has_error_lines, names_machine, only_names_machine
from graph.dialogue.predicates import find_predicate
from graph.dialogue.said import ALL, OTHERS, ParsedMessage, Vocabulary
from graph.dialogue.spelling import LONGEST
from graph.dialogue.vetoes import ACTING, VETOES, calls_colleague, is_only_asked, is_vetoed
from graph.extraction.command_hosts import find_group, is_near_group_name
from graph.extraction.hosts import expand_host_numbers
from graph.extraction.pasted_text import find_quoted_lines
from graph.extraction.time_window import parse_time_window
from graph.report_charts import find_metric

POLITE: Final = frozenset({Intent.THANKS, Intent.SMALL_TALK})
# Beside new facts, the facts count: the answer shows what they change.
SOFT: Final = frozenset({Intent.WHAT_NOW, Intent.EXPLAIN, Intent.STATUS, Intent.META, Intent.HELP, Intent.CHANGED_SINCE})
# Beside pasted machine output, which may itself read like one of these, the output counts.
BESIDE_LINES: Final = frozenset({Intent.HOST_STATE, Intent.GROUP_STATE, Intent.SHOW_OUTPUT, Intent.HAPPENED_BEFORE})
# Beside a chart of a metric that is named, the chart counts.
BESIDE_CHARTS: Final = frozenset({Intent.RUN_CHECK, Intent.NEW_FACTS, Intent.CORRECT, Intent.WHY_NOT})
# A question whether it is well again counts more.
BESIDE_WELL_AGAIN: Final = frozenset({Intent.RECHECK, Intent.WHAT_NOW, Intent.FIXED, Intent.STATUS})
# No statement of a fault asks these.
QUESTIONS_OF_HOSTS: Final = frozenset({Intent.HOST_STATE, Intent.GROUP_STATE, Intent.COMPARE, Intent.SAFE_TO})
# An owner whose name is no Slack user is asked for.
_ASSIGNING_WORDS: Final = (
    "assign reassign give hand pass transfer delegate route weise zuweisen gib gebt ubergib leite trag attribue donne confie passe transfere "
    "assigne asigna asignalo dale daselo pasalo pasaselo encarga transfierelo 交 转 派"
)
ASSIGNS: Final = frozenset(_ASSIGNING_WORDS.split())
# The answer asks for the test, fix, guide or person that the message does not name.
ASKED_BACK: Final = frozenset({Intent.RUN_CHECK, Intent.WISH_REMEDY, Intent.RUN_GUIDE, Intent.ASSIGN})
MAX_LABELS = 8
MAX_REPORT_WORDS = 25  # Of a request for the report; longer texts mention reports.
LIKELY = 0.1  # Least probability of an intent that only answers.
LIKELY_POLITE, LIKELY_POLITE_QUESTION = 0.3, 0.6  # Of thanks and small talk; where the sentence asks or requests.
LIKELY_NAMELESS = 0.5  # Of one of `ASKED_BACK` that names nothing.
LIKELY_TO_ACT_AS_QUESTION, LIKELY_REPORT = 0.6, 0.6  # Of one that acts, where the sentence is a question; of a request for the report.
LIKELY_TO_ACT = 0.3  # Of one that acts.
LIKELY_NEWS, LIKELY_NAMELESS_NEWS = 0.5, 0.8  # Of new facts that name a machine, a fault or a cause; of others.
NEWS_AGREED = 0.3  # Of new facts, where the report's parser finds some.
SHOWN_AGREED = 0.05  # The same, where it quotes an error or tells of damage that is seen.
CERTAIN = 0.9  # From here on even words that no phrase has may act.
# So many times as likely as “asks for nothing” must an intent be: that of a question, of another sentence, and one that acts.
NOTHING_TO_ANSWER, NOTHING_TO_ANSWER_STATEMENT, NOTHING_TO_ACT = 0.3, 0.5, 1.0
# Withdraws the request before it. The possessive run of punctuation avoids backtracking.
_TAKEN_BACK = re.compile(
    r"(?i)(?<=[^\s,;:.!…()–—-])[\s,;:.!…()–—-]++(?:(?:no,? wait|wait,? no|scratch that|on second thoughts?|actually,? (?:no|not|don'?t))\b"
    r"|(?:hold on|never ?mind|forget (?:it|that)|(?:no,? )?(?:please )?(?:don'?t|do not))[\s.!…]*$)"
    r"|[^\s,;:.!…()–—-]\s*[,;:.!…()–—-][\s,;:.!…()–—-]*+no[\s.!…]*$"
)
# A question whether something works again, which requests no recheck; a statement that it does would.
_WELL_AGAIN = re.compile(
    r"(?i)\W{0,4}(?:(?:and|so|ok|hey|hi|now|then|well)\W{1,3}){0,2}(?:is|are|does|do|has|have)\b[^.!?\n]{1,80}"
    r"\b(?:ok|okay|fine|good|well|healthy|right|alive|up|back|working|works?|running|runs?|fixed|recovered|normal|usable)\b"
    r"[^.!?\n]{0,20}\bagain\b[^.!?\n]{0,20}\??\s*$"
)
_PERSON_FIRST = re.compile(r"\W{0,3}<?@([^\W_][\w.-]{0,80})(?:\|[^<>\n]{0,80})?>?[\s,:，]")
_BRACES = re.compile(r"(?<![\w.-])([A-Za-z][A-Za-z0-9._-]{0,80})\{([A-Za-z0-9][A-Za-z0-9,. –-]{0,200})\}")
_EXCEPT = r"(?:except(?: for)?|excepting|excluding|apart from|other than|besides|without|minus|save(?: for)?|bar|but(?: not)?|(?:and )?not)"
_A_HOST = r"(?=(?:on |the |hosts? |nodes? ){0,2}[`*'\"]{0,2}[A-Za-z][\w.-]{0,60}[\d\]\[])"
_ALL_EXCEPT = re.compile(
    rf"\b(?:every(?:thing|body|one)|(?:all|every|each|any)(?: of)?(?: the| our)?(?: (?:nodes?|hosts?|machines?|servers?|ones?))?),? {_EXCEPT} {_A_HOST}",
    re.IGNORECASE,
)
_NOT_THESE = re.compile(rf"(?<=[\d\]`'\"*]),? {_EXCEPT} {_A_HOST}", re.IGNORECASE)
_LASTS = re.compile(r"\b(\d{1,3}|half an|an?|one|two|three) ?(m|min|h|hr)(?:inute|our)?s?\b")


class IntentCandidate(NamedTuple):
    intent: Intent
    score: float
    clauses: tuple[Clause, ...]


def parse_message(text: str, names: Vocabulary, now: datetime) -> ParsedMessage:
    """Parse a message. `text` is as displayed, other users as `<@U…>` or `@U…`, RackMedic's own mention removed."""
    if (command := parse_command(text, names)) is not None:
        return command
    written = in_plain_notation(text[:LONGEST])
    return _read(expand_host_numbers(written, names.host_index), names, now).model_copy(update={"text": text})


def in_plain_notation(text: str) -> str:
    """Rewrite `gpu-00{1..2}` as `gpu-00[1-2]`, and a command's exceptions (`everything except gpu-002`) in known words.

    Exceptions are rewritten in commands only: “it was gpu-001 not gpu-002” corrects and excludes nothing.
    """
    if "{" in text:
        text = _BRACES.sub(lambda found: f"{found[1]}[{found[2].replace('...', '-').replace('..', '-').replace(' ', '')}]", text)
    if not begins_with_command(text):
        return text
    text = _ALL_EXCEPT.sub("all but ", text)
    return _NOT_THESE.sub(" except ", text)


def _read(text: str, names: Vocabulary, now: datetime) -> ParsedMessage:
    clauses = split_clauses(text, names, now)
    if (exact := _find_exact_intent(text, clauses)) is not None:
        return _build_message(exact, text, clauses, now)
    faults = find_fault_statements(text, names, now, clauses)
    ranked = _rank_candidates(clauses, faults)
    if calls_colleague(text) or _begins_with_person(text, names, ranked):
        return _build_not_understood(text, clauses, ranked, now)
    shown = has_error_lines(text, names, now)
    news = bool(faults) or (shown and not clauses) or any(map(only_names_machine, clauses))
    best = next((row for row in ranked if _is_likely(row, ranked, news=news)), None)
    if (best is None or best.intent in BESIDE_WELL_AGAIN) and _WELL_AGAIN.match(text):
        return _build_message(Intent.HOST_STATE, text, clauses, now)
    if _quotes_lines(text, clauses, best) or (
        news and _states_faults(best, faults) and _agrees_with_news(clauses, faults, ranked, shown=shown)
    ):
        return _build_message(Intent.NEW_FACTS, text, clauses, now)
    if (best is None or best.intent in BESIDE_CHARTS) and _asks_for_chart(text, clauses):
        return _build_message(Intent.SHOW_OUTPUT, text, clauses, now)
    if best is None or (best.intent in VETOES and _TAKEN_BACK.search(text)):
        return _build_not_understood(text, clauses, ranked, now)
    message = _build_message(best.intent, text, _first(best.clauses, clauses), now)
    if best.intent is Intent.CORRECT:
        message = _add_asserted_cause(message, names, now)
    more = best.intent in POLITE and any(clause not in best.clauses for clause in clauses)  # Something that was not read.
    return message.model_copy(update={"predicate": find_predicate(best.intent, clauses), "sure": not more})


def _find_exact_intent(text: str, clauses: Sequence[Clause]) -> Intent | None:
    """Return the intent of fixed words, which no classifier may overrule."""
    if set(text.strip()) == {"?"}:
        return Intent.HELP
    if any(is_stop_command(clause.words) and not clause.quotes for clause in clauses):
        return Intent.STOP
    if len(clauses) != 1 or _TAKEN_BACK.search(text):
        return None
    if is_remedy_command(clauses[0]) and not clauses[0].asks and not is_vetoed(Intent.WISH_REMEDY, clauses[0]):
        return Intent.WISH_REMEDY
    return find_exact_command(clauses[0])


def _begins_with_person(text: str, names: Vocabulary, ranked: Sequence[IntentCandidate]) -> bool:
    """Return whether it is put to another person: “@marco should we reboot?”. “@priya takes it” names an owner."""
    found = _PERSON_FIRST.match(text)
    if found is None or find_group(found[1], names.groups) or is_near_group_name(found[1], names.groups):
        return False
    best = max(ranked, key=lambda row: row.score, default=None)
    return best is None or best.intent not in OF_A_PERSON


def _quotes_lines(text: str, clauses: Sequence[Clause], best: IntentCandidate | None) -> bool:
    """Return whether it is machine output, beside which a question counts little."""
    quoted = bool(find_quoted_lines(text)) and not any(clause.requests for clause in clauses)
    return quoted and (best is None or best.intent in POLITE | SOFT | BESIDE_LINES)


def _states_faults(best: IntentCandidate | None, faults: Sequence[Clause]) -> bool:
    """Return whether facts count more than the best reading: politeness, a general question, or a statement that is no request."""
    if best is None or best.intent in POLITE | SOFT:
        return True
    return best.intent not in ACTING and all(clause in faults for clause in best.clauses)


def _agrees_with_news(clauses: Sequence[Clause], faults: Sequence[Clause], ranked: Sequence[IntentCandidate], *, shown: bool) -> bool:
    """Return whether the classifier agrees that facts are told. Damage of a named machine needs no agreement."""
    if not clauses or (shown and any(names_machine(clause) and not is_vetoed(Intent.NEW_FACTS, clause) for clause in faults)):
        return True
    facts = [row for row in ranked if row.intent is Intent.NEW_FACTS]
    return any(row.score >= (SHOWN_AGREED if shown else max(NEWS_AGREED, _weigh_nothing(row, ranked))) for row in facts)


def _first(these: Sequence[Clause], clauses: Sequence[Clause]) -> list[Clause]:
    return [*these, *(clause for clause in clauses if clause not in these)]


def _rank_candidates(clauses: Sequence[Clause], faults: Sequence[Clause]) -> list[IntentCandidate]:
    """Rank the readings of the whole message and of each sentence; beside other sentences politeness comes last."""
    if not clauses:
        return []
    texts = [tuple(clauses), *((clause,) for clause in clauses if len(clauses) > 1)]
    found = [IntentCandidate(intent, share, part) for part in texts for intent, share in _weigh_intents(part, faults).items()]
    return sorted(found, key=lambda row: (len(clauses) > 1 and row.intent in POLITE, -row.score))


def _weigh_intents(clauses: Sequence[Clause], faults: Sequence[Clause]) -> dict[Intent, float]:
    """Return the probabilities of what the message can mean; what it cannot mean is shared among the others."""
    stated = all(clause in faults for clause in clauses)
    shares = {
        intent: share
        for intent, share in compute_probabilities(clauses).items()
        if (can_mean(intent, clauses) or (intent in ASKED_BACK and share >= LIKELY_NAMELESS))
        and not (stated and intent in QUESTIONS_OF_HOSTS)
    }
    whole = sum(shares.values()) or 1.0
    vetoed = {intent for intent in shares if any(is_vetoed(intent, clause) for clause in clauses)}
    return {intent: 0.0 if intent in vetoed else share / whole for intent, share in shares.items()}


def can_mean(intent: Intent, clauses: Sequence[Clause]) -> bool:
    """Return whether the message names what the intent needs."""
    return intent not in _NEEDS or _NEEDS[intent](clauses)


def _names_owner(clauses: Sequence[Clause]) -> bool:
    return any(clause.named.used.get("person") or not ASSIGNS.isdisjoint(clause.words) for clause in clauses)


def _names_host(clause: Clause) -> bool:
    return bool(clause.named.hosts or clause.named.unknown or clause.named.group)


def _names_no_remedy(clauses: Sequence[Clause]) -> bool:
    return not any(clause.named.remedy for clause in clauses)


def _names_test(clauses: Sequence[Clause]) -> bool:
    return any(is_exclusive_check(clause.named.check) for clause in clauses)


# What a message must name to have an intent.
_NEEDS: Final[Mapping[Intent, Callable[[Sequence[Clause]], bool]]] = {
    Intent.FACT_DETAIL: lambda clauses: bool(find_detail(Intent.FACT_DETAIL, clauses)),
    Intent.REPORT: lambda clauses: sum(len(clause.words) for clause in clauses) <= MAX_REPORT_WORDS,
    Intent.ASSIGN: _names_owner,
    Intent.TAKE: lambda clauses: not any(clause.named.used.get("person") for clause in clauses),
    Intent.RUN_CHECK: _names_test,
    Intent.WISH_REMEDY: lambda clauses: any(clause.named.remedy not in ("", "resume_node") for clause in clauses),
    Intent.HOST_CHANGED: lambda clauses: any(map(_names_host, clauses)),
    Intent.NARROW: _names_no_remedy,
    Intent.WHY_NOT: lambda clauses: any(clause.named.labels or clause.named.category for clause in clauses) or not _names_test(clauses),
    Intent.RUN_GUIDE: lambda clauses: find_guide_name(clauses) != "",
}


def _is_likely(row: IntentCandidate, ranked: Sequence[IntentCandidate], *, news: bool) -> bool:
    if row.intent is Intent.NOT_UNDERSTOOD or row.score <= 0:
        return False
    nothing = _weigh_nothing(row, ranked)
    if row.intent not in ACTING:
        wants, polite = _wants_something(row.clauses), row.intent in POLITE
        margin = NOTHING_TO_ANSWER if wants and not polite else NOTHING_TO_ANSWER_STATEMENT
        least = (LIKELY_POLITE_QUESTION if wants else LIKELY_POLITE) if polite else LIKELY
        return row.score >= max(least, nothing * margin)
    if row.score < _weigh_best(row, ranked):  # What it more likely means was refused, so it does not act.
        return False
    known = row.score >= CERTAIN or any(map(_names_anything, row.clauses))
    return known and row.score >= max(_get_threshold(row, news=news), nothing * NOTHING_TO_ACT)


def _names_anything(clause: Clause) -> bool:
    """Return whether it has a word of the phrases or a name. Unknown words must not act."""
    return any(clause.named.used.values()) or not (list_known_words() - LEADING_WORDS).isdisjoint(clause.words)


def _wants_something(clauses: Sequence[Clause]) -> bool:
    return any(clause.asks or clause.requests or clause.marked for clause in clauses)


def _weigh_nothing(row: IntentCandidate, ranked: Sequence[IntentCandidate]) -> float:
    """Return how likely the same sentences ask for nothing."""
    return max((other.score for other in ranked if other.clauses == row.clauses and other.intent is Intent.NOT_UNDERSTOOD), default=0.0)


def _weigh_best(row: IntentCandidate, ranked: Sequence[IntentCandidate]) -> float:
    """Return how likely the likeliest request of the same sentences is."""
    return max(other.score for other in ranked if other.clauses == row.clauses and other.intent is not Intent.NOT_UNDERSTOOD)


def _get_threshold(row: IntentCandidate, *, news: bool) -> float:
    if row.intent is Intent.NEW_FACTS:
        return LIKELY_NEWS if news or any(_names_something(clause.named) for clause in row.clauses) else LIKELY_NAMELESS_NEWS
    if is_only_asked(row.intent, row.clauses):  # Of several sentences, the one that requests is weighed by itself.
        return CERTAIN if len(row.clauses) > 1 else LIKELY_TO_ACT_AS_QUESTION
    if row.intent is Intent.REPORT:  # People speak of many reports.
        return LIKELY_REPORT
    return LIKELY_TO_ACT


def _names_something(named: NamedEntities) -> bool:
    return bool(named.hosts or named.unknown or named.device or named.job or named.xid or named.labels or named.category)


def _asks_for_chart(text: str, clauses: Sequence[Clause]) -> bool:
    """A wanted chart of a GPU metric must not run a test."""
    drawn = "picture" in find_attributes(clauses) and not any(clause.denies or clause.quotes for clause in clauses)
    return drawn and bool(find_metric(text, ""))


def _build_not_understood(text: str, clauses: Sequence[Clause], ranked: Sequence[IntentCandidate], now: datetime) -> ParsedMessage:
    near = [row.intent for row in sorted(ranked, key=lambda row: -row.score) if INTENTS[row.intent].form and row.score > 0]
    found: dict[str, object] = {"sure": False, "suggestions": tuple(dict.fromkeys([*near, Intent.STATUS, Intent.HELP]))[:2]}
    if any(clause.denies or clause.depends or clause.quotes for clause in clauses) or _TAKEN_BACK.search(text):
        found |= {"remedy": "", "check": "", "person": ""}  # the message requests none of these
    return _build_message(Intent.NOT_UNDERSTOOD, text, clauses, now).model_copy(update=found)


def _build_message(intent: Intent, text: str, clauses: Sequence[Clause], now: datetime) -> ParsedMessage:
    """`clauses` starts with those of the intent; the others supply what these do not name."""
    named = [clause.named for clause in clauses]
    meant = [clause.named for clause in clauses if not (intent is Intent.CORRECT and clause.denies)]  # "not the GPU" names no cause
    causes = next((row for row in meant if row.labels or row.category), None)
    attributes = find_attributes(clauses)
    hosts = tuple(dict.fromkeys(host for row in named for host in row.hosts))
    group = next((row.group for row in named if row.group), "")
    return ParsedMessage(
        intent=Intent.GROUP_STATE if intent is Intent.HOST_STATE and len(hosts) > 1 else intent,
        text=text,
        hosts=hosts,
        unknown_hosts=tuple(dict.fromkeys(host for row in named for host in row.unknown)),
        left_out=tuple(dict.fromkeys(host for row in named for host in row.left_out)),
        group=group or next((meant for word, meant in (("others", OTHERS), ("all", ALL)) if word in attributes), ""),
        job=next((row.job for row in named if row.job), ""),
        labels=causes.labels[:MAX_LABELS] if causes else (),
        category=causes.category if causes else "",
        check=next((row.check for row in named if row.check), ""),
        remedy=next((row.remedy for row in named if row.remedy), ""),
        guide=find_guide_name(clauses) if intent is Intent.RUN_GUIDE else "",
        device=next((row.device for row in named if row.device), ""),
        person=next((row.person for row in named if row.person), ""),
        at=parse_pause_end(text, now) if intent in (Intent.PAUSE, Intent.SNOOZE) else _find_start(text, clauses, now),
        audience=next((word for word in ("manager", "ticket") if word in attributes), ""),
        form=next((word for word in ("picture", "file") if word in attributes), ""),
        detail=find_detail(intent, clauses),
        picture=_choose_picture(attributes) if intent is Intent.SHOW_PICTURE else "",
    )


def _add_asserted_cause(message: ParsedMessage, names: Vocabulary, now: datetime) -> ParsedMessage:
    """Return the correction with the cause that it asserts: “it was the cable, not the GPU” names the cable alone."""
    stated = find_stated_cause(message.text)
    named = (clause.named for clause in split_clauses(find_asserted_text(message.text), names, now))
    causes = next((row for row in named if row.labels or row.category), None)
    if causes is not None:
        return message.model_copy(update={"cause": stated, "labels": causes.labels[:MAX_LABELS], "category": causes.category})
    return message.model_copy(update={"cause": stated, "labels": (), "category": ""}) if stated else message


def _choose_picture(attributes: frozenset[str]) -> str:
    return next((name for name in ("timeline", "bandwidth") if name in attributes), "walk")


def _find_start(text: str, clauses: Sequence[Clause], now: datetime) -> datetime | None:
    return parse_time_window(text[:LONGEST], now)[0] or parse_time_window(" . ".join(" ".join(clause.words) for clause in clauses), now)[0]


def parse_pause_end(text: str, now: datetime) -> datetime | None:
    """Return when a pause ends (“until 14:00”, “for two hours”), or None."""
    since, end = parse_time_window(text[:LONGEST], now)
    if end:
        return end if end > now else end + timedelta(days=1)
    if day := find_named_day(text, now):
        return day
    if since and since < now:
        return now + (now - since)
    found = _LASTS.search(text[:LONGEST].lower())
    if found is None:
        return None
    count = {"a": 1, "an": 1, "one": 1, "half an": 0.5, "two": 2, "three": 3}.get(found[1]) or float(found[1])
    return now + timedelta(minutes=count * (1 if found[2].startswith("m") else 60))
