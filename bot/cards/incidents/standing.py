"""Where an incident stands: its sign, one line, and the steps of its fixes. Pure; from what is stored and what the ledger has of its actions."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from bot.cards.blocks import Status
from graph.incident.lifecycle import all_cured, answered
from graph.ladders.ends import does
from graph.ladders.held import returns
from graph.ladders.shared import left_to_another
from graph.report import Report
from graph.rows import IncidentRows
from graph.state import Ladder, LadderOutcome, Rung
from tools.inventory.ranges import fold
from tools.ledger.record import Record
from tools.ledger.states import State
from tools.remedies import REMEDIES
from tools.remedies.row import fill

Sign = Literal["looking", "people", "unclear", "well", "ticket"]


class SignRow(NamedTuple):
    """A sign as it stands on a card, as a reaction of Slack's, and what it means."""

    mark: str
    reaction: str
    means: str


SIGNS: Mapping[Sign, SignRow] = {
    "looking": SignRow("🔎", "mag_right", "RackMedic is looking"),
    "people": SignRow("🔴", "red_circle", "a fault was found and waits for people"),
    "unclear": SignRow("❓", "question", "no cause was found, or an answer is needed"),
    "well": SignRow("✅", "white_check_mark", "healthy, mended or closed"),
    "ticket": SignRow("🎫", "ticket", "a person has it"),
}
"""The reaction under the message that called us, so that a channel reads as a board."""
MOST_LINES = 3


@dataclass(frozen=True, slots=True)
class IncidentStanding:
    """`lines` say what is going on, the most pressing first; `then` what comes after it. `tasks` are all steps of the fix where there is
    one, or several at the same step."""

    sign: Sign
    lines: tuple[str, ...]
    then: str = ""
    tasks: tuple[tuple[str, Status], ...] = ()
    step: str = ""
    """The first line without what the steps say."""
    closed: bool = False
    mended: bool = False
    """Every fix is done and its proof passed: no host is to be avoided any more."""

    @property
    def begun(self) -> bool:
        """Whether there are steps of which one has begun: until then its approval card says all of it."""
        return any(status != "pending" for _, status in self.tasks)

    @property
    def line(self) -> str:
        """The first line, with its sign's mark."""
        return f"{SIGNS[self.sign].mark} {self.lines[0]}"


ENDS: Mapping[LadderOutcome, str] = {
    "unknown": "nobody knows whether it ran; look, and say so on its card",
    "ticket": "for people",
    "undecided": "nobody decided",
    "denied": "rejected",
    "stopped": "stopped",
}
"""Ends that leave something to people while the incident is open."""
GOING: Mapping[State, str] = {
    State.PENDING: "waiting for approval",
    State.APPROVED: "approved, starts as soon as it may",
    State.EXECUTING: "running",
    State.DONE: "ran, being proved",
}
LOST_CONTACT = "running when contact with the host was lost"
WAITS: Mapping[str, str] = {
    "approval": "not put up for decision yet",
    "idle": "waiting until the node is drained and without jobs",
    "node_back": "waiting for the host to answer",
}
BEGUN = frozenset({State.APPROVED, State.EXECUTING, State.DONE})
PRESSING = (State.PENDING, State.EXECUTING, State.APPROVED, State.DONE)


def standing(
    rows: IncidentRows, records: Sequence[Record] = (), taken_by: str = "", theirs: Collection[str] = (), lost: Collection[str] = ()
) -> IncidentStanding:
    """Return the status of a stored incident. `taken_by`: the name of the ticket's assignee; `theirs`: causes that the customer mends; `lost`: approvals
    of running actions whose hosts do not answer."""
    match rows.lifecycle:
        case "closed":
            return IncidentStanding(
                "well", ("Closed: the fix held." if (cured := all_cured(rows.ladders)) else "Closed.",), closed=True, mended=cured
            )
        case "handed_off":
            waits = rows.ticket is not None and rows.ticket.state == "waiting"
            has = f"{taken_by} has it{', and it waits for others' if waits else ''}."
            first = has if taken_by else "Waiting for a person to take it."
            return IncidentStanding("ticket", (first, *_left(rows.ladders)[:MOST_LINES]))
        case "watching":
            return _watched(rows.ladders)
        case _ if rows.stopped:
            return IncidentStanding("people", _left(rows.ladders)[:MOST_LINES] or ("Stopped. Say recheck for a new look.",))
        case _:
            return _fixing(rows.ladders, {row.approval: row for row in records}, lost) or _reported(rows, theirs)


