"""An incident's timeline: messages, logged lines, findings, proposals, approvals, runs and proofs."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Final, Literal

from graph.incident_view import IncidentView
from graph.state import MilestoneKind
from kb.redact import redact_start, show_invisible
from tools.ledger.record import ActionRecord

TimelineKind = Literal["logged", "asked", "said", "proposed", "approved", "denied"] | MilestoneKind
TimelineLane = Literal["hosts", "people", "RackMedic"]
# Actor of each kind. The order breaks ties between events of one moment.
LANES_BY_KIND: Final[Mapping[TimelineKind, TimelineLane]] = {
    "logged": "hosts",
    "asked": "people",
    "said": "people",
    "found": "RackMedic",
    "unsure": "RackMedic",
    "well": "RackMedic",
    "proposed": "RackMedic",
    "approved": "people",
    "denied": "people",
    "ran": "RackMedic",
    "failed": "RackMedic",
    "proved": "RackMedic",
    "handed over": "RackMedic",
    "closed": "people",
}
_KIND_ORDER: Final = {kind: n for n, kind in enumerate(LANES_BY_KIND)}
MAX_EVENT_CHARS = 160
MAX_LOG_EVENTS = 40
MAX_MESSAGE_EVENTS = 40
MAX_SUMMARY_STEPS = 12


@dataclass(frozen=True, slots=True)
class TimelineEvent:
    """`by` is a person's id or name, empty without one."""

    at: datetime
    kind: TimelineKind
    says: str
    host: str = ""
    by: str = ""


@dataclass(frozen=True, slots=True)
class Timeline:
    """Oldest first. `left_out` counts dropped log lines and messages."""

    events: tuple[TimelineEvent, ...]
    left_out: int = 0

    def to_table(self) -> list[tuple[str, ...]]:
        table = [(f"{event.at:%Y-%m-%d %H:%M:%S}", event.kind, _get_actor(event), event.says) for event in self.events]
        more = [("…", "", "", f"and {self.left_out} more that were logged or said")] if self.left_out else []
        return [("UTC", "what", "who", "says"), *table, *more]

    def replace_user_ids(self, names: Mapping[str, str]) -> "Timeline":
        return Timeline(tuple(_replace_user_id(event, names) for event in self.events), self.left_out)

    @property
    def user_ids(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(event.by for event in self.events if event.by))


def _replace_user_id(event: TimelineEvent, names_by_user: Mapping[str, str]) -> TimelineEvent:
    return TimelineEvent(event.at, event.kind, event.says, event.host, names_by_user.get(event.by, event.by))


def _get_actor(event: TimelineEvent) -> str:
    return event.by or event.host or "RackMedic"


def build_timeline(incident_view: IncidentView, records: Iterable[ActionRecord] = ()) -> Timeline:
    """Build the timeline from a stored incident and the ledger records of its actions."""
    opening_events: list[TimelineEvent] = []
    if incident_view.opened_at:
        user = incident_view.origin.user if incident_view.origin else ""
        opening_events = [TimelineEvent(incident_view.opened_at, "asked", "incident opened", by=user)]
    actions = [event for record in records for event in _list_approval_events(record)]
    log_events, dropped_log_events = _keep_oldest_and_newest(_list_log_events(incident_view), MAX_LOG_EVENTS)
    message_events, dropped_messages = _keep_oldest_and_newest(_list_message_events(incident_view), MAX_MESSAGE_EVENTS)
    event_by_key = {
        (event.at, event.kind, event.says): event
        for event in (*log_events, *opening_events, *message_events, *_list_milestone_events(incident_view), *actions)
    }
    events = sorted(event_by_key.values(), key=lambda event: (event.at, _KIND_ORDER[event.kind], event.says))
    return Timeline(tuple(events), dropped_log_events + dropped_messages)


