"""Turns after the first: a scheduled recheck of undecided reports, and turns with few checks after news. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from graph.context import GraphContext, IncidentTimeouts
from graph.dialogue.intents import Intent
from graph.dialogue.said import get_parsed_message
from graph.engine.assessment import Assessment, assess_facts
from graph.engine.belief import CONFIRMED_POSTERIOR
from graph.engine.check_selection import list_first_wave
from graph.engine.fact_history import MIN_COUNTER_RISES
from graph.engine.priors import compute_word_priors
from graph.extraction.complaints import find_physical_reports, is_intermittent
from graph.extraction.reports import parse_report
from graph.incident.context import IncidentContext, build_reference_data
from graph.incident.host_findings import describe_unknown_writers
from graph.incident.lifecycle import TurnEvent, get_next_lifecycle
from graph.incident.turn_result import TurnResult
from graph.remediation.fault_condition import CausePresence, assess_presence
from graph.report import Report
from graph.state import COUNTERS_RECHECK, FULL_RECHECK, Hypothesis, IncidentBrief, Lifecycle, ScheduledRecheck
from tools.fact import Status
from tools.inventory.host_ranges import fold_host_names

# A scheduled recheck after an undecided report, to catch intermittent faults. Pure.
#
# The dispatcher's timer triggers it. Each kind runs at most once per incident, with passive checks; `stop`, `close` or a
# new report cancels it.

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
    before, done_recheck = context.scheduled_recheck, get_due_recheck(context)
    done_rechecks = (*before.done, done_recheck) if done_recheck else before.done
    none = ScheduledRecheck(done=done_rechecks)
    if lifecycle not in ("open", "waiting") or context.turn.cut or (context.kind in ("stop", "close") and not looked):
        return none
    if not looked:
        return before
    asks_only = context.turn.question and not context.turn.only  # "how is gpu-001?" only asks; "recheck gpu-001" runs checks
    has_host_facts = any(fact.host for fact in context.facts)
    if (
        asks_only
        or not has_host_facts
        or not _is_undecided(report)
        or (context.origin and (context.origin.customer or context.origin.ticket))
    ):
        return none
    delays = {COUNTERS_RECHECK: waits.counters if is_intermittent(context.brief.text) else timedelta(), FULL_RECHECK: waits.look_again}
    next_reason = next((name for name, delay in delays.items() if delay and name not in done_rechecks), "")
    return (
        ScheduledRecheck(why=next_reason, due=at + delays[next_reason], done=done_rechecks, seen=_list_abnormal_findings(assessment))
        if next_reason
        else none
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


def render_recheck_notice(row: ScheduledRecheck) -> str:
    if row.due is None:
        return ""
    action_text = "read the error counters again" if row.why == COUNTERS_RECHECK else "look again"
    return f"I {action_text} at {row.due:%H:%M} UTC; say stop to leave it."


def _is_undecided(report: Report) -> bool:
    if report.outcome == "diagnosed":
        return min((row.confidence for row in report.root_causes), default=1.0) < CONFIRMED_POSTERIOR
    return report.outcome in ("abstained", "no_fault")


def _list_abnormal_findings(assessment: Assessment) -> tuple[str, ...]:
    """Return stable names of what is abnormal or likely."""
    odd = (f"{fact.host} {fact.key} {fact.device or ''}" for fact in assessment.abnormal_facts)
    return tuple(dict.fromkeys((*odd, *_iter_likely_findings(assessment))))[:MAX_SEEN_FINDINGS]


def _iter_likely_findings(assessment: Assessment) -> Iterable[str]:
    return (f"{row.label} {' '.join(row.subject.hosts)} {row.subject.device}" for row in (*assessment.roots, *assessment.suspects))


def _has_new_findings(context: IncidentContext, assessment: Assessment, report: Report) -> bool:
    known_findings = set(context.scheduled_recheck.seen)
    new = [name for name in _list_abnormal_findings(assessment) if name not in known_findings]
    return (bool(new) and len(known_findings) < MAX_SEEN_FINDINGS) or (
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


# Turns with few checks: those that decided, after "works again" or "still broken"; those that news point to.

UNJUDGED: Final = "Noted. No check of mine can judge that, so I call nothing safe until a person has checked it. Have it checked now."
RECHECK_INTENTS = frozenset({Intent.FIXED, Intent.STILL_BROKEN})


def is_narrow_recheck(context: IncidentContext) -> bool:
    """Return whether only deciding checks run again. "Still broken" without a known cause needs a full turn."""
    if context.kind != "recheck" or context.message.intent not in RECHECK_INTENTS or context.report is None:
        return False
    return bool(context.report.root_causes) or context.message.intent is Intent.FIXED


def list_deciding_checks(context: IncidentContext, assessment: Assessment) -> list[tuple[str, str]]:
    """Return the passive (host, check) pairs behind the last report's causes."""
    causes = _list_reported_causes(context)
    cited_checks = [(line.host, line.check) for row in causes for line in row.evidence if line.host]
    cause_checks = [(host, check) for row in causes for host in row.hosts for check in row.checks]
    passive = {check.id for check in assessment.reference.list_passive_checks()}
    return [pair for pair in dict.fromkeys((*cited_checks, *cause_checks)) if pair[1] in passive and pair[0] in context.visible]