def _watched(ladders: Sequence[Ladder]) -> IncidentStanding:
    due = min((row.due for row in ladders if row.waiting_for == "proof" and row.due), default=None)
    if due is None:
        return IncidentStanding(
            "well", ("Cured: proved again, the fault did not come back.",), "closed by itself if all stays quiet", mended=True
        )
    mended = not any(row.drained for row in ladders)
    return IncidentStanding("well", (f"Mended: passes now, to be proved again at {due:%H:%M} UTC.",), mended=mended)


def _reported(rows: IncidentRows, theirs: Collection[str]) -> IncidentStanding:
    report = rows.report
    if report is None:
        return IncidentStanding("looking", ("Received.",))
    if report.outcome == "no_fault":
        return IncidentStanding("well", ("Nothing to mend here.",))
    if ended := _left(rows.ladders):
        return IncidentStanding("people", ended[:MOST_LINES])
    fault: Sign = "people" if report.outcome == "diagnosed" or report.root_causes else "unclear"
    if report.questions:
        return IncidentStanding(fault, ("Waiting for an answer.",))
    if report.about and report.about.found == "nothing" and not report.actions:
        return IncidentStanding("well", ("Nothing to mend on what was asked about.",))
    if rows.origin and rows.origin.customer and answered(rows, theirs.__contains__):
        return IncidentStanding("well", ("Answered: the customer was told how to mend it.",), "closed by itself if all stays quiet")
    return IncidentStanding(fault, (_theirs(report) or "Waiting for people.",))


def _theirs(report: Report) -> str:
    """What other incidents work on, where nothing that was found is left to this one. A fault beside what was asked about is not the answer."""
    if not left_to_another(report):
        return ""
    if all(row.label in report.also_seen for row in report.root_causes):
        asked = fold(report.about.hosts) if report.about else "what was asked about"
        return f"No cause is proven on {asked}; what else was seen is worked on in another thread."
    return "Worked on and decided in another thread."


def _left(ladders: Sequence[Ladder]) -> tuple[str, ...]:
    """What ended fixes leave to people, and why."""
    return tuple(
        dict.fromkeys(f"{row.target}: {ENDS[row.outcome]}{f', {row.says}' if row.says else ''}." for row in ladders if row.outcome in ENDS)
    )


def _fixing(ladders: Sequence[Ladder], records: Mapping[str, Record], lost: Collection[str]) -> IncidentStanding | None:
    """The fixes under way, those at the same step together; None where none is."""
    going = [row for row in ladders if row.open and row.waiting_for != "proof" and row.now]
    if not going:
        return None
    groups: dict[tuple[object, ...], list[Ladder]] = {}
    for row in going:
        groups.setdefault((row.label, row.rung, len(row.rungs), _going(row, records, lost)), []).append(row)
    parts = sorted(groups.values(), key=lambda rows: _pressing(rows[0], records))
    doubt = _left([row for row in ladders if row.outcome == "unknown"])
    told, rest = (
        [parts[0], *(rows for rows in parts[1:] if _moves(rows[0], records))],
        [rows for rows in parts[1:] if not _moves(rows[0], records)],
    )
    people = _left([row for row in ladders if row.outcome == "ticket"])
    lines = [*doubt, *(_step(rows, records, lost) for rows in told), *_more(rest, records), *people]
    more = len(lines) - MOST_LINES
    shown = lines[:MOST_LINES] if more <= 0 else [*lines[: MOST_LINES - 1], f"and {more + 1} more fixes"]
    if len(lines) > 1:
        return IncidentStanding("people", tuple(shown), _then(parts[0]))
    step = f"{_count(parts[0][0])}: {_going(parts[0][0], records, lost)}"
    return IncidentStanding("people", tuple(shown), _then(parts[0]), _tasks(parts[0], records), step)


