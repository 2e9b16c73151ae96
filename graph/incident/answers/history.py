"""Answer what changed since a time and whether it happened before, from stored readings."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

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
from graph.incident.answers.closed_matches import build_query, render_matches
from graph.incident.turn_result import TurnResult
from graph.remediation.outcomes import format_current_step
from tools.fact import Fact, Status
from tools.inventory.host_ranges import fold_host_names

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
    since = context.message.at or context.incident.brief.since or context.incident.opened - DEFAULT_LOOKBACK
    events = sorted(
        (event for event in (*_iter_logged_events(context, set(hosts)), *_iter_our_actions(context, set(hosts))) if event.at >= since),
        key=lambda event: event.at,
    )
    when = f"{since:%H:%M}" if since.date() == context.current_time.date() else f"{since:%Y-%m-%d %H:%M}"
    if not context.observed_hosts:
        return build_answer(context, [*render_unknown_names(context), "I have checked no host yet, so I cannot tell what changed."])
    head = f"Since {when} UTC on {fold_host_names(hosts)}{':' if events else ' nothing new was logged, as far as it was read.'}"
    lines = [f"• {event.at:%H:%M:%S} {event.says}" for event in events[:MAX_EVENTS]]
    if len(events) > MAX_EVENTS:
        lines.append(f"• … and {len(events) - MAX_EVENTS} more")
    settings = "Settings that were changed without a log line do not show in one reading." if not events else ""
    return build_answer(context, [*render_unknown_names(context), head, *lines, settings, render_recheck_offer(context, hosts)])


def _iter_logged_events(context: AnswerContext, hosts: set[str]) -> Iterable[PastEvent]:
    """Yield timed events, each kind once per host and device."""
    seen_events: set[tuple[str, str, str, str]] = set()
    for fact in context.incident.facts:
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
    for remediation in context.incident.remediations:
        if remediation.target in hosts and remediation.drained_at:
            yield PastEvent(
                remediation.drained_at, f"{remediation.target} was drained by RackMedic for {context.get_title(remediation.label)}"
            )
        if remediation.target in hosts and remediation.since:
            yield PastEvent(
                remediation.since,
                f"{remediation.target}: last remedy started for {context.get_title(remediation.label)}; {remediation.says or format_current_step(remediation)}",
            )


async def answer_happened_before(context: AnswerContext) -> TurnResult:
    """Answer with recurrences, closed incidents of the same host or cause, and similar recorded ones."""
    back = [remediation for remediation in context.incident.remediations if remediation.outcome == "recurred"]
    yes = "Yes, in this incident" if context.message.predicate == "happened" else "In this incident"
    lines = [f"{yes}: {context.get_title(remediation.label)} on {remediation.target} came back after a fix." for remediation in back[:2]]
    query = build_query(context)
    matches, threads = render_matches(context, query, await context.graph_context.earlier(query))
    concluded = build_answer(
        context, [*lines, *matches, *_render_old_log_line(context), *await _render_past_incidents(context)], max_lines=MAX_LINES
    )
    return replace(concluded, report=concluded.report.model_copy(update={"threads": threads}))


def _render_old_log_line(context: AnswerContext) -> list[str]:
    old = [fact for fact in (*context.assessment.old, *context.assessment.abnormal_facts) if fact.attrs.get("aged") and fact.host]
    return [
        f"On {fact.host} the {get_check_name(fact.check)} shows it {format_age(fact.time, context.current_time)} too: {clean_text(fact.line, 100)}"
        for fact in old[:1]
    ]


async def _render_past_incidents(context: AnswerContext) -> list[str]:
    """Return recorded incidents with the same cause, else similar ones.

    Lessons from our closed incidents are left out: those are listed separately.
    """
    causes, titles = context.root_causes, context.get_title
    words = " ".join(filter(None, (context.incident.brief.text, *(titles(cause.label) for cause in causes))))
    similar = await context.graph_context.history.find_similar(words, MAX_PAST_INCIDENTS, context.incident.audience_tenant) if words else []
    independent_rows = [incident for incident in similar if not incident.learnt or incident.learnt == incident.lesson]
    labels = {cause.label for cause in causes}
    same_cause_incidents = [
        incident for incident in independent_rows if incident.label in labels and incident.score >= MIN_SIMILARITY_SAME_CAUSE
    ]
    similar_incidents = [incident for incident in independent_rows if incident.score >= MIN_SIMILARITY]
    head = f"Recorded incidents from other sites{' with the same cause' if same_cause_incidents else ' that sound similar'}:"
    lines = [
        f"• {clean_text(incident.title, 120) or titles(incident.label)}{'' if incident.label in labels else f' (it was: {titles(incident.label)})'}"
        for incident in (same_cause_incidents or similar_incidents)[:MAX_SIMILAR_INCIDENTS]
    ]
    return [head, *lines] if lines else []
