"""Timeline table of a page. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from bot.remediation.cards import action_text
from bot.reports.page import PagePart, PageTable, Paragraph
from bot.reports.report_data import IncidentReportData
from kb.scan import zero_digits
from tools.inventory.host_ranges import fold_host_names
from tools.ledger.history import ActionEvent
from tools.ledger.record import ActionRecord, list_targets

MAX_MOMENTS = 60  # rows in all
MAX_MACHINE_MOMENTS = 20  # machine lines among them
MAX_MESSAGE_CHARS = 200  # characters of a message
# ledger event → words
EVENT_TEXTS: Final[Mapping[str, str]] = {
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
HUMAN_EVENTS: Final = frozenset({"vote_approve", "vote_deny", "reconcile", "revoke"})


MAX_SHORT_MOMENTS: Final = 8  # moments on the first page
# ledger events of the short timeline
SHORT_TIMELINE_EVENTS: Final = frozenset(
    {"vote_approve", "vote_deny", "finish_done", "finish_failed", "finish_unknown", "reconcile", "revoke"}
)
# milestones that the ledger lacks or has in less detail, such as what a proof said
SHORT_TIMELINE_MILESTONES: Final = frozenset({"found", "unsure", "well", "proved", "handed over", "closed"})


@dataclass(frozen=True, slots=True)
class PageMoment:
    at: datetime
    who: str  # a person, RackMedic, or machines
    what: str
    tells: bool = False  # part of the short timeline


@dataclass(frozen=True, slots=True)
class PageTimeline:
    """The first page's timeline, and the full one if longer."""

    short: Sequence[PagePart]
    whole: Sequence[PagePart] = ()


def build_page_timeline(data: IncidentReportData) -> PageTimeline:
    """Return the timeline; machine lines are omitted first, and counted."""
    printed = sorted(_list_machine_lines(data), key=lambda one: one.at)
    printed = [replace(one, tells=at == 0) for at, one in enumerate(printed)]
    people = [*_list_opening(data), *_list_messages(data), *_list_milestones(data), *_list_action_moments(data)]
    shown = sorted([*people[:MAX_MOMENTS], *printed[:MAX_MACHINE_MOMENTS]], key=lambda one: one.at)  # stable: equal times keep this order
    rest = len(people) + len(printed) - len(shown)
    if not shown:
        return PageTimeline([Paragraph("No moment is known.")])
    if len(shown) <= MAX_SHORT_MOMENTS and not rest:
        return PageTimeline([_build_table(shown)])
    short = _select_short_timeline(shown)
    left = len(shown) + rest - len(short)
    more = [Paragraph(f"… and {rest} more.")] if rest else []
    return PageTimeline([_build_table(short), Paragraph(f"… and {left} more, in the appendix.")], [_build_table(shown), *more])


def _select_short_timeline(shown: Sequence[PageMoment]) -> Sequence[PageMoment]:
    """Return the important moments, of many the first and last."""
    telling = [one for one in shown if one.tells]
    if len(telling) <= MAX_SHORT_MOMENTS:
        return telling or shown[:MAX_SHORT_MOMENTS]
    return [*telling[: MAX_SHORT_MOMENTS // 2], *telling[-(MAX_SHORT_MOMENTS - MAX_SHORT_MOMENTS // 2) :]]


def _build_table(shown: Sequence[PageMoment]) -> PageTable:
    days = len({one.at.date() for one in shown}) > 1
    head = ("Time (UTC)" if days else f"{shown[0].at:%Y-%m-%d} (UTC)", "Who or where", "What")
    return PageTable(head, [(f"{one.at:{'%Y-%m-%d %H:%M:%S' if days else '%H:%M:%S'}}", one.who, one.what) for one in shown])


def format_actions(records: Sequence[ActionRecord]) -> str:
    what = action_text.describe_actions([row.action for row in records])
    hosts = action_text.fold_hosts_exactly(sorted({host for row in records for host in list_targets(row.action)}))
    return what if hosts in what else f"{what} on {hosts}"


def _list_opening(data: IncidentReportData) -> Iterator[PageMoment]:
    if data.rows.opened_at:
        yield PageMoment(data.rows.opened_at, data.get_person_name(""), "incident opened", tells=True)


def _list_messages(data: IncidentReportData) -> Iterator[PageMoment]:
    for said in data.rows.messages:
        if said.get("at"):
            text = str(said.get("text", "")).strip().partition("\n")[0][:MAX_MESSAGE_CHARS]
            who = data.get_person_name(str(said.get("user") or "")) if said.get("user") else "somebody"
            yield PageMoment(datetime.fromisoformat(str(said["at"])), who, text or "(a file)")


def _list_milestones(data: IncidentReportData) -> Iterator[PageMoment]:
    """Yield milestones, with those of actions if the ledger was unreadable."""
    for row in data.rows.milestones:
        if row.kind in SHORT_TIMELINE_MILESTONES or data.records is None:
            yield PageMoment(row.at, data.get_person_name(row.by), f"{row.kind}: {row.says}" if row.says else row.kind, tells=True)


def _list_machine_lines(data: IncidentReportData) -> Iterator[PageMoment]:
    """Yield machine lines, merged per second if they differ only in numbers."""
    report = data.rows.report
    alike: dict[tuple[datetime, str], tuple[str, set[str]]] = {}
    for found in (row for cause in (report.root_causes if report else ()) for row in cause.evidence):
        if found.time:
            line = found.line.strip()
            alike.setdefault((found.time.replace(microsecond=0), zero_digits(line)), (line, set()))[1].add(found.host)
    for (at, _), (line, hosts) in alike.items():
        yield PageMoment(at, fold_host_names(host for host in hosts if host) or "log", line)


def _list_action_moments(data: IncidentReportData) -> Iterator[PageMoment]:
    """Yield actions from the audit log, else from the records."""
    known = {row.approval: row for row in data.records or ()}
    told = any(row.kind == "proved" for row in data.rows.milestones)
    alike: dict[tuple[datetime, str, str, str], list[ActionRecord]] = {}
    for event in data.history.events or _build_events(known.values()):
        if event.approval in known and not (event.event == "outcome" and told):
            row = known[event.approval]
            by = event.by if event.event in HUMAN_EVENTS else ""
            alike.setdefault((event.at.replace(microsecond=0), event.event, by, row.action.remedy), []).append(row)
    for (at, became, by, _), records in alike.items():
        yield PageMoment(
            at,
            data.get_person_name(by),
            f"{EVENT_TEXTS.get(became, became.replace('_', ' '))}: {format_actions(records)}",
            became in SHORT_TIMELINE_EVENTS,
        )


def _build_events(records: Iterable[ActionRecord]) -> Iterator[ActionEvent]:
    for row in records:
        yield ActionEvent(row.proposed_at, "propose", row.approval, "")
        for vote in row.votes:
            yield ActionEvent(datetime.fromisoformat(vote.at), f"vote_{vote.verdict}", row.approval, vote.voter)