def _list_reported_causes(context: IncidentContext) -> Sequence[Hypothesis]:
    rows, hosts = context.report.root_causes if context.report else (), set(context.message.hosts)
    return [row for row in rows if not hosts or hosts & {*row.hosts, *(line.host for line in row.evidence)}]


@dataclass(frozen=True, slots=True)
class CauseRecheck:
    """A cause of the last report and its presence now."""

    cause: Hypothesis
    title: str
    presence: CausePresence


def answer_narrow_recheck(result: TurnResult, context: IncidentContext, assessment: Assessment, ports: GraphContext) -> TurnResult:
    """Answer what is still there, unobserved, or gone; the incident may close."""
    rows = [row for cause in _list_reported_causes(context) for row in _recheck_cause(cause, context, assessment, ports)]
    lines = [_render_recheck(row) for row in rows[:4]]
    fixed = context.message.intent is Intent.FIXED
    is_gone = all(row.presence.answer == "gone" for row in rows)
    drained_hosts = [row.target for row in context.remediations if row.drained]
    busy = [row for row in context.remediations if row.is_open and (row.drained or row.since is not None)]
    event: TurnEvent | None = None
    if not rows:
        lines = ["Good to hear. I had found no cause, so there was nothing to check again. Say “close” to close it."]
    elif is_gone and fixed and not (drained_hosts or busy):
        lines, event = [*lines, "Closed. Say “reopen” if it comes back."], TurnEvent.CLOSED
    elif is_gone and fixed:
        lines.append(
            f"{fold_host_names(drained_hosts or [row.target for row in busy])}: its fix is still in progress, so I do not close yet."
        )
    elif is_gone:
        lines.append("What do you see now? Send me the error, or say `recheck` and I look at everything.")
    elif any(row.presence.answer == "unseen" for row in rows):
        lines.append("What could not be checked is not called fixed.")
    elif result.report.next_step:
        lines.append(f"Next: {result.report.next_step}")
    report = result.report.model_copy(update={"reply": "\n".join(lines), "questions": () if fixed else result.report.questions})
    return replace(result, report=report, lifecycle=get_next_lifecycle(context.lifecycle, event) if event else result.lifecycle)


def _recheck_cause(cause: Hypothesis, context: IncidentContext, assessment: Assessment, ports: GraphContext) -> list[CauseRecheck]:
    """Recheck a cause on each of its hosts; one without hosts by all facts."""
    leaf = ports.taxonomy.leaves.get(cause.label)
    if leaf is None:
        return []
    if not cause.hosts:
        return [CauseRecheck(cause, leaf.title, assess_presence(leaf, cause.devices, assessment))]
    reference = build_reference_data(ports, context.facts)
    own = {host: assess_facts([fact for fact in context.facts if fact.host == host], reference, [host]) for host in cause.hosts[:8]}
    rechecks = [
        CauseRecheck(cause, leaf.title, assess_presence(leaf, _list_devices_on_host(cause, host), alone)) for host, alone in own.items()
    ]
    order = {"shown": 0, "likely": 1, "unseen": 2, "gone": 3}
    return sorted(rechecks, key=lambda row: order[row.presence.answer])[:4]


def _list_devices_on_host(cause: Hypothesis, host: str) -> tuple[str, ...]:
    return tuple(name for name in cause.devices if name.partition("/")[0] == host)


def _render_recheck(row: CauseRecheck) -> str:
    location = ", ".join(row.cause.devices[:4]) or fold_host_names(row.cause.hosts) or "the job"
    presence_texts = {
        "shown": f"Still there: {row.title} ({location}): {row.presence.says}.",
        "likely": f"Not sure: {row.title} ({location}): {row.presence.says}.",
        "unseen": f"Could not look whether {row.title} ({location}) is gone: {row.presence.says}.",
        "gone": f"Checked again: {row.title} ({location}) no longer shows.",
    }
    return presence_texts[row.presence.answer]


