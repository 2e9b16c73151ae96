"""The life of an incident, as a table: what a turn came to, and what that makes of the incident. Pure.

Everything that affects it lives here. What people took over or ended is moved by people and by news, never by the state of a fix.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Final, get_args

from graph.ladders.ends import HELD
from graph.rows import IncidentRows
from graph.state import Ladder, Lifecycle


class Came(StrEnum):
    """What a turn came to."""

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


_NEWS: Final[Mapping[Came, Lifecycle]] = {
    Came.NOTHING_OPEN: "open",
    Came.QUESTION: "waiting",
    Came.TO_PEOPLE: "handed_off",
    Came.HAND_OFF: "handed_off",
    Came.TAKEN: "handed_off",
    Came.STOPPED: "open",
    Came.CLOSED: "closed",
    Came.QUIET: "closed",
}
"""From anywhere: a new diagnosis, what people said, and days without a word."""
_FIX: Final[Mapping[Came, Lifecycle]] = {Came.FIX_WAITS: "waiting", Came.FIX_HOLDS: "watching", Came.FIX_FAILED: "handed_off"}

LIFE: Final[Mapping[Lifecycle, Mapping[Came, Lifecycle]]] = {
    "open": {**_NEWS, **_FIX},
    "waiting": {**_NEWS, **_FIX},
    "watching": {**_NEWS, **_FIX, Came.FIX_OVER: "open", Came.CURED_QUIET: "closed"},
    "handed_off": _NEWS,
    "closed": _NEWS,
}
assert set(LIFE) == set(get_args(Lifecycle))


def becomes(before: Lifecycle, came: Came | None) -> Lifecycle:
    """What the incident is after a turn that came to this; as it was where the table names nothing."""
    return before if came is None else LIFE[before].get(came, before)


def of_fixes(ladders: Sequence[Ladder]) -> Came | None:
    """What all fixes together have come to; None without any."""
    going = [row for row in ladders if row.open]
    if any(row.waiting_for != "proof" for row in going) or any(row.outcome == "unknown" for row in ladders):
        return Came.FIX_WAITS
    if going or all_cured(ladders):
        return Came.FIX_HOLDS
    if any(row.outcome == "ticket" for row in ladders):
        return Came.FIX_FAILED
    return Came.FIX_OVER if ladders else None


def all_cured(ladders: Sequence[Ladder]) -> bool:
    """Whether every fix is through, and one held."""
    return any(row.outcome == "cured" for row in ladders) and all(row.outcome and row.outcome not in HELD for row in ladders)


def answered(rows: IncidentRows, theirs: Callable[[str], bool]) -> bool:
    """Whether nothing is left for us to do: they took it back, nothing is wrong, or all of it is theirs to mend (`theirs`, by label)."""
    report = rows.report
    if any(row.open for row in rows.ladders):
        return False
    if report is None or rows.silence.withdrawn or report.outcome == "no_fault":
        return report is not None
    found = report.outcome == "diagnosed" and bool(report.root_causes) and not report.withheld
    return found and all(theirs(row.label) for row in report.root_causes)
