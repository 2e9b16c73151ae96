"""Answer what changed since a time, and which closed incidents had the same cause, device or host."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from graph.closed_incidents import ClosedIncident, ClosedIncidentMatches, ClosedIncidentQuery
from graph.engine.fact_history import EVENT_KEY_PREFIXES
from graph.engine.reference_data import is_tenant_writable
from graph.incident.answers.answer_context import (
    AnswerContext,
    build_answer,
    clean_text,
    format_age,
    format_log_line,
    get_check_name,
    render_recheck_offer,
    render_source,
    render_unknown_names,
    resolve_target_hosts,
)
from graph.incident.turn_result import TurnResult
from graph.remediation.outcomes import format_current_step
from graph.report import ClosedIncidentLink
from graph.state import Origin
from tools.fact import Fact, Status
from tools.inventory.host_ranges import fold_host_names

# Closed incidents with the same cause, device or host; "none found" differs from "could not look".

MAX_SHOWN_INCIDENTS = 5
# bounds of one query
MAX_QUERY_HOSTS = 32
MAX_QUERY_DEVICES = 32
MAX_QUERY_LABELS = 8


class IncidentProximity(StrEnum):
    """How close a closed incident is to this one."""

    DEVICE = "same device"
    HOST = "same host"
    CAUSE = "elsewhere"
    OTHER = "another cause"


# how it ended
CLOSURE_TEXTS: Final = {
    "cured": "proved twice",
    "passed": "passed its proof once",
    "in_part": "proved for part of it alone",
    "in_vain": "what ran is not proved to have helped",
    "person": "closed by a person, nothing of mine ran",
    "well": "nothing was broken",
    "quiet": "no further message, and none of my fixes ran",
}


def build_query(context: AnswerContext) -> ClosedIncidentQuery:
    """Build the query from what the message names, else from the findings."""
    query_hosts = resolve_target_hosts(context)
    hosts = query_hosts.hosts if query_hosts.named or context.faulty_hosts else context.case.brief.hosts
    roots = context.root_causes
    devices = [name for row in roots for name in row.devices if name.partition("/")[0] in hosts]
    labels = context.message.labels or tuple(row.label for row in roots)
    reader = context.case.origin or Origin()
    visible = context.case.visible
    return ClosedIncidentQuery(
        context.case.id, reader, visible, hosts[:MAX_QUERY_HOSTS], tuple(devices[:MAX_QUERY_DEVICES]), labels[:MAX_QUERY_LABELS]
    )


def classify_proximity(row: ClosedIncident, query: ClosedIncidentQuery) -> IncidentProximity:
    """Return the closest proximity."""
    same = [cause for cause in row.causes if cause.label in query.labels]
    if any(set(cause.devices) & set(query.devices) for cause in same):
        return IncidentProximity.DEVICE
    if any(set(cause.hosts) & set(query.hosts) for cause in same):
        return IncidentProximity.HOST
    return IncidentProximity.CAUSE if same else IncidentProximity.OTHER


def render_matches(
    context: AnswerContext, query: ClosedIncidentQuery, seen: ClosedIncidentMatches
) -> tuple[list[str], tuple[ClosedIncidentLink, ...]]:
    """Return the answer's lines, and the incidents they mention."""
    if seen.could_not:
        return [f"I could not look for earlier incidents: {seen.could_not}."], ()
    if not (query.hosts or query.labels):
        return ["Name a host, and I look for its earlier incidents; nothing is found here yet."], ()
    rows = [(classify_proximity(row, query), row) for row in seen.found]
    shown_incidents = sorted(rows, key=lambda pair: pair[0] is IncidentProximity.OTHER)[:MAX_SHOWN_INCIDENTS]
    lines = [
        *_render_headings(context, query, rows, cut=seen.cut),
        *(f"• {_render_incident(context, proximity, row, query)}" for proximity, row in shown_incidents),
    ]
    lines += [f"… and {len(rows) - MAX_SHOWN_INCIDENTS} more."] if len(rows) > MAX_SHOWN_INCIDENTS else []
    return [*lines, _render_retention(seen.since)], tuple(
        ClosedIncidentLink(incident=row.incident, opened=row.opened) for _, row in shown_incidents
    )


