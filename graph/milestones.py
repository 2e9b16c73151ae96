"""When an incident came to something: marked as it happens, because nothing else that is stored says when. Pure."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from graph.report import Report
from graph.rows import IncidentRows
from graph.state import Item, Lifecycle, Milestone, MilestoneKind, Outcome

MOST, LONGEST = 40, 140
"""How many are kept, the first one and the newest, and how long their words may be."""
_FOUND: Final[dict[Outcome, MilestoneKind]] = {"diagnosed": "found", "no_fault": "well", "abstained": "unsure"}
_PROVED = frozenset({"passes_now", "cured"})
_ENDS: Final[dict[str, tuple[MilestoneKind, str]]] = {
    "cured": ("proved", "proved again, the fault did not come back"),
    "recurred": ("failed", "the fault came back"),
}


def milestones_after(before: IncidentRows, report: Report, lifecycle: Lifecycle, looked: bool, at: datetime) -> list[Milestone]:
    """All of them after a turn. `before` is the incident as the turn found it, `looked` whether the turn looked at hosts."""
    item = before.item
    new = [*_of_action(item), *(_found(before, report, at) if looked else []), *_turned(before, lifecycle, item, at)]
    rows = [*before.milestones, *new]
    return rows if len(rows) <= MOST else [rows[0], *rows[-(MOST - 1) :]]


def _found(before: IncidentRows, report: Report, at: datetime) -> list[Milestone]:
    """A diagnosis that is another one than before."""
    kind = _FOUND.get(report.outcome)
    last = next((row for row in reversed(before.milestones) if row.kind in _FOUND.values()), None)
    says = report.headline[:LONGEST]
    return [Milestone(at=at, kind=kind, says=says)] if kind and (last is None or (last.kind, last.says) != (kind, says)) else []


def _of_action(item: Item) -> list[Milestone]:
    """What ran and what its proof said, or what a later look found."""
    data = item.data if item.kind == "action_result" else {}
    event, says = str(data.get("event", "")), str(data.get("says") or "")[:LONGEST]
    if event in _ENDS:
        kind, words = _ENDS[event]
        return [Milestone(at=item.at, kind=kind, says=f"{words}{f': {says}' if says else ''}"[:LONGEST])]
    if event not in ("done", "failed", "unknown") or not data.get("ran", True):
        return []
    what = str(data.get("remedy") or "an action").replace("_", " ")
    outcome = str(data.get("outcome") or "")
    came: MilestoneKind = "proved" if outcome in _PROVED else "failed" if event != "done" or outcome == "worse" else "ran"
    words = f"{what}: {outcome.replace('_', ' ') or event}{f', {says}' if says else ''}"[:LONGEST]
    return [*_began(data.get("since"), what), Milestone(at=item.at, kind=came, says=words)]


def _began(since: object, what: str) -> Sequence[Milestone]:
    try:
        at = datetime.fromisoformat(str(since))
    except ValueError:
        return ()
    return (Milestone(at=at, kind="ran", says=f"{what} began"),) if at.tzinfo else ()


def _turned(before: IncidentRows, lifecycle: Lifecycle, item: Item, at: datetime) -> list[Milestone]:
    """It went to people, or was closed."""
    if lifecycle == before.lifecycle or lifecycle not in ("handed_off", "closed"):
        return []
    person = item.user if item.kind in ("hand_off", "take", "wait", "close", "ask", "recheck") else ""
    return [
        Milestone(at=at, kind="closed", says="incident closed", by=person)
        if lifecycle == "closed"
        else Milestone(at=at, kind="handed over", says="handed to people", by=person)
    ]
