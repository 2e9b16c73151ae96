"""How ladders end, what they hold when they do, and how people read them. Pure.

A node that a failed, unproven or worse remedy touched is never returned to service by us: what is still held is said.
"""

from collections.abc import Collection, Sequence

from graph.ladders.build import Yard, asking
from graph.state import Ladder, LadderOutcome
from tools.inventory.ranges import fold
from tools.remedies import REMEDIES
from tools.remedies.row import fill

HELD: frozenset[str] = frozenset({"ticket", "denied", "undecided", "unknown", "stopped"})
"""Ends after which a host is not known to be well."""


def ended(ladder: Ladder, outcome: LadderOutcome, says: str) -> Ladder:
    """The ladder at its end, with what it leaves behind."""
    held = stays(ladder) if ladder.drained and outcome != "cured" else ""
    said = "; ".join(filter(None, (says, held)))
    return ladder.model_copy(update={"outcome": outcome, "waiting_for": "none", "due": None, "says": said})


def stays(ladder: Ladder) -> str:
    """What is said of a node that we leave out of service."""
    return f"{ladder.target} stays drained"


def settled(ladders: Sequence[Ladder], yard: Yard) -> list[Ladder]:
    """A node returns to service when everything that was to be done on it is done, and only if all of it held."""
    return [_released(row, ladders, yard) if _at_the_door(row) else row for row in ladders]


def _at_the_door(ladder: Ladder) -> bool:
    return ladder.open and ladder.now is not None and ladder.now.part == "restore" and ladder.waiting_for == "none"


def _released(ladder: Ladder, ladders: Sequence[Ladder], yard: Yard) -> Ladder:
    others = [row for row in ladders if row.target == ladder.target and row.id != ladder.id]
    if any(row.open and row.waiting_for != "proof" for row in others):
        return ladder
    bad = next((row for row in others if row.outcome in HELD), None)
    if bad is not None:
        return ended(ladder, "ticket", f"mended, but {yard.taxonomy.title(bad.label)} on the same host is not")
    return asking(ladder, yard)


def stopped(ladders: Sequence[Ladder], why: str) -> list[Ladder]:
    """A human took over: nothing more is proposed. What runs goes on; what is proposed is withdrawn by whoever tends the ledger."""
    return [ended(row, "stopped", why) if row.open else row for row in ladders]


def withdrawn(ladders: Sequence[Ladder], causes: Collection[tuple[str, str]]) -> list[Ladder]:
    """Ladders on which nothing was done yet and whose cause (label, host) is no longer believed end quietly."""

    def idle(row: Ladder) -> bool:
        return row.open and not row.drained and row.since is None and (row.label, row.target) not in causes

    return [ended(row, "withdrawn", "the cause is no longer believed") if idle(row) else row for row in ladders]


def left_to_others(ladders: Sequence[Ladder], elsewhere: Collection[tuple[str, str]]) -> list[Ladder]:
    """Ladders on which nothing was done yet end where another incident keeps their cause (label, host)."""

    def theirs(row: Ladder) -> bool:
        return row.open and not row.drained and row.since is None and (row.label, row.target) in elsewhere

    return [ended(row, "withdrawn", "it is worked on in another thread") if theirs(row) else row for row in ladders]


def outgrown(ladders: Sequence[Ladder]) -> list[Ladder]:
    """Of another version of the graph: what nobody began is planned anew, the rest is left to people."""
    why = "RackMedic was upgraded meanwhile"
    begun = [row.open and (row.drained or row.since is not None) for row in ladders]
    return [ended(row, "stopped" if held else "withdrawn", why) if row.open else row for row, held in zip(ladders, begun, strict=True)]


def describe(ladder: Ladder, title: str) -> str:
    """One line for people: what it is about, what comes next, what it waits for, and who else has the node out of service."""
    return "; ".join(filter(None, (_stands(ladder, title), ladder.held_elsewhere)))


def _stands(ladder: Ladder, title: str) -> str:
    where = f"{title} on {ladder.target}"
    if ladder.now and ladder.now.remedy == "run_check":
        where = f"Test {ladder.now.args.get('check', '')} on {fold(ladder.target.split(','))}"
    if ladder.outcome:
        return f"{where}: {ladder.outcome}" + (f", {ladder.says}" if ladder.says else "")
    if ladder.waiting_for == "proof":
        return f"{where}: passes now, to be proved again" + (f" at {ladder.due:%H:%M} UTC" if ladder.due else "")
    says = f"; {ladder.says}" if ladder.says else ""
    return f"{where}: {does(ladder)} ({_waits(ladder)}{says})"


def does(ladder: Ladder) -> str:
    """The present rung in words."""
    rung = ladder.now
    return fill(REMEDIES[rung.remedy].does, {"approval": ladder.approval, **rung.args}) if rung else "nothing left to do"


def _waits(ladder: Ladder) -> str:
    return {
        "approval": "waits for its turn, nobody is asked yet" if ladder.late else "waiting for a decision",
        "idle": f"waiting until {ladder.target} is drained and without jobs",
        "node_back": f"waiting for {ladder.target}",
    }.get(ladder.waiting_for, "waiting for the other fixes on this host")