def _render_headings(
    context: AnswerContext, query: ClosedIncidentQuery, rows: Sequence[tuple[IncidentProximity, ClosedIncident]], *, cut: bool
) -> list[str]:
    same = [row for proximity, row in rows if proximity is not IncidentProximity.OTHER]
    other_incidents = [row for proximity, row in rows if proximity is IncidentProximity.OTHER]
    cause_titles = " or ".join(context.get_title(label) for label in query.labels[:2])
    heads = []
    if same:
        counts_by_proximity = [
            (proximity, sum(row_proximity is proximity for row_proximity, _ in rows))
            for proximity in (IncidentProximity.DEVICE, IncidentProximity.HOST, IncidentProximity.CAUSE)
        ]
        parts = ", ".join(
            f"{count} {'on the ' if proximity is not IncidentProximity.CAUSE else ''}{proximity}"
            for proximity, count in counts_by_proximity
            if count
        )
        least = "at least " if cut else ""
        has_close_match = not context.message.hosts or any(
            proximity in (IncidentProximity.DEVICE, IncidentProximity.HOST) for proximity, _ in rows
        )
        yes = "Yes: " if context.message.predicate == "happened" and has_close_match else ""
        heads.append(f"{yes}{cause_titles} {least}{format_times(len(same))} since {min(row.opened for row in same):%Y-%m-%d} ({parts}).")
    elif query.labels:
        heads.append(f"None of the closed incidents that I keep was {cause_titles}.")
    host_names = fold_host_names(query.hosts)
    if other_incidents:
        least = "at least " if cut else ""
        heads.append(
            f"{host_names} had {'something else' if query.labels else 'an incident'} {least}{format_times(len(other_incidents))} before."
        )
    elif query.hosts and not query.labels:
        heads.append(f"None of the closed incidents that I keep was about {host_names}.")
    return heads


def _render_incident(context: AnswerContext, how: IncidentProximity, row: ClosedIncident, query: ClosedIncidentQuery) -> str:
    """Return `2026-11-02 gpu-003 (same device): GPU fell off the bus; gpu reset, proved twice`."""
    causes = [cause for cause in row.causes if cause.label in query.labels] or list(row.causes)
    hosts = [host for cause in causes for host in cause.hosts] or list(row.hosts)
    cause_titles = " and ".join(dict.fromkeys(context.get_title(cause.label) for cause in causes[:2])) or "no cause found"
    host_suffix = f" {fold_host_names(dict.fromkeys(hosts))}" if hosts else ""
    did = f"{' and '.join(row.did[:2]).replace('_', ' ')}, " if row.did else ""
    return f"{row.opened:%Y-%m-%d}{host_suffix} ({how}): {cause_titles}; {did}{CLOSURE_TEXTS[row.ended]}"


def _render_retention(since: datetime | None) -> str:
    if since is None:
        return "Closed incidents that may be told here: none is kept yet."
    return f"What is kept reaches back to {since:%Y-%m-%d}."


def format_times(count: int) -> str:
    """Return `once` or `3 times`."""
    return "once" if count == 1 else f"{count} times"


# Answer what changed since a time and whether it happened before, from stored readings.

MAX_EVENTS = 5
MAX_SIMILAR_INCIDENTS = 2
MAX_LINES = 16
MIN_SIMILARITY = 0.2  # minimum similarity of a recorded incident
MIN_SIMILARITY_SAME_CAUSE = 0.05  # lower for one with the same cause
MAX_PAST_INCIDENTS = 12
DEFAULT_LOOKBACK = timedelta(hours=6)  # time before the report that counts if none is named
LOG_CHECKS = frozenset({"dmesg", "sysd", "ipmi", "joblog"})  # checks that read logs


@dataclass(frozen=True, slots=True)
class PastEvent:
    """A timed event in words."""

    at: datetime
    says: str


async def answer_changes_since(context: AnswerContext) -> TurnResult:
    """Answer with logs and our actions since a time; by default DEFAULT_LOOKBACK before the incident."""
    target_hosts = resolve_target_hosts(context)
    hosts = target_hosts.hosts if target_hosts.named else context.observed_hosts
    since = context.message.at or context.case.brief.since or context.case.opened - DEFAULT_LOOKBACK
    rows = sorted(
        (row for row in (*_iter_logged_events(context, set(hosts)), *_iter_our_actions(context, set(hosts))) if row.at >= since),
        key=lambda row: row.at,
    )
    when = f"{since:%H:%M}" if since.date() == context.current_time.date() else f"{since:%Y-%m-%d %H:%M}"
    if not context.observed_hosts:
        return build_answer(context, [*render_unknown_names(context), "I have checked no host yet, so I cannot tell what changed."])
    head = f"Since {when} UTC on {fold_host_names(hosts)}{':' if rows else ' nothing new was logged, as far as it was read.'}"
    lines = [f"• {row.at:%H:%M:%S} {row.says}" for row in rows[:MAX_EVENTS]]
    lines += [f"• … and {len(rows) - MAX_EVENTS} more"] if len(rows) > MAX_EVENTS else []
    settings = "Settings that were changed without a log line do not show in one reading." if not rows else ""
    return build_answer(context, [*render_unknown_names(context), head, *lines, settings, render_recheck_offer(context, hosts)])