def _keep_oldest_and_newest(events: Sequence[TimelineEvent], most: int) -> tuple[Sequence[TimelineEvent], int]:
    """Return kept events and the number dropped in between."""
    if len(events) <= most:
        return events, 0
    return (*events[: most // 2], *events[-(most // 2) :]), len(events) - 2 * (most // 2)


def _clean_text(text: str) -> str:
    line = " ".join(show_invisible(redact_start(text, 2 * MAX_EVENT_CHARS)).split())
    return line if len(line) <= MAX_EVENT_CHARS else f"{line[: MAX_EVENT_CHARS - 1]}…"


def _list_log_events(incident_view: IncidentView) -> list[TimelineEvent]:
    causes = incident_view.report.root_causes if incident_view.report else ()
    evidence_by_line = {
        (evidence.time, evidence.host, evidence.line): evidence for cause in causes for evidence in cause.evidence if evidence.time
    }
    events = [
        TimelineEvent(evidence.time, "logged", _clean_text(evidence.says or evidence.line), host=evidence.host)
        for evidence in evidence_by_line.values()
        if evidence.time is not None
    ]
    return sorted(events, key=lambda event: event.at)


def _list_message_events(incident_view: IncidentView) -> list[TimelineEvent]:
    events = []
    for message in incident_view.messages:
        at = _parse_timestamp(message.get("at"))
        words = _clean_text(str(message.get("text", "")).strip())
        if at:
            events.append(TimelineEvent(at, "said", words or "handed in a file", by=str(message.get("user") or "")))
    return events


def _parse_timestamp(text: object) -> datetime | None:
    try:
        at = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return at if at.tzinfo else None


def _list_milestone_events(incident_view: IncidentView) -> list[TimelineEvent]:
    return [
        TimelineEvent(milestone.at, milestone.kind, _clean_text(milestone.says), by=milestone.by) for milestone in incident_view.milestones
    ]


def _list_approval_events(record: ActionRecord) -> Sequence[TimelineEvent]:
    """Later results are milestones of the incident."""
    action = record.action
    description = f"{action.remedy.replace('_', ' ')} on {', '.join(action.devices) or action.target}"
    votes = [
        TimelineEvent(
            at,
            "approved" if vote.verdict == "approve" else "denied",
            _clean_text(description),
            host=action.target,
            by=vote.voter.rpartition(":")[2],
        )
        for vote in record.votes
        if (at := _parse_timestamp(vote.at))
    ]
    return [TimelineEvent(record.proposed_at, "proposed", _clean_text(description), host=action.target), *votes]


def summarize_timeline(timeline: Timeline) -> str:
    """Return one line, as caption and alt text; empty without events."""
    if not timeline.events:
        return ""
    first, last, count = timeline.events[0].at, timeline.events[-1].at, len(timeline.events) + timeline.left_out
    runs = _render_event_runs(
        [event for event in timeline.events if event.kind not in ("logged", "said")], days=first.date() != last.date()
    )
    steps = ", ".join(runs[:MAX_SUMMARY_STEPS]) or "lines that hosts logged and words of people"
    rest = f" and {len(runs) - MAX_SUMMARY_STEPS} more" if len(runs) > MAX_SUMMARY_STEPS else ""
    span = f"from {first:%Y-%m-%d %H:%M} to {last:%Y-%m-%d %H:%M}" if count > 1 else f"at {first:%Y-%m-%d %H:%M}"
    return f"{count} event{'s' * (count > 1)} {span} UTC: {steps}{rest}"


def _render_event_runs(events: Sequence[TimelineEvent], *, days: bool) -> list[str]:
    """Merge consecutive events of one kind: `proposed 03:11 (128 times)`."""
    runs = [list(run) for _, run in groupby(events, key=lambda event: event.kind)]
    when = "%Y-%m-%d %H:%M" if days else "%H:%M"
    return [f"{run[0].kind} {run[0].at.strftime(when)}{f' ({len(run)} times)' if len(run) > 1 else ''}" for run in runs]
