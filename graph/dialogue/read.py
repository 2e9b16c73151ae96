"""Parse a message into an intent, by rules only. Pure and bounded; unclear messages are marked so, with the nearest
intents.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from graph.dialogue.addressed import begins_with_command
from graph.dialogue.clauses import split_clauses
from graph.dialogue.commands import parse_command
from graph.dialogue.cues import Clause, rank_intents, rank_partial_intents
from graph.dialogue.intents import INTENTS, Intent
from graph.dialogue.news import has_new_facts
from graph.dialogue.predicates import find_predicate
from graph.dialogue.rules import RULES
from graph.dialogue.said import ALL, OTHERS, ParsedMessage, Vocabulary
from graph.dialogue.spelling import LONGEST
from graph.extraction.hosts import expand_host_numbers
from graph.extraction.pasted_text import find_quoted_lines
from graph.extraction.time_window import parse_time_window
from graph.report_charts import find_metric

POLITE: Final = frozenset({Intent.THANKS, Intent.SMALL_TALK})
# Beside new facts, the facts count: the answer shows what they change.
SOFT: Final = frozenset({Intent.WHAT_NOW, Intent.EXPLAIN, Intent.STATUS, Intent.META, Intent.HELP, Intent.CHANGED_SINCE})
# Beside pasted machine output, which may itself read like one of these, the output counts.
BESIDE_LINES: Final = frozenset({Intent.HOST_STATE, Intent.GROUP_STATE, Intent.SHOW_OUTPUT, Intent.HAPPENED_BEFORE})
ENOUGH = 0.55  # Smallest score of a cue.
A_PART = 0.9  # Factor for part of a sentence, which counts less than the whole.
MOST_LABELS = 8
# A message with one of these words is a stop, whatever else it asks.
_PLAINLY: Final = frozenset({"stop", "halt", "abort", "quit"})
# Withdraws the request before it. The possessive run of punctuation avoids backtracking.
_TAKEN_BACK = re.compile(
    r"(?i)(?<=[^\s,;:.!…()–—-])[\s,;:.!…()–—-]++(?:(?:no,? wait|wait,? no|scratch that|on second thoughts?|actually,? (?:no|not|don'?t))\b"
    r"|(?:hold on|never ?mind|forget (?:it|that)|(?:no,? )?(?:please )?(?:don'?t|do not)|no)[\s.!…]*$)"
)
# A question whether something works again, which requests no recheck; a statement that it does would.
_WELL_AGAIN = re.compile(
    r"(?i)\W{0,4}(?:(?:and|so|ok|hey|hi|now|then|well)\W{1,3}){0,2}(?:is|are|does|do|has|have)\b[^.!?\n]{1,80}"
    r"\b(?:ok|okay|fine|good|well|healthy|right|alive|up|back|working|works?|running|runs?|fixed|recovered|normal|usable)\b"
    r"[^.!?\n]{0,20}\bagain\b[^.!?\n]{0,20}\??\s*$"
)
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
    clause: Clause


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
    parts = split_clauses(text, names, now)
    if set(text.strip()) == {"?"}:
        return _said(Intent.HELP, text, parts, now)
    best = _best(parts)
    if (best is None or best.intent in (Intent.RECHECK, Intent.WHAT_NOW)) and _WELL_AGAIN.match(text):
        return _said(Intent.HOST_STATE, text, [*([best.clause] if best else []), *parts], now)
    news = has_new_facts(text, names, now, parts)
    partly = best is not None and best.clause.part and best.intent is Intent.CORRECT
    pasted = bool(find_quoted_lines(text)) and not any(clause.requests for clause in parts)
    if pasted and (best is None or best.intent in POLITE | SOFT | BESIDE_LINES):
        return _said(Intent.NEW_FACTS, text, parts, now)
    if news and (best is None or best.intent in POLITE or best.intent in SOFT or partly):
        return _said(Intent.NEW_FACTS, text, parts, now)
    if (best is None or best.intent is Intent.RUN_CHECK) and _draws(text, parts):
        return _said(Intent.SHOW_OUTPUT, text, parts, now)
    if best is None or (RULES[best.intent].unless and _TAKEN_BACK.search(text)):
        return _not_understood(text, parts, now)
    if best.intent is Intent.STATUS and {"thing", "machine"} & best.clause.ideas.keys() and any(part.named.hosts for part in parts):
        return _said(Intent.HOST_STATE, text, [best.clause, *parts], now)  # “I worry about gpu-003. Is it alive?”
    return _said(best.intent, text, [best.clause, *parts], now).model_copy(update={"predicate": find_predicate(best.intent, parts)})


def _best(parts: Iterable[Clause]) -> IntentCandidate | None:
    """A plain stop comes first, then the most specific request, politeness last."""
    found = [
        IntentCandidate(fit.intent, fit.score * (A_PART if clause.part else 1.0), clause)
        for clause in parts
        for fit in rank_intents(clause)[:2]
    ]
    enough = [row for row in found if row.score >= ENOUGH]
    return max(enough, key=lambda row: (_stops(row), row.intent not in POLITE, row.score), default=None)


def _draws(text: str, parts: Sequence[Clause]) -> bool:
    """A wanted chart of a GPU metric must not run a test."""
    drawn = any("picture" in clause.ideas for clause in parts) and not any(clause.denies or clause.quotes for clause in parts)
    return drawn and bool(find_metric(text, ""))


def _stops(row: IntentCandidate) -> bool:
    return row.intent is Intent.STOP and not _PLAINLY.isdisjoint(row.clause.words)


def _not_understood(text: str, parts: Sequence[Clause], now: datetime) -> ParsedMessage:
    near = sorted((fit for clause in parts for fit in rank_partial_intents(clause)), key=lambda fit: -fit.score)
    meant = [fit.intent for fit in near if INTENTS[fit.intent].form]
    found: dict[str, object] = {"sure": False, "suggestions": tuple(dict.fromkeys([*meant, Intent.STATUS, Intent.HELP]))[:2]}
    if any(clause.denies or clause.depends or clause.quotes for clause in parts) or _TAKEN_BACK.search(text):
        found |= {"remedy": "", "check": "", "person": ""}  # the message requests none of these
    return _said(Intent.NOT_UNDERSTOOD, text, parts, now).model_copy(update=found)


def _said(intent: Intent, text: str, parts: Sequence[Clause], now: datetime) -> ParsedMessage:
    """`parts` starts with the clause of the intent; the others supply what it does not name."""
    named = [clause.named for clause in parts]
    meant = [clause.named for clause in parts if not (intent is Intent.CORRECT and clause.denies)]  # "not the GPU" names no cause
    causes = next((row for row in meant if row.labels or row.category), None)
    ideas = {idea for clause in parts for idea in clause.ideas}
    hosts = tuple(dict.fromkeys(host for row in named for host in row.hosts))
    group = next((row.group for row in named if row.group), "")
    return ParsedMessage(
        intent=Intent.GROUP_STATE if intent is Intent.HOST_STATE and len(hosts) > 1 else intent,
        text=text,
        hosts=hosts,
        unknown_hosts=tuple(dict.fromkeys(host for row in named for host in row.unknown)),
        left_out=tuple(dict.fromkeys(host for row in named for host in row.left_out)),
        group=group or (OTHERS if "other" in ideas else ALL if "every" in ideas else ""),
        job=next((row.job for row in named if row.job), ""),
        labels=causes.labels[:MOST_LABELS] if causes else (),
        category=causes.category if causes else "",
        check=next((row.check for row in named if row.check), ""),
        remedy=next((row.remedy for row in named if row.remedy), ""),
        device=next((row.device for row in named if row.device), ""),
        person=next((row.person for row in named if row.person), ""),
        at=parse_pause_end(text, now) if intent is Intent.PAUSE else _since(text, parts, now),
        audience="manager" if "manager" in ideas else "ticket" if "ticket" in ideas else "",
        form="picture" if "picture" in ideas else "file" if "file" in ideas else "",
        picture=_picture(ideas) if intent is Intent.SHOW_PICTURE else "",
    )


def _picture(ideas: Collection[str]) -> str:
    return "timeline" if "timeline" in ideas else "bandwidth" if "curve" in ideas else "walk"


def _since(text: str, parts: Sequence[Clause], now: datetime) -> datetime | None:
    return parse_time_window(text[:LONGEST], now)[0] or parse_time_window(" . ".join(" ".join(clause.words) for clause in parts), now)[0]


def parse_pause_end(text: str, now: datetime) -> datetime | None:
    """Return when a pause ends (“until 14:00”, “for two hours”), or None."""
    since, end = parse_time_window(text[:LONGEST], now)
    if end:
        return end if end > now else end + timedelta(days=1)
    if "tomorrow" in text.lower():
        return (now + timedelta(days=1)).replace(hour=8, minute=0, second=0, microsecond=0)
    if since and since < now:
        return now + (now - since)
    found = _LASTS.search(text[:LONGEST].lower())
    if found is None:
        return None
    count = {"a": 1, "an": 1, "one": 1, "half an": 0.5, "two": 2, "three": 3}.get(found[1]) or float(found[1])
    return now + timedelta(minutes=count * (1 if found[2].startswith("m") else 60))