def _moves(ladder: Ladder, records: Mapping[str, Record]) -> bool:
    """Whether it is under way, or waits for something that people would like to know; else its card, or its turn, says the rest."""
    seen = records.get(ladder.approval)
    return ladder.waiting_for in ("idle", "node_back") or (seen is not None and seen.state in BEGUN)


def _more(groups: Sequence[Sequence[Ladder]], records: Mapping[str, Record]) -> list[str]:
    """How many other fixes wait to be decided, and how many have not been put up yet, with their hosts."""
    put_up = [row for rows in groups for row in rows if row.approval in records]
    later = [row for rows in groups for row in rows if row.approval not in records]
    return [
        f"{len(rows)} more {'fixes' if len(rows) > 1 else 'fix'} {words}: {fold(name for row in rows for name in row.target.split(','))}"
        for rows, words in ((put_up, "to decide"), (later, "to come"))
        if rows
    ]


def _step(ladders: Sequence[Ladder], records: Mapping[str, Record], lost: Collection[str]) -> str:
    return f"{_count(ladders[0])}: {_does(ladders, ladders[0].rung)} ({_going(ladders[0], records, lost)})"


def _count(ladder: Ladder) -> str:
    return f"Step {_at(ladder) + 1} of {len(_steps(ladder))}"


def _tasks(ladders: Sequence[Ladder], records: Mapping[str, Record]) -> tuple[tuple[str, Status], ...]:
    first, steps = ladders[0], _steps(ladders[0])
    seen = records.get(first.approval)
    now: Status = "in_progress" if seen and seen.state in BEGUN else "pending"
    states: list[Status] = ["complete" if n < first.rung else now if n == first.rung else "pending" for n in steps]
    return tuple((_does(ladders, n), status) for n, status in zip(steps, states, strict=True))


def _then(ladders: Sequence[Ladder]) -> str:
    """What follows the present step."""
    after = _steps(ladders[0])[_at(ladders[0]) + 1 :]
    return _does(ladders, after[0]) if after else "proved again later"


def _steps(ladder: Ladder) -> list[int]:
    """The rungs that count as the steps of this fix: those of the plan it is at, and the way back into service."""
    rung = ladder.now
    plan = ladder.tried if rung is None or rung.part == "restore" else rung.plan
    back = returns(ladder)
    return [n for n, row in enumerate(ladder.rungs) if row.plan == plan or (row.part == "restore" and back) or n == ladder.rung]


def _at(ladder: Ladder) -> int:
    return _steps(ladder).index(ladder.rung)


def _does(ladders: Sequence[Ladder], rung: int) -> str:
    """A step in the catalogue's words; of several hosts the names folded, and `…` where an argument is each one's own."""
    rows = [row.model_copy(update={"rung": rung}) for row in ladders]
    hosts = fold(name for row in rows for name in row.target.split(","))
    said = {does(row) for row in rows}
    words = said.pop() if len(said) == 1 else _in_common([row.rungs[rung] for row in rows], hosts)
    return words if hosts in words else f"{words}, {hosts}"


def _in_common(rungs: Sequence[Rung], hosts: str) -> str:
    args = [{"approval": "…", **rung.args} for rung in rungs]
    given = {name: {row.get(name, "…") for row in args} for name in args[0]}
    values = {name: hosts if name == "node" else found.pop() if len(found) == 1 else "…" for name, found in given.items()}
    return fill(REMEDIES[rungs[0].remedy].does, values)


def _going(ladder: Ladder, records: Mapping[str, Record], lost: Collection[str]) -> str:
    seen = records.get(ladder.approval)
    if seen and seen.state is State.EXECUTING and ladder.approval in lost:
        return LOST_CONTACT
    if ladder.waiting_for == "approval" and seen and seen.state in GOING:
        return GOING[seen.state] + (f" until {seen.decide_by:%H:%M} UTC" if seen.state is State.PENDING else "")
    return WAITS.get(ladder.waiting_for, "waiting for the other fixes on this host")


def _pressing(ladder: Ladder, records: Mapping[str, Record]) -> int:
    seen = records.get(ladder.approval)
    return PRESSING.index(seen.state) if seen and seen.state in PRESSING else len(PRESSING)
