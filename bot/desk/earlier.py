"""A closed incident becomes a row that later ones can search, after the report that closed it; one that lives again is of the past no more."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from bot.desk.desk import Board
from bot.store.earlier import EarlierIncidents
from graph.earlier import EarlierCause, EarlierIncident, Ended
from graph.incident.lifecycle import all_cured
from graph.ports import Progress
from graph.report import Report
from graph.rows import IncidentRows
from graph.state import ABSTAIN, NO_FAULT, Incident, Ladder
from tools.clock import Clock

MOST_HOSTS = 64
"""Of one incident; and so many devices."""


def earlier_of(state: Incident, now: datetime) -> EarlierIncident | None:
    """The row of a closed incident; None while it is open, and where nothing says where it lived."""
    rows = IncidentRows(state)
    if rows.lifecycle != "closed" or rows.origin is None:
        return None
    fixes = [row for row in rows.ladders if not any(rung.remedy == "run_check" for rung in row.rungs)]
    return EarlierIncident(
        incident=rows.id,
        origin=rows.origin,
        opened=rows.opened_at or now,
        closed=now,
        ended=_ended(rows, fixes),
        causes=_causes(rows),
        hosts=rows.brief.hosts[:MOST_HOSTS],
        did=tuple(dict.fromkeys(remedy for row in fixes for remedy in _proven(row))),
    )


def _causes(rows: IncidentRows) -> tuple[EarlierCause, ...]:
    """By a person's word where there is one; it takes its places from what was found, else from what was reported."""
    word = (rows.ticket.true_label if rows.ticket else "") or (rows.correction.label if rows.correction else "")
    denied = rows.correction.denied if rows.correction else ()
    told = {row.label for row in rows.report.told_to_customer} if rows.report else set()
    found = [
        EarlierCause(label=row.label, hosts=row.hosts[:MOST_HOSTS], devices=row.devices[:MOST_HOSTS], inside=row.label not in told)
        for row in (rows.report.root_causes if rows.report else ())
        if row.label not in denied
    ]
    if word in (NO_FAULT, ABSTAIN) or not word:
        return () if word == NO_FAULT else tuple(found)
    same = tuple(row for row in found if row.label == word or row.label.startswith(f"{word}."))
    return same or (EarlierCause(label=word, hosts=rows.brief.hosts[:MOST_HOSTS]),)


def _ended(rows: IncidentRows, fixes: Sequence[Ladder]) -> Ended:
    if proven := {(row.label, row.target) for row in fixes if row.proven}:
        if any(place not in proven for place in _to_mend(rows)):
            return "in_part"
        return "cured" if all_cured(fixes) else "passed"
    if any(row.since for row in fixes):
        return "in_vain"
    word = rows.ticket.true_label if rows.ticket else ""
    if word == NO_FAULT or (not word and rows.report is not None and rows.report.outcome == "no_fault"):
        return "well"
    in_words = rows.item.kind in ("close", "ask")  # `ask`: whatever somebody says in the thread
    return "person" if in_words or (rows.ticket is not None and rows.ticket.closed_by) else "quiet"


def _to_mend(rows: IncidentRows) -> Iterator[tuple[str, str]]:
    """Every cause with each of its hosts, one that has none by itself."""
    for cause in _causes(rows):
        yield from ((cause.label, host) for host in cause.hosts or ("",))


def _proven(ladder: Ladder) -> list[str]:
    """What was run under the plan whose proof passed."""
    if not ladder.proven:
        return []
    return [rung.remedy for rung in ladder.rungs[: ladder.rung + 1] if rung.part == "fix" and rung.plan == ladder.tried]


class RememberingBoard:
    """Posts as before. Under the incident's lease, so a row is never written by two."""

    def __init__(self, board: Board, earlier: EarlierIncidents, clock: Clock) -> None:
        self._board, self._earlier, self._clock = board, earlier, clock

    async def progress(self, p: Progress) -> None:
        await self._board.progress(p)

    async def report(self, incident: str, state: Incident, report: Report) -> None:
        await self._board.report(incident, state, report)
        if (row := earlier_of(state, self._clock.now())) is not None:
            await self._earlier.keep(row)
        else:
            await self._earlier.forget(incident)
