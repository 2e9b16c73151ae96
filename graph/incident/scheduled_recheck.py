"""A scheduled recheck after an undecided report, to catch intermittent faults.

The dispatcher's timer triggers it. Each kind runs at most once per incident, with passive checks; `stop`, `close` or a
new report cancels it.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from graph.context import IncidentTimeouts
from graph.engine.assessment import Assessment
from graph.engine.belief import CONFIRMED_POSTERIOR
from graph.engine.counter_rises import MIN_COUNTER_RISES
from graph.extraction.complaints import is_intermittent
from graph.incident.context import IncidentContext
from graph.incident.turn_result import TurnResult
from graph.report import Report
from graph.state import COUNTERS_RECHECK, FULL_RECHECK, Lifecycle, ScheduledRecheck
from tools.fact import Status

MAX_SEEN_FINDINGS: Final = 64


def get_due_recheck(context: IncidentContext) -> str:
    """Return the kind of recheck that the item is, if still due, or an empty string."""
    reason = str(context.item.data.get("why") or "") if context.item.kind == "timer" else ""
    recheck = context.scheduled_recheck
    return reason if reason in (COUNTERS_RECHECK, FULL_RECHECK) and recheck.due is not None and recheck.why == reason else ""


def list_counter_checks(context: IncidentContext, assessment: Assessment) -> list[tuple[str, str]]:
    """Return the passive (host, check) pairs that read error counters."""
    checks = [check.id for check in assessment.reference.list_passive_checks() if MIN_COUNTER_RISES.keys() & set(check.establishes)]
    return [(host, check) for host in context.hosts for check in checks]


def schedule_next_recheck(
    context: IncidentContext,
    assessment: Assessment,
    report: Report,
    lifecycle: Lifecycle,
    looked: bool,
    waits: IncidentTimeouts,
    at: datetime,
) -> ScheduledRecheck:
    """Return the recheck due after a turn. `looked`: the turn made a diagnosis."""
    previous_recheck, done_recheck = context.scheduled_recheck, get_due_recheck(context)
    done_rechecks = (*previous_recheck.done, done_recheck) if done_recheck else previous_recheck.done
    no_recheck = ScheduledRecheck(done=done_rechecks)
    if lifecycle not in ("open", "waiting") or context.turn.cut or (context.kind in ("stop", "close") and not looked):
        return no_recheck
    if not looked:
        return previous_recheck
    asks_only = context.turn.question and not context.turn.only  # "how is gpu-001?" only asks; "recheck gpu-001" runs checks
    has_host_facts = any(fact.host for fact in context.facts)
    if (
        asks_only
        or not has_host_facts
        or not _is_undecided(report)
        or (context.origin and (context.origin.customer or context.origin.ticket))
    ):
        return no_recheck
    delays = {COUNTERS_RECHECK: waits.counters if is_intermittent(context.brief.text) else timedelta(), FULL_RECHECK: waits.look_again}
    next_reason = next((name for name, delay in delays.items() if delay and name not in done_rechecks), "")
    return (
        ScheduledRecheck(why=next_reason, due=at + delays[next_reason], done=done_rechecks, seen=_list_abnormal_findings(assessment))
        if next_reason
        else no_recheck
    )


def add_recheck_result(
    result: TurnResult, context: IncidentContext, assessment: Assessment, after: ScheduledRecheck, at: datetime
) -> TurnResult:
    """Announce the next recheck; report one without news in one line."""
    report, done_recheck = result.report, get_due_recheck(context)
    announced = render_recheck_notice(after)
    if done_recheck and context.report is not None and not _has_new_findings(context, assessment, report):
        text = " ".join(filter(None, (_render_nothing_new(context, assessment, done_recheck, at), announced)))
        return replace(result, report=report.model_copy(update={"reply": text, "look_again": ""}))
    changed = f"Looked again at {at:%H:%M} UTC, and something is new." if done_recheck and not report.changed else report.changed
    return replace(result, report=report.model_copy(update={"look_again": announced, "changed": changed}))


def render_recheck_notice(recheck: ScheduledRecheck) -> str:
    if recheck.due is None:
        return ""
    action_text = "read the error counters again" if recheck.why == COUNTERS_RECHECK else "look again"
    return f"I {action_text} at {recheck.due:%H:%M} UTC; say stop to leave it."


def _is_undecided(report: Report) -> bool:
    if report.outcome == "diagnosed":
        return min((cause.confidence for cause in report.root_causes), default=1.0) < CONFIRMED_POSTERIOR
    return report.outcome in ("abstained", "no_fault")


def _list_abnormal_findings(assessment: Assessment) -> tuple[str, ...]:
    """Return stable names of what is abnormal or likely."""
    abnormal_findings = (f"{fact.host} {fact.key} {fact.device or ''}" for fact in assessment.abnormal_facts)
    return tuple(dict.fromkeys((*abnormal_findings, *_iter_likely_findings(assessment))))[:MAX_SEEN_FINDINGS]


def _iter_likely_findings(assessment: Assessment) -> Iterable[str]:
    return (
        f"{belief.label} {' '.join(belief.subject.hosts)} {belief.subject.device}" for belief in (*assessment.roots, *assessment.suspects)
    )


def _has_new_findings(context: IncidentContext, assessment: Assessment, report: Report) -> bool:
    known_findings = set(context.scheduled_recheck.seen)
    new_findings = [name for name in _list_abnormal_findings(assessment) if name not in known_findings]
    return (bool(new_findings) and len(known_findings) < MAX_SEEN_FINDINGS) or (
        context.report is not None and report.outcome != context.report.outcome
    )


def _render_nothing_new(context: IncidentContext, assessment: Assessment, done: str, at: datetime) -> str:
    hosts = f"{len(context.hosts)} host{'s' * (len(context.hosts) != 1)}"
    unobserved_count = len(assessment.coverage.list_unobserved_checks())
    missed = f"; {unobserved_count} looks failed" if unobserved_count else ""
    if done == FULL_RECHECK:
        return f"Looked again at {at:%H:%M} UTC: nothing has changed on {hosts}{missed}."
    read = sum(fact.key in MIN_COUNTER_RISES and fact.status is Status.OK and not fact.key.startswith("kernel.") for fact in context.facts)
    if not read:
        return f"Could not read any error counter of {hosts} again{missed}."
    return f"Read {read} error counters again at {at:%H:%M} UTC: none rose on {hosts}{missed}."