MAX_SUSPECTS: Final = 3  # causes that news may point to
MAX_FRESH_AGE: Final = timedelta(minutes=3)
# checks to repeat after people changed a part
CHECKS_BY_CHANGED_PART: Final[Mapping[str, tuple[str, ...]]] = {
    "driver": ("vers", "mods", "env", "smi"),
    "cuda": ("vers", "env", "docker"),
    "nccl": ("vers", "env"),
    "image": ("vers", "env", "docker"),
    "container": ("vers", "env", "docker"),
    "kernel": ("vers", "mods", "dmesg"),
    "firmware": ("vers", "ibstat"),
    "cable": ("ibstat",),
}


def brings_new_facts(context: IncidentContext) -> bool:
    """Return whether a reply adds facts to an observed incident and is no command or question."""
    has_message = bool(context.turn.said) or get_parsed_message(context.item) is not None
    plain = not context.turn.only and not context.turn.unknown and not {"hosts", "job"} & context.item.data.keys()
    has_diagnosis = (
        context.report is not None
        and context.report.outcome in ("diagnosed", "no_fault", "abstained")
        and any(fact.host for fact in context.facts)
    )
    return context.kind == "reply" and has_message and plain and has_diagnosis and context.message.intent is Intent.NEW_FACTS


def list_checks_for_news(context: IncidentContext, assessment: Assessment) -> list[tuple[str, str]]:
    """Return the (host, check) pairs that news point to, unless read just now.

    All passive checks never asked on their hosts; on observed hosts those of the suggested causes and of the parts
    changed.
    """
    new = parse_report(context.item.text, context.names, context.item.at)
    observed_hosts, asked_checks = {fact.host for fact in context.facts}, {(fact.host, fact.check) for fact in context.facts}
    asked_checks -= {
        (fact.host, fact.check) for fact in context.facts if fact.status.blind and fact.host in new.hosts
    }  # may be observable by now
    first = [
        pair for pair in list_first_wave(assessment.reference, dict.fromkeys((*new.hosts, *context.hosts))) if pair not in asked_checks
    ]
    fresh = {(fact.host, fact.check) for fact in context.facts if fact.time and context.item.at - fact.time < MAX_FRESH_AGE}
    passive = {check.id for check in assessment.reference.list_passive_checks()}
    implied_checks = [
        check
        for check in _list_implied_checks(
            context, assessment, IncidentBrief(text=context.item.text, symptoms=new.symptoms, signatures=new.signatures)
        )
        if check in passive
    ]
    hosts = [host for host in (new.hosts or context.hosts) if host in observed_hosts]
    return [*first, *((host, check) for host in hosts for check in implied_checks if (host, check) not in fresh)]


def _list_implied_checks(context: IncidentContext, assessment: Assessment, news: IncidentBrief) -> list[str]:
    likely = compute_word_priors(assessment.reference.taxonomy, news) if set(news.symptoms) - {"vague"} or news.signatures else {}
    labels = sorted(likely, key=lambda label: -likely[label])[:MAX_SUSPECTS]
    leaves = [assessment.reference.taxonomy.get_leaf(label) for label in labels]
    words = news.text.lower()
    changed = [check for word, checks in CHECKS_BY_CHANGED_PART.items() if word in words for check in checks]
    return list(
        dict.fromkeys(
            [
                *changed,
                *(check.id for leaf in leaves for check in assessment.reference.list_deciding_checks(leaf)),
                *(c for leaf in leaves for c in leaf.checks),
            ]
        )
    )


def add_change_summary(result: TurnResult, context: IncidentContext, found: str, about: str) -> TurnResult:
    """Say what news change, else in a line that nothing does. `found`: causes in words; `about`: the hosts named."""
    before, after = context.report, result.report
    has_physical_report = bool(find_physical_reports(context.item.text))
    if before is None:
        return result
    if _get_conclusion_key(before) != _get_conclusion_key(after) or after.unknown_hosts or after.unknown_job:
        was = before.headline if before.headline != after.headline else ""
        return replace(result, report=after.model_copy(update={"changed": f"Changed. Before: {was}" if was else "Changed."}))
    odd = after.about is not None and after.about.found in ("odd", "fault")
    odd = odd or bool(context.item.attachments)
    if after.questions:
        return replace(result, report=after.model_copy(update={"changed": "Noted; no cause is proven by it."}))
    stays = f"The cause stays: {found}." if after.root_causes else after.headline if after.outcome == "abstained" else ""
    first = UNJUDGED if has_physical_report else "Noted; no cause is proven by it." if odd else "Noted; nothing that I know changes by it."
    reply = " ".join(
        part for part in (first, describe_unknown_writers(context) if after.outcome != "abstained" else "", about, stays) if part
    )
    return replace(result, report=after.model_copy(update={"reply": reply}))


def _get_conclusion_key(report: Report) -> tuple[str, frozenset[tuple[str, tuple[str, ...]]]]:
    return report.outcome, frozenset((row.label, tuple(sorted(row.hosts))) for row in report.root_causes)
