"""The incident lifecycle as a table of turn events. Pure.

Once people took over or closed an incident, only people and news change it, never a remediation's state.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Final, get_args

from graph.incident_view import IncidentView
from graph.remediation.outcomes import UNRESOLVED_OUTCOMES
from graph.state import Lifecycle, Remediation


class TurnEvent(StrEnum):
    """What a turn led to."""

    NOTHING_OPEN = "diagnosed, no question"
    QUESTION = "a question"
    TO_PEOPLE = "the ticket is still open"
    HAND_OFF = "hand off"
    TAKEN = "taken"
    STOPPED = "stop"
    CLOSED = "closed with its cause"
    QUIET = "quiet for days"
    CURED_QUIET = "cured and quiet"
    FIX_WAITS = "a fix waits, or is in doubt"
    FIX_HOLDS = "every fix passes"
    FIX_FAILED = "no remedy is left"
    FIX_OVER = "the fixes are over"


# allowed from any state
_PEOPLE_TRANSITIONS: Final[Mapping[TurnEvent, Lifecycle]] = {
    TurnEvent.NOTHING_OPEN: "open",
    TurnEvent.QUESTION: "waiting",
    TurnEvent.TO_PEOPLE: "handed_off",
    TurnEvent.HAND_OFF: "handed_off",
    TurnEvent.TAKEN: "handed_off",
    TurnEvent.STOPPED: "open",
    TurnEvent.CLOSED: "closed",
    TurnEvent.QUIET: "closed",
}
_REMEDIATION_TRANSITIONS: Final[Mapping[TurnEvent, Lifecycle]] = {
    TurnEvent.FIX_WAITS: "waiting",
    TurnEvent.FIX_HOLDS: "watching",
    TurnEvent.FIX_FAILED: "handed_off",
}

LIFECYCLE_TRANSITIONS: Final[Mapping[Lifecycle, Mapping[TurnEvent, Lifecycle]]] = {
    "open": {**_PEOPLE_TRANSITIONS, **_REMEDIATION_TRANSITIONS},
    "waiting": {**_PEOPLE_TRANSITIONS, **_REMEDIATION_TRANSITIONS},
    "watching": {**_PEOPLE_TRANSITIONS, **_REMEDIATION_TRANSITIONS, TurnEvent.FIX_OVER: "open", TurnEvent.CURED_QUIET: "closed"},
    "handed_off": _PEOPLE_TRANSITIONS,
    "closed": _PEOPLE_TRANSITIONS,
}
assert set(LIFECYCLE_TRANSITIONS) == set(get_args(Lifecycle))


def get_next_lifecycle(before: Lifecycle, came: TurnEvent | None) -> Lifecycle:
    """Return the next lifecycle; unchanged if the table has no entry."""
    return before if came is None else LIFECYCLE_TRANSITIONS[before].get(came, before)


def get_remediation_event(remediations: Sequence[Remediation]) -> TurnEvent | None:
    """Return the event of all remediations together; None without any."""
    going = [row for row in remediations if row.is_open]
    if any(row.waiting_for != "proof" for row in going) or any(row.outcome == "unknown" for row in remediations):
        return TurnEvent.FIX_WAITS
    if going or is_all_cured(remediations):
        return TurnEvent.FIX_HOLDS
    if any(row.outcome == "ticket" for row in remediations):
        return TurnEvent.FIX_FAILED
    return TurnEvent.FIX_OVER if remediations else None


def is_all_cured(remediations: Sequence[Remediation]) -> bool:
    """Return whether every remediation is resolved and at least one is cured."""
    return any(row.outcome == "cured" for row in remediations) and all(
        row.outcome and row.outcome not in UNRESOLVED_OUTCOMES for row in remediations
    )


def is_settled_for_tenant(incident_view: IncidentView, theirs: Callable[[str], bool]) -> bool:
    """Return whether we have nothing to do: withdrawn, no fault, or all causes are the tenant's (`theirs`, by label)."""
    report = incident_view.report
    if any(row.is_open for row in incident_view.remediations):
        return False
    if report is None or incident_view.tenant_silence.withdrawn or report.outcome == "no_fault":
        return report is not None
    has_visible_cause = report.outcome == "diagnosed" and bool(report.root_causes) and not report.hides_all_causes_from_tenant
    return has_visible_cause and all(theirs(row.label) for row in report.root_causes)
