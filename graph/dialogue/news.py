"""Decide whether a message brings facts: an error line, symptom, host or change; and whether a first message is empty.
Pure.

Questions bring no facts. Only plain small talk counts as empty; any possible complaint is investigated.
"""

import re
from collections.abc import Iterable
from datetime import datetime
from typing import Final

from graph.dialogue.clauses import Clause
from graph.dialogue.intents import Intent
from graph.dialogue.said import ParsedMessage, Vocabulary
from graph.dialogue.spelling import LONGEST
from graph.extraction.physical_reports import find_physical_reports
from graph.extraction.reports import parse_report

SHORT = 3  # Words of a message that only names a host.
LONGEST_NOTHING = 200  # Characters of an empty message; a longer one means something.
_POLITE: Final = frozenset({Intent.THANKS, Intent.SMALL_TALK})
_WORD = re.compile(r"[^\W_]+")
_DECISION = re.compile(r"(?:please )?(?:approved?|deny|denied|rejected?) `?apr-[\w-]{1,40}`?[ .!]*", re.IGNORECASE)


def find_fault_statements(text: str, names: Vocabulary, now: datetime, clauses: Iterable[Clause]) -> list[Clause]:
    """Return the sentences that state an error, damage that people see, or a machine with a symptom or a cause."""
    report, damage = parse_report(text[:LONGEST], names.host_index, now), find_physical_reports(text)
    symptoms = bool(set(report.symptoms) - {"vague"})
    stated = [clause for clause in clauses if not (clause.asks or clause.requests or (clause.depends and not clause.timed))]
    if report.signatures or damage:
        return stated
    return [clause for clause in stated if _names_trouble(clause, symptoms)]


def has_error_lines(text: str, names: Vocabulary, now: datetime) -> bool:
    """Return whether it quotes a known error or tells of damage that people see."""
    return bool(parse_report(text[:LONGEST], names.host_index, now).signatures or find_physical_reports(text))


def _names_trouble(clause: Clause, complains: bool) -> bool:
    return names_machine(clause) and (complains or bool(clause.named.labels or clause.named.category))


def only_names_machine(clause: Clause) -> bool:
    """Return whether it is a machine's name and hardly more."""
    return names_machine(clause) and len(clause.words) <= SHORT and not (clause.asks or clause.requests or clause.depends)


def names_machine(clause: Clause) -> bool:
    """Return whether it names a host, a device or a job."""
    named = clause.named
    return bool(named.hosts or named.unknown or named.device or named.job)


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
