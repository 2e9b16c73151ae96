"""When what happened: what people said, what machines printed, what was decided and run, in one table. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from bot.cards.approvals import words
from bot.postmortem.material import IncidentMaterial
from bot.postmortem.page import PagePart, PageTable, Paragraph
from kb.scan import zeroed
from tools.inventory.ranges import fold
from tools.ledger.history import ActionEvent
from tools.ledger.record import Record, targets_of

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


SHORT: Final = 8
"""Moments on the first page."""
TOLD: Final = frozenset({"vote_approve", "vote_deny", "finish_done", "finish_failed", "finish_unknown", "reconcile", "revoke"})
"""What of the ledger the story in short is made of."""
MARKED: Final = frozenset({"found", "unsure", "well", "proved", "handed over", "closed"})
"""Milestones of which the ledger knows nothing, or less: of a proof not what it said."""


@dataclass(frozen=True, slots=True)
class PageMoment:
    at: datetime
    who: str
    """A person, RackMedic, or machines."""
    what: str
    tells: bool = False
    """It belongs to the story in short."""


@dataclass(frozen=True, slots=True)
class PageTimeline:
    """What of it stands on the first page, and all of it where that is more."""

    short: Sequence[PagePart]
    whole: Sequence[PagePart] = ()


def timeline(of: IncidentMaterial) -> PageTimeline:
    """What does not fit is counted, and the machines' own lines go first."""
    printed = sorted(_printed(of), key=lambda one: one.at)
    printed = [replace(one, tells=at == 0) for at, one in enumerate(printed)]
    people = [*_opened(of), *_said(of), *_marked(of), *_done(of)]
    shown = sorted([*people[:MOST], *printed[:MOST_PRINTED]], key=lambda one: one.at)  # of one moment in this order
    rest = len(people) + len(printed) - len(shown)
    if not shown:
        return PageTimeline([Paragraph("No moment is known.")])
    if len(shown) <= SHORT and not rest:
        return PageTimeline([_table(shown)])
    short = _short(shown)
    left = len(shown) + rest - len(short)
    more = [Paragraph(f"… and {rest} more.")] if rest else []
    return PageTimeline([_table(short), Paragraph(f"… and {left} more, in the appendix.")], [_table(shown), *more])


def _short(shown: Sequence[PageMoment]) -> Sequence[PageMoment]:
    """What tells the story; of a long one how it began and how it ended."""
    telling = [one for one in shown if one.tells]
    if len(telling) <= SHORT:
        return telling or shown[:SHORT]
    return [*telling[: SHORT // 2], *telling[-(SHORT - SHORT // 2) :]]


def _table(shown: Sequence[PageMoment]) -> PageTable:
    days = len({one.at.date() for one in shown}) > 1
    head = ("Time (UTC)" if days else f"{shown[0].at:%Y-%m-%d} (UTC)", "Who or where", "What")
    return PageTable(head, [(f"{one.at:{'%Y-%m-%d %H:%M:%S' if days else '%H:%M:%S'}}", one.who, one.what) for one in shown])


def doing(records: Sequence[Record]) -> str:
    """What one action does, or several that are alike, and where."""
    what = words.does_each([row.action for row in records])
    hosts = words.folded(sorted({host for row in records for host in targets_of(row.action)}))
    return what if hosts in what else f"{what} on {hosts}"


def _opened(of: IncidentMaterial) -> Iterator[PageMoment]:
    if of.rows.opened_at:
        yield PageMoment(of.rows.opened_at, of.name(""), "incident opened", tells=True)


def _said(of: IncidentMaterial) -> Iterator[PageMoment]:
    for said in of.rows.said:
        if said.get("at"):
            text = str(said.get("text", "")).strip().partition("\n")[0][:SAID]
            who = of.name(str(said.get("user") or "")) if said.get("user") else "somebody"
            yield PageMoment(datetime.fromisoformat(str(said["at"])), who, text or "(a file)")


def _marked(of: IncidentMaterial) -> Iterator[PageMoment]:
    """What it came to; what became of actions too where the ledger was not read."""
    for row in of.rows.milestones:
        if row.kind in MARKED or of.records is None:
            yield PageMoment(row.at, of.name(row.by), f"{row.kind}: {row.says}" if row.says else row.kind, tells=True)


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
    told = any(row.kind == "proved" for row in of.rows.milestones)
    alike: dict[tuple[datetime, str, str, str], list[Record]] = {}
    for event in of.history.events or _of_records(known.values()):
        if event.approval in known and not (event.event == "outcome" and told):
            row = known[event.approval]
            by = event.by if event.event in BY_PEOPLE else ""
            alike.setdefault((event.at.replace(microsecond=0), event.event, by, row.action.remedy), []).append(row)
    for (at, became, by, _), records in alike.items():
        yield PageMoment(at, of.name(by), f"{EVENTS.get(became, became.replace('_', ' '))}: {doing(records)}", became in TOLD)


def _of_records(records: Iterable[Record]) -> Iterator[ActionEvent]:
    for row in records:
        yield ActionEvent(row.proposed_at, "propose", row.approval, "")
        for vote in row.votes:
            yield ActionEvent(datetime.fromisoformat(vote.at), f"vote_{vote.verdict}", row.approval, vote.voter)
