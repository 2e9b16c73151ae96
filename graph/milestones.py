"""An incident's milestones, recorded as they happen because no other stored row has their times."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from graph.incident_view import IncidentView
from graph.report import Report
from graph.state import DiagnosisOutcome, InboxItem, Lifecycle, Milestone, MilestoneKind

MAX_MILESTONES = 40  # the first and the newest are kept
MAX_MILESTONE_CHARS = 140
_OUTCOME_KINDS: Final[dict[DiagnosisOutcome, MilestoneKind]] = {"diagnosed": "found", "no_fault": "well", "abstained": "unsure"}
_PROVED_OUTCOMES = frozenset({"passes_now", "cured"})
_RECHECK_MILESTONES: Final[dict[str, tuple[MilestoneKind, str]]] = {
    "cured": ("proved", "proved again, the fault did not come back"),
    "recurred": ("failed", "the fault came back"),
}


def append_milestones(incident_view: IncidentView, report: Report, lifecycle: Lifecycle, looked: bool, at: datetime) -> list[Milestone]:
    """Return all milestones after a turn.

    `incident_view` is the incident at the turn's start; `looked` says whether the turn checked hosts.
    """
    item = incident_view.item
    new_milestones = [
        *_build_action_milestones(item),
        *(_build_diagnosis_milestones(incident_view, report, at) if looked else []),
        *_build_lifecycle_milestones(incident_view, lifecycle, item, at),
    ]
    milestones = [*incident_view.milestones, *new_milestones]
    return milestones if len(milestones) <= MAX_MILESTONES else [milestones[0], *milestones[-(MAX_MILESTONES - 1) :]]


def _build_diagnosis_milestones(incident_view: IncidentView, report: Report, at: datetime) -> list[Milestone]:
    """Return a milestone of the outcome, unless it is the same as the last one."""
    kind = _OUTCOME_KINDS.get(report.outcome)
    headline = report.headline[:MAX_MILESTONE_CHARS]
    outcomes = [milestone for milestone in incident_view.milestones if milestone.kind in _OUTCOME_KINDS.values()]
    is_repeated = bool(outcomes) and (outcomes[-1].kind, outcomes[-1].says) == (kind, headline)
    return [Milestone(at=at, kind=kind, says=headline)] if kind and not is_repeated else []


def _build_action_milestones(item: InboxItem) -> list[Milestone]:
    data = item.data if item.kind == "action_result" else {}
    event, description = str(data.get("event", "")), str(data.get("says") or "")[:MAX_MILESTONE_CHARS]
    if event in _RECHECK_MILESTONES:
        kind, text = _RECHECK_MILESTONES[event]
        if description:
            text += f": {description}"
        return [Milestone(at=item.at, kind=kind, says=text[:MAX_MILESTONE_CHARS])]
    if event not in ("done", "failed", "unknown") or not data.get("ran", True):
        return []
    action_name = str(data.get("remedy") or "an action").replace("_", " ")
    outcome = str(data.get("outcome") or "")
    milestone_kind: MilestoneKind = "ran"
    if outcome in _PROVED_OUTCOMES:
        milestone_kind = "proved"
    elif event != "done" or outcome == "worse":
        milestone_kind = "failed"
    text = f"{action_name}: {outcome.replace('_', ' ') or event}"
    if description:
        text += f", {description}"
    result = Milestone(at=item.at, kind=milestone_kind, says=text[:MAX_MILESTONE_CHARS])
    return [*_build_start_milestones(data.get("since"), action_name), result]


def _build_start_milestones(since: object, action_name: str) -> Sequence[Milestone]:
    try:
        at = datetime.fromisoformat(str(since))
    except ValueError:
        return ()
    return (Milestone(at=at, kind="ran", says=f"{action_name} began"),) if at.tzinfo else ()


def _build_lifecycle_milestones(incident_view: IncidentView, lifecycle: Lifecycle, item: InboxItem, at: datetime) -> list[Milestone]:
    if lifecycle == incident_view.lifecycle or lifecycle not in ("handed_off", "closed"):
        return []
    person = item.user if item.kind in ("hand_off", "take", "wait", "close", "ask", "recheck") else ""
    return [
        Milestone(at=at, kind="closed", says="incident closed", by=person)
        if lifecycle == "closed"
        else Milestone(at=at, kind="handed over", says="handed to people", by=person)
    ]
