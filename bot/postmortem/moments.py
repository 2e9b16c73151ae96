"""When what happened: what people said, what machines printed, what was decided and run, in one table. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from bot.cards.approvals import words
from bot.postmortem.material import IncidentMaterial
from bot.postmortem.page import PagePart, PageTable, Paragraph
from kb.scan import zeroed
from tools.inventory.ranges import fold
from tools.ledger.history import ActionEvent
from tools.ledger.record import Record

MOST, MOST_PRINTED, SAID = 60, 20, 200
"""Moments that are shown, those of machines among them, and characters of what somebody said."""
EVENTS: Final[Mapping[str, str]] = {
    "propose": "put up for decision",
    "vote_approve": "approved",
    "vote_deny": "rejected",
    "claim": "started",
    "adopt": "its worker went silent, another one finds out what happened",
    "finish_done": "ran",
    "finish_failed": "failed",
    "finish_unknown": "nobody knows whether it ran",
    "reconcile": "what happened was said",
    "expire": "its time was over",
    "supersede": "replaced, or wanted no more",
    "revoke": "taken back",
    "outcome": "its proof was read",
}
"""What the ledger wrote → what happened, in words."""
BY_PEOPLE: Final = frozenset({"vote_approve", "vote_deny", "reconcile", "revoke"})


@dataclass(frozen=True, slots=True)
class PageMoment:
    at: datetime
    who: str
    """A person, RackMedic, or machines."""
    what: str


def timeline(of: IncidentMaterial) -> list[PagePart]:
    """The table; what does not fit is counted, and the machines' own lines go first."""
    people, printed = [*_opened(of), *_said(of), *_done(of)], sorted(_printed(of), key=lambda one: one.at)
    shown = sorted([*people[:MOST], *printed[:MOST_PRINTED]], key=lambda one: one.at)  # of one moment in this order
    if not shown:
        return [Paragraph("No moment is known.")]
    days = len({one.at.date() for one in shown}) > 1
    head = ("Time (UTC)" if days else f"{shown[0].at:%Y-%m-%d} (UTC)", "Who or where", "What")
    table = PageTable(head, [(f"{one.at:{'%Y-%m-%d %H:%M:%S' if days else '%H:%M:%S'}}", one.who, one.what) for one in shown])
    rest = len(people) + len(printed) - len(shown)
    return [table, *([Paragraph(f"… and {rest} more.")] if rest else [])]


def doing(records: Sequence[Record]) -> str:
    """What one action does, or several that are alike, and where."""
    what = words.does_each([row.action for row in records])
    hosts = words.folded(sorted({row.action.target for row in records}))
    return what if hosts in what else f"{what} on {hosts}"


def _opened(of: IncidentMaterial) -> Iterator[PageMoment]:
    if of.rows.opened_at:
        yield PageMoment(of.rows.opened_at, of.name(""), "incident opened")


def _said(of: IncidentMaterial) -> Iterator[PageMoment]:
    for said in of.rows.said:
        if said.get("at"):
            text = str(said.get("text", "")).strip().partition("\n")[0][:SAID]
            who = of.name(str(said.get("user") or "")) if said.get("user") else "somebody"
            yield PageMoment(datetime.fromisoformat(str(said["at"])), who, text or "(a file)")


def _printed(of: IncidentMaterial) -> Iterator[PageMoment]:
    """What machines printed; those that differ in nothing but numbers in one second together."""
    report = of.rows.report
    alike: dict[tuple[datetime, str], tuple[str, set[str]]] = {}
    for found in (row for cause in (report.root_causes if report else ()) for row in cause.evidence):
        if found.time:
            line = found.line.strip()
            alike.setdefault((found.time.replace(microsecond=0), zeroed(line)), (line, set()))[1].add(found.host)
    for (at, _), (line, hosts) in alike.items():
        yield PageMoment(at, fold(host for host in hosts if host) or "log", line)


def _done(of: IncidentMaterial) -> Iterator[PageMoment]:
    """What the audit log says of actions; where that was not read, what their records say."""
    known = {row.approval: row for row in of.records or ()}
    alike: dict[tuple[datetime, str, str, str], list[Record]] = {}
    for event in of.history.events or _of_records(known.values()):
        if event.approval in known:
            row = known[event.approval]
            by = event.by if event.event in BY_PEOPLE else ""
            alike.setdefault((event.at.replace(microsecond=0), event.event, by, row.action.remedy), []).append(row)
    for (at, became, by, _), records in alike.items():
        yield PageMoment(at, of.name(by), f"{EVENTS.get(became, became.replace('_', ' '))}: {doing(records)}")


def _of_records(records: Iterable[Record]) -> Iterator[ActionEvent]:
    for row in records:
        yield ActionEvent(row.proposed_at, "propose", row.approval, "")
        for vote in row.votes:
            yield ActionEvent(datetime.fromisoformat(vote.at), f"vote_{vote.verdict}", row.approval, vote.voter)
