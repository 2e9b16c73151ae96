"""Requests that tenants phrase in their own way: a person, a change to a machine, withdrawal, progress. Pure and
bounded.

A trained classifier finds the request. A text with a symptom, or with much besides the request, stays a report.
"""

import re
from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Final

from graph.dialogue.classifier import TENANT_REQUESTS, compute_label_probabilities
from graph.dialogue.clauses import Clause, split_clauses
from graph.dialogue.intents import Intent
from graph.dialogue.news import has_complaint
from graph.dialogue.said import ParsedMessage, Vocabulary
from graph.extraction.reports import parse_report


class TenantRequest(StrEnum):
    PERSON = "person"
    CHANGE = "change"
    WITHDRAW = "withdraw"
    AGAIN = "again"
    FAULT = "fault"
    WHY_WHEN = "why_when"
    STANDS = "stands"
    PRESSED = "pressed"


LONGEST: Final = 160  # Characters of a single request; a longer text is a report.
# The nearest intent of each request.
MEANS: Final[Mapping[TenantRequest, Intent]] = {
    TenantRequest.PERSON: Intent.HAND_OFF,
    TenantRequest.CHANGE: Intent.WISH_REMEDY,
    TenantRequest.WITHDRAW: Intent.CLOSE,
    TenantRequest.AGAIN: Intent.HAPPENED_BEFORE,
    TenantRequest.FAULT: Intent.EXPLAIN,
    TenantRequest.WHY_WHEN: Intent.EXPLAIN,
    TenantRequest.STANDS: Intent.STATUS,
    TenantRequest.PRESSED: Intent.STATUS,
}
# Valid even right after RackMedic asked something else.
ANY_TIME: Final = frozenset({TenantRequest.PERSON, TenantRequest.CHANGE, TenantRequest.WITHDRAW})

NO_REQUEST: Final = "none"  # The label of texts that request nothing.
LIKELY: Final = 0.4  # Least probability of a request.
LIKELY_TO_ACT: Final = 0.6  # Of one that takes the report back or speaks of a change.
LIKELY_DESPITE_END: Final = 0.8  # Of a withdrawal that tells that the job has ended.
_ACTING: Final = frozenset({TenantRequest.CHANGE, TenantRequest.WITHDRAW})
_ENDED: Final = frozenset({"killed"})  # Symptoms of a job that its owners may have ended themselves.
# “do not close this”, “no false alarm”: the report is kept. A negation as such keeps nothing: “we do not need it”.
_KEPT: Final = re.compile(
    r"(?:^|(?<= ))(?:(?:not|never) (?:\S+ )?(?:close|drop|ignore|disregard|forget|cancel|withdraw|stop|false alarm|a test)|no false alarm"
    r"|kein fehlalarm|nicht (?:erledigt|schliessen|zumachen|ignorieren|vergessen|aufhoren)"
    r"|(?:ne|n) (?:\S+ )?(?:fermez|oubliez|ignorez|arretez|laissez)|pas (?:une )?fausse alerte"
    r"|no (?:\S+ )?(?:cierren|olviden|ignoren|paren|dejen|retiramos)|no (?:es|fue) (?:una )?falsa alarma"
    r"|不 是 误 报|(?:别|不 要|请 勿) (?:关|忽 略|停|撤))(?= |$)"
)


def classify_tenant_request(text: str, now: datetime) -> TenantRequest | None:
    """Return the request's kind; None for a report or anything else."""
    if len(text) > LONGEST or not (clauses := split_clauses(text, Vocabulary(), now)):
        return None
    want, share = max(compute_label_probabilities(clauses, TENANT_REQUESTS).items(), key=lambda row: row[1])
    if want == NO_REQUEST:
        return None
    request = TenantRequest(want)
    least = LIKELY_TO_ACT if request in _ACTING else LIKELY
    if has_complaint(text, now):
        if request is not TenantRequest.WITHDRAW or not _tells_only_end(text, now):
            return None
        least = LIKELY_DESPITE_END
    vetoed = request is TenantRequest.WITHDRAW and any(map(_withdraws_nothing, clauses))
    return request if share >= least and not vetoed else None


def _tells_only_end(text: str, now: datetime) -> bool:
    """Return whether the only symptom is that a job has ended, as it does where its owner ends it."""
    told = parse_report(text, (), now)
    return not told.signatures and _ENDED.issuperset(told.symptoms)


def _withdraws_nothing(clause: Clause) -> bool:
    """Return whether it is a question, a condition, reported speech or a wish to keep the report."""
    return clause.asks or clause.depends or clause.quotes or _KEPT.search(" ".join(clause.words)) is not None


def apply_tenant_request(message: ParsedMessage, now: datetime) -> tuple[ParsedMessage, TenantRequest | None]:
    """Apply the request's intent to the message. A text that names a machine withdraws nothing."""
    want = classify_tenant_request(message.text, now)
    if want is None or (want is TenantRequest.WITHDRAW and (message.hosts or message.unknown_hosts)):
        return message, None
    return message.model_copy(update={"intent": MEANS[want], "sure": True}), want
