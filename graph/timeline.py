"""An incident's timeline: messages, logged lines, findings, proposals, approvals, runs and proofs. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Final, Literal

from graph.incident_view import IncidentView
from graph.report import Report
from graph.state import DiagnosisOutcome, InboxItem, Lifecycle, Milestone, MilestoneKind
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
        rows = [(f"{row.at:%Y-%m-%d %H:%M:%S}", row.kind, _get_actor(row), row.says) for row in self.events]
        more = [("…", "", "", f"and {self.left_out} more that were logged or said")] if self.left_out else []
        return [("UTC", "what", "who", "says"), *rows, *more]

    def replace_user_ids(self, names: Mapping[str, str]) -> "Timeline":
        return Timeline(tuple(_replace_user_id(row, names) for row in self.events), self.left_out)

    @property
    def user_ids(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(row.by for row in self.events if row.by))


def _replace_user_id(row: TimelineEvent, names: Mapping[str, str]) -> TimelineEvent:
    return TimelineEvent(row.at, row.kind, row.says, row.host, names.get(row.by, row.by))


def _get_actor(row: TimelineEvent) -> str:
    return row.by or row.host or "RackMedic"


def build_timeline(incident_view: IncidentView, records: Iterable[ActionRecord] = ()) -> Timeline:
    """Build it from a stored incident and the ledger records of its actions."""
    opening_events = (
        [TimelineEvent(incident_view.opened_at, "asked", "incident opened", by=incident_view.origin.user if incident_view.origin else "")]
        if incident_view.opened_at
        else []
    )
    actions = [event for record in records for event in _list_approval_events(record)]
    (logged, unlogged), (message_events, unsaid) = (
        _keep_oldest_and_newest(_list_log_events(incident_view), MAX_LOG_EVENTS),
        _keep_oldest_and_newest(_list_message_events(incident_view), MAX_MESSAGE_EVENTS),
    )
    event_by_key = {
        (event.at, event.kind, event.says): event
        for event in (*logged, *opening_events, *message_events, *_list_milestone_events(incident_view), *actions)
    }
    return Timeline(
        tuple(sorted(event_by_key.values(), key=lambda event: (event.at, _KIND_ORDER[event.kind], event.says))), unlogged + unsaid
    )


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
    for row in incident_view.messages:
        at = _parse_timestamp(row.get("at"))
        words = _clean_text(str(row.get("text", "")).strip())
        events += [TimelineEvent(at, "said", words or "handed in a file", by=str(row.get("user") or ""))] if at else []
    return events


def _parse_timestamp(text: object) -> datetime | None:
    try:
        at = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return at if at.tzinfo else None


def _list_milestone_events(incident_view: IncidentView) -> list[TimelineEvent]:
    return [TimelineEvent(row.at, row.kind, _clean_text(row.says), by=row.by) for row in incident_view.milestones]


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


def summarize_timeline(line: Timeline) -> str:
    """Return one line, as caption and alt text; empty without events."""
    if not line.events:
        return ""
    first, last, count = line.events[0].at, line.events[-1].at, len(line.events) + line.left_out
    runs = _render_event_runs([row for row in line.events if row.kind not in ("logged", "said")], days=first.date() != last.date())
    steps = ", ".join(runs[:MAX_SUMMARY_STEPS]) or "lines that hosts logged and words of people"
    more = f" and {len(runs) - MAX_SUMMARY_STEPS} more" if len(runs) > MAX_SUMMARY_STEPS else ""
    span = f"from {first:%Y-%m-%d %H:%M} to {last:%Y-%m-%d %H:%M}" if count > 1 else f"at {first:%Y-%m-%d %H:%M}"
    return f"{count} event{'s' * (count > 1)} {span} UTC: {steps}{more}"


def _render_event_runs(events: Sequence[TimelineEvent], *, days: bool) -> list[str]:
    """Merge consecutive events of one kind: `proposed 03:11 (128 times)`."""
    runs = [list(run) for _, run in groupby(events, key=lambda event: event.kind)]
    when = "%Y-%m-%d %H:%M" if days else "%H:%M"
    return [f"{run[0].kind} {run[0].at.strftime(when)}{f' ({len(run)} times)' if len(run) > 1 else ''}" for run in runs]


# An incident's milestones, recorded as they happen because no other stored row has their times.

MAX_MILESTONES = 40  # How many are kept (the first and the newest)
MAX_MILESTONE_CHARS = 140  # characters per text
_OUTCOME_KINDS: Final[dict[DiagnosisOutcome, MilestoneKind]] = {"diagnosed": "found", "no_fault": "well", "abstained": "unsure"}
_PROVED_OUTCOMES = frozenset({"passes_now", "cured"})
_RECHECK_MILESTONES: Final[dict[str, tuple[MilestoneKind, str]]] = {
    "cured": ("proved", "proved again, the fault did not come back"),
    "recurred": ("failed", "the fault came back"),
}


def append_milestones(before: IncidentView, report: Report, lifecycle: Lifecycle, looked: bool, at: datetime) -> list[Milestone]:
    """Return all milestones after a turn. `before` is the incident at the turn's start; `looked` says whether the turn
    checked hosts.
    """
    item = before.item
    new = [
        *_build_action_milestones(item),
        *(_build_diagnosis_milestones(before, report, at) if looked else []),
        *_build_lifecycle_milestones(before, lifecycle, item, at),
    ]
    rows = [*before.milestones, *new]
    return rows if len(rows) <= MAX_MILESTONES else [rows[0], *rows[-(MAX_MILESTONES - 1) :]]


def _build_diagnosis_milestones(before: IncidentView, report: Report, at: datetime) -> list[Milestone]:
    kind = _OUTCOME_KINDS.get(report.outcome)
    last = next((row for row in reversed(before.milestones) if row.kind in _OUTCOME_KINDS.values()), None)
    headline = report.headline[:MAX_MILESTONE_CHARS]
    return [Milestone(at=at, kind=kind, says=headline)] if kind and (last is None or (last.kind, last.says) != (kind, headline)) else []


def _build_action_milestones(item: InboxItem) -> list[Milestone]:
    data = item.data if item.kind == "action_result" else {}
    event, description = str(data.get("event", "")), str(data.get("says") or "")[:MAX_MILESTONE_CHARS]
    if event in _RECHECK_MILESTONES:
        kind, words = _RECHECK_MILESTONES[event]
        return [Milestone(at=item.at, kind=kind, says=f"{words}{f': {description}' if description else ''}"[:MAX_MILESTONE_CHARS])]
    if event not in ("done", "failed", "unknown") or not data.get("ran", True):
        return []
    action_name = str(data.get("remedy") or "an action").replace("_", " ")
    outcome = str(data.get("outcome") or "")
    milestone_kind: MilestoneKind = (
        "proved" if outcome in _PROVED_OUTCOMES else "failed" if event != "done" or outcome == "worse" else "ran"
    )
    words = f"{action_name}: {outcome.replace('_', ' ') or event}{f', {description}' if description else ''}"[:MAX_MILESTONE_CHARS]
    return [*_build_start_milestones(data.get("since"), action_name), Milestone(at=item.at, kind=milestone_kind, says=words)]


def _build_start_milestones(since: object, what: str) -> Sequence[Milestone]:
    try:
        at = datetime.fromisoformat(str(since))
    except ValueError:
        return ()
    return (Milestone(at=at, kind="ran", says=f"{what} began"),) if at.tzinfo else ()


def _build_lifecycle_milestones(before: IncidentView, lifecycle: Lifecycle, item: InboxItem, at: datetime) -> list[Milestone]:
    if lifecycle == before.lifecycle or lifecycle not in ("handed_off", "closed"):
        return []
    person = item.user if item.kind in ("hand_off", "take", "wait", "close", "ask", "recheck") else ""
    return [
        Milestone(at=at, kind="closed", says="incident closed", by=person)
        if lifecycle == "closed"
        else Milestone(at=at, kind="handed over", says="handed to people", by=person)
    ]