def _iter_logged_events(context: AnswerContext, hosts: set[str]) -> Iterable[PastEvent]:
    """Yield timed events, each kind once per host and device."""
    seen_events: set[tuple[str, str, str, str]] = set()
    for fact in context.case.facts:
        name = (fact.host, fact.key, fact.device or "", repr(fact.value))
        if fact.host in hosts and _is_logged_event(fact) and name not in seen_events and fact.time:
            seen_events.add(name)
            yield PastEvent(
                fact.time,
                f"{render_source(context, fact.host, fact.check)}: {format_log_line(fact.line, f'{fact.key} {fact.value}')[:110]}",
            )
        elif fact.host in hosts and fact.key == "host.booted_at" and isinstance(fact.value, str) and (at := _parse_timestamp(fact.value)):
            yield PastEvent(at, f"{render_source(context, fact.host, fact.check)}: {fact.host} was started")


def _is_logged_event(fact: Fact) -> bool:
    """Return whether a fact bears its own time rather than the check's."""
    return (
        fact.status is Status.OK
        and fact.key.startswith(EVENT_KEY_PREFIXES)
        and fact.check in LOG_CHECKS
        and not is_tenant_writable(fact.key)
    )


def _parse_timestamp(text: str) -> datetime | None:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return at if at.tzinfo else None


def _iter_our_actions(context: AnswerContext, hosts: set[str]) -> Iterable[PastEvent]:
    for row in context.case.remediations:
        if row.target in hosts and row.drained_at:
            yield PastEvent(row.drained_at, f"{row.target} was drained by RackMedic for {context.get_title(row.label)}")
        if row.target in hosts and row.since:
            yield PastEvent(
                row.since, f"{row.target}: last remedy started for {context.get_title(row.label)}; {row.says or format_current_step(row)}"
            )


async def answer_happened_before(context: AnswerContext) -> TurnResult:
    """Answer with recurrences, closed incidents of the same host or cause, and similar recorded ones."""
    back = [row for row in context.case.remediations if row.outcome == "recurred"]
    yes = "Yes, in this incident" if context.message.predicate == "happened" else "In this incident"
    lines = [f"{yes}: {context.get_title(row.label)} on {row.target} came back after a fix." for row in back[:2]]
    query = build_query(context)
    matches, threads = render_matches(context, query, await context.ports.earlier(query))
    concluded = build_answer(
        context, [*lines, *matches, *_render_old_log_line(context), *await _render_past_incidents(context)], most=MAX_LINES
    )
    return replace(concluded, report=concluded.report.model_copy(update={"threads": threads}))


def _render_old_log_line(context: AnswerContext) -> list[str]:
    old = [fact for fact in (*context.now.old, *context.now.abnormal_facts) if fact.attrs.get("aged") and fact.host]
    return [
        f"On {fact.host} the {get_check_name(fact.check)} shows it {format_age(fact.time, context.current_time)} too: {clean_text(fact.line, 100)}"
        for fact in old[:1]
    ]


async def _render_past_incidents(context: AnswerContext) -> list[str]:
    """Return recorded incidents with the same cause, else similar ones.

    Lessons from our closed incidents are left out: those are listed separately.
    """
    causes, titles = context.root_causes, context.get_title
    words = " ".join(filter(None, (context.case.brief.text, *(titles(row.label) for row in causes))))
    similar = await context.ports.history.find_similar(words, MAX_PAST_INCIDENTS, context.case.audience_tenant) if words else []
    independent_rows = [row for row in similar if not row.learnt or row.learnt == row.lesson]
    labels = {row.label for row in causes}
    same = [row for row in independent_rows if row.label in labels and row.score >= MIN_SIMILARITY_SAME_CAUSE]
    similar_incidents = [row for row in independent_rows if row.score >= MIN_SIMILARITY]
    head = f"Recorded incidents from other sites{' with the same cause' if same else ' that sound similar'}:"
    rows = [
        f"• {clean_text(row.title, 120) or titles(row.label)}{'' if row.label in labels else f' (it was: {titles(row.label)})'}"
        for row in (same or similar_incidents)[:MAX_SIMILAR_INCIDENTS]
    ]
    return [head, *rows] if rows else []
