"""Data of an incident's page, and its timeline table. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from bot.incidents.dispatch.metrics import IncidentMetrics
from bot.remediation.cards import action_text
from bot.reports.page import Figure, PagePart, PageTable, Paragraph
from graph.incident_view import IncidentView
from kb.needle_search import zero_digits
from tools.inventory.host_ranges import fold_host_names
from tools.ledger.audit import ActionEvent, ActionHistory
from tools.ledger.record import ActionRecord, list_requesters, list_targets

# Data of an incident's page.

BOT_USER = "rackmedic"


@dataclass(frozen=True, slots=True)
class IncidentReportData:
    """`records` is None if the ledger was unreadable. `names`: user id → display name. `unread`: notes on missing data."""

    rows: IncidentView
    made: datetime
    records: tuple[ActionRecord, ...] | None = ()
    history: ActionHistory = field(default_factory=ActionHistory)
    course: IncidentMetrics | None = None
    names: Mapping[str, str] = field(default_factory=dict)
    titles: Mapping[str, str] = field(default_factory=dict)  # label → title
    figures: tuple[Figure, ...] = ()
    unread: tuple[str, ...] = ()

    def get_person_name(self, who: str) -> str:
        """Return the display name of `U…` or `TEAM:U…`."""
        if who.lower() in ("", BOT_USER):
            return "RackMedic"
        user = who.rpartition(":")[2]
        return self.names.get(user) or user


def is_ended_by_person(row: ActionRecord) -> bool:
    """Return True if a person ended it; `says` is then the reason."""
    return bool(row.ended_by) and ":" in row.ended_by


def list_people(incident_view: IncidentView, records: tuple[ActionRecord, ...]) -> set[str]:
    return {user.rpartition(":")[2] for user in _list_users(incident_view, records) if user and user != BOT_USER}


def _list_users(incident_view: IncidentView, records: tuple[ActionRecord, ...]) -> Iterator[str]:
    ticket, word, origin = incident_view.ticket, incident_view.correction, incident_view.origin
    yield from (incident_view.owner, origin.user if origin else "", word.by if word else "")
    yield from (ticket.taken_by, ticket.closed_by) if ticket else ()
    yield from (str(message.get("user") or "") for message in incident_view.messages)
    for row in records:
        yield from (vote.voter for vote in row.votes)
        yield from list_requesters(row.action)
        yield row.ended_by if ":" in row.ended_by else ""


# Timeline table of a page.

MAX_MOMENTS = 60  # rows in all
MAX_MACHINE_MOMENTS = 20  # machine lines among them
MAX_MESSAGE_CHARS = 200  # characters of a message
# ledger event → words
EVENT_TEXTS: Final[Mapping[str, str]] = {
    "propose": "proposed for approval",
    "vote_approve": "approved",
    "vote_deny": "rejected",
    "claim": "started",
    "adopt": "its worker stopped answering; another worker checks what happened",
    "finish_done": "ran",
    "finish_failed": "failed",
    "finish_unknown": "unknown whether it ran",
    "reconcile": "what happened was said",
    "expire": "expired",
    "supersede": "replaced or no longer needed",
    "revoke": "revoked",
    "outcome": "its result was checked",
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
    shown_moments = sorted(
        [*people[:MAX_MOMENTS], *printed[:MAX_MACHINE_MOMENTS]], key=lambda one: one.at
    )  # stable: equal times keep this order
    rest = len(people) + len(printed) - len(shown_moments)
    if not shown_moments:
        return PageTimeline([Paragraph("No moment is known.")])
    if len(shown_moments) <= MAX_SHORT_MOMENTS and not rest:
        return PageTimeline([_build_table(shown_moments)])
    short = _select_short_timeline(shown_moments)
    hidden_count = len(shown_moments) + rest - len(short)
    more = [Paragraph(f"… and {rest} more.")] if rest else []
    return PageTimeline(
        [_build_table(short), Paragraph(f"… and {hidden_count} more, in the appendix.")], [_build_table(shown_moments), *more]
    )


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
    description = action_text.describe_actions([row.action for row in records])
    hosts = action_text.fold_hosts_exactly(sorted({host for row in records for host in list_targets(row.action)}))
    return description if hosts in description else f"{description} on {hosts}"


def _list_opening(data: IncidentReportData) -> Iterator[PageMoment]:
    if data.rows.opened_at:
        yield PageMoment(data.rows.opened_at, data.get_person_name(""), "incident opened", tells=True)


def _list_messages(data: IncidentReportData) -> Iterator[PageMoment]:
    for message in data.rows.messages:
        if message.get("at"):
            text = str(message.get("text", "")).strip().partition("\n")[0][:MAX_MESSAGE_CHARS]
            person_name = data.get_person_name(str(message.get("user") or "")) if message.get("user") else "somebody"
            yield PageMoment(datetime.fromisoformat(str(message["at"])), person_name, text or "(a file)")


def _list_milestones(data: IncidentReportData) -> Iterator[PageMoment]:
    """Yield milestones, with those of actions if the ledger was unreadable."""
    for row in data.rows.milestones:
        if row.kind in SHORT_TIMELINE_MILESTONES or data.records is None:
            yield PageMoment(row.at, data.get_person_name(row.by), f"{row.kind}: {row.says}" if row.says else row.kind, tells=True)


def _list_machine_lines(data: IncidentReportData) -> Iterator[PageMoment]:
    """Yield machine lines, merged per second if they differ only in numbers."""
    report = data.rows.report
    hosts_by_line: dict[tuple[datetime, str], tuple[str, set[str]]] = {}
    for evidence in (row for cause in (report.root_causes if report else ()) for row in cause.evidence):
        if evidence.time:
            line = evidence.line.strip()
            hosts_by_line.setdefault((evidence.time.replace(microsecond=0), zero_digits(line)), (line, set()))[1].add(evidence.host)
    for (at, _), (line, hosts) in hosts_by_line.items():
        yield PageMoment(at, fold_host_names(host for host in hosts if host) or "log", line)


def _list_action_moments(data: IncidentReportData) -> Iterator[PageMoment]:
    """Yield actions from the audit log, else from the records."""
    record_by_approval = {row.approval: row for row in data.records or ()}
    has_proof = any(row.kind == "proved" for row in data.rows.milestones)
    records_by_moment: dict[tuple[datetime, str, str, str], list[ActionRecord]] = {}
    for event in data.history.events or _build_events(record_by_approval.values()):
        if event.approval in record_by_approval and not (event.event == "outcome" and has_proof):
            row = record_by_approval[event.approval]
            person = event.by if event.event in HUMAN_EVENTS else ""
            records_by_moment.setdefault((event.at.replace(microsecond=0), event.event, person, row.action.remedy), []).append(row)
    for (at, became, person, _), records in records_by_moment.items():
        yield PageMoment(
            at,
            data.get_person_name(person),
            f"{EVENT_TEXTS.get(became, became.replace('_', ' '))}: {format_actions(records)}",
            became in SHORT_TIMELINE_EVENTS,
        )


def _build_events(records: Iterable[ActionRecord]) -> Iterator[ActionEvent]:
    for row in records:
        yield ActionEvent(row.proposed_at, "propose", row.approval, "")
        for vote in row.votes:
            yield ActionEvent(datetime.fromisoformat(vote.at), f"vote_{vote.verdict}", row.approval, vote.voter)
