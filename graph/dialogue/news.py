"""Decide whether a message brings facts: an error line, symptom, host or change; and whether a first message is empty.
Pure.

Questions bring no facts. Only plain small talk counts as empty; any possible complaint is investigated.
"""

import re
from collections.abc import Iterable
from datetime import datetime
from typing import Final

from graph.dialogue.cues import Clause, compute_explained_share
from graph.dialogue.intents import Intent
from graph.dialogue.said import ParsedMessage, Vocabulary
from graph.dialogue.spelling import LONGEST
from graph.dialogue.words import ELSEWHERE
from graph.extraction.physical_reports import find_physical_reports
from graph.extraction.reports import parse_report

HALF = 0.5  # Share of a complaint that must be technical words.
SHORT = 3  # Words of a message that only names a host.
LONGEST_NOTHING = 200  # Characters of an empty message; a longer one means something.
_POLITE: Final = frozenset({Intent.THANKS, Intent.SMALL_TALK})
_WORD = re.compile(r"[^\W_]+")
_DECISION = re.compile(r"(?:please )?(?:approved?|deny|denied|rejected?) `?apr-[\w-]{1,40}`?[ .!]*", re.IGNORECASE)


def has_new_facts(text: str, names: Vocabulary, now: datetime, parts: Iterable[Clause]) -> bool:
    """Return whether there is something to check."""
    told = parse_report(text[:LONGEST], names.host_index, now)
    stated = [clause for clause in parts if not (clause.asks or clause.requests or clause.part or _supposes(clause))]
    if (told.signatures or find_physical_reports(text)) and (stated or not any(True for _ in parts)):
        return True
    symptoms = bool(set(told.symptoms) - {"vague"})
    return any(_tells(clause, symptoms) for clause in stated)


def _supposes(clause: Clause) -> bool:
    """Hypothetical clauses are no facts; “before it died” is one."""
    return clause.depends and not clause.timed and "if" in clause.ideas


def _tells(clause: Clause, complains: bool) -> bool:
    ideas, named = clause.ideas, clause.named
    machine = bool(named.hosts or named.unknown or named.device or named.job)
    if not machine and not ELSEWHERE.isdisjoint(clause.words):
        return False
    if machine and ("symptom" in ideas or "bad" in ideas or "broken" in ideas or "did" in ideas or len(clause.words) <= SHORT):
        return True
    if "did" in ideas and not clause.denies and (clause.timed or "driverish" in ideas):
        return True
    began = clause.words[:1] in (("since",), ("started",), ("began",)) or "started" in clause.words or "began" in clause.words
    if began and clause.timed:
        return True
    if machine and (complains or named.labels or named.category):
        return True
    if named.check and "show" in ideas:
        return True
    symptom = [at for places in ideas.get("symptom", ()) for at in places]
    return bool(symptom) and (bool(set(clause.words) & _OURS) or (complains and compute_explained_share(clause, symptom) > HALF))


_OURS = frozenset({"rank", "ranks", "nccl", "gpu", "gpus", "training", "job", "node", "loss", "xid", "cuda", "ib", "driver", "kernel"})


def is_empty_message(message: ParsedMessage, now: datetime) -> bool:
    """Return whether it names, reports and asks nothing."""
    if (
        len(message.text) > LONGEST_NOTHING
        or message.hosts
        or message.unknown_hosts
        or message.group
        or message.job
        or message.device
        or message.labels
        or message.category
    ):
        return False
    if _DECISION.fullmatch(message.text.strip()) or _is_noise(message.text):
        return True
    return message.intent in _POLITE and message.sure and "?" not in message.text and not has_complaint(message.text, now)


def has_complaint(text: str, now: datetime) -> bool:
    """Return whether it names a symptom or an error: “help, it hangs” is no request for the command list."""
    told = parse_report(text[:LONGEST], (), now)
    return bool(told.signatures or set(told.symptoms) - {"vague"})


def _is_noise(text: str) -> bool:
    words = _WORD.findall(text)
    return "?" not in text and all(len(word) > 3 and len(set(word.casefold())) == 1 for word in words)
