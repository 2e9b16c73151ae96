"""Build the headline of a diagnosis: one sentence about the hosts asked about."""

from collections.abc import Sequence

from graph.engine.assessment import Assessment
from graph.engine.reference_data import is_tenant_writable
from graph.extraction import report_texts
from graph.extraction.report_texts import format_unknown_hosts, format_unknown_job
from graph.incident.answers.unproven import list_unproven
from graph.incident.context import IncidentContext
from graph.incident.host_findings import (
    describe_unknown_writers,
    find_unreached_hosts,
    render_differences,
    render_hosts_summary,
    render_old_events,
)
from graph.incident.run_checks import TURN_ENDING_KINDS
from graph.report import HostsSummary, UnprovenCause
from graph.state import DiagnosisOutcome, Hypothesis
from tools.fact import Status
from tools.inventory.host_ranges import fold_host_names

NO_HOST_CHECKED_TEXT = "I looked at no machine."
MAX_CAUSES = 3
MAX_MORE_EVENTS = 3  # uploaded events named after the first


def build_headline(
    context: IncidentContext,
    assessment: Assessment,
    outcome: DiagnosisOutcome,
    roots: Sequence[Hypothesis],
    hosts_summary: HostsSummary | None,
    likely_cause: UnprovenCause | None = None,
) -> str:
    """Return one sentence about the causes on the hosts asked about, or about a cause that a reading finds likely.

    Before it come quoted hosts that are unknown, and hosts that answer although they were reported as unreachable.
    """
    headline = _build_headline_text(context, assessment, outcome, roots, hosts_summary)
    if likely_cause and likely_cause.by == "reading":
        headline = f"{render_likely_cause(likely_cause, assessment)} {headline}"
    if not context.turn.unknown:
        headline = f"{describe_unknown_writers(context)} {headline}".strip()
    if roots or context.turn.cut:
        return headline
    unreached_hosts = find_unreached_hosts(assessment, context.brief.hosts)
    answering_hosts = [host for host in find_answering_hosts(context) if host not in unreached_hosts]
    if not answering_hosts:
        return headline
    return f"{fold_host_names(answering_hosts)} answer{'s' * (len(answering_hosts) == 1)}. {headline}"


def find_answering_hosts(context: IncidentContext) -> tuple[str, ...]:
    """Return the hosts that answered although they were reported as unreachable."""
    if "unreachable" not in context.brief.symptoms:
        return ()
    answering_hosts = {fact.host for fact in context.facts if fact.status is Status.OK}
    return tuple(host for host in context.brief.hosts if host in answering_hosts)


def _build_headline_text(
    context: IncidentContext,
    assessment: Assessment,
    outcome: DiagnosisOutcome,
    roots: Sequence[Hypothesis],
    hosts_summary: HostsSummary | None,
) -> str:
    if hosts_summary and not roots and not context.turn.cut:
        return render_hosts_summary(hosts_summary, context.item.at)
    if roots:
        causes = "; ".join(render_cause(assessment, cause) for cause in roots[:MAX_CAUSES])
        return f"{causes} and {len(roots) - MAX_CAUSES} more" if len(roots) > MAX_CAUSES else causes
    if _has_only_unknown_targets(context):
        notices = (
            format_unknown_hosts(context.find_unknown_names(context.turn.unknown)),
            format_unknown_job(context.turn.unknown_job, context.turn.why_nowhere),
        )
        return " ".join((*filter(None, notices), NO_HOST_CHECKED_TEXT))
    if context.turn.cut:
        stop_reason = "Stopped on request" if context.turn.cut in TURN_ENDING_KINDS else "News came while I was looking"
        return f"{stop_reason}: {report_texts.format_coverage(context.stats)}, no cause proven so far."
    if outcome == "no_fault":
        complaints = tuple(unproven.says for unproven in list_unproven(context, assessment) if unproven.reported)
        notes = (*complaints, *render_old_events(context, assessment), *render_differences(context, assessment))
        note = f", but {notes[0]}" if notes else ""
        return f"No fault found: {report_texts.format_coverage(context.stats)}, nothing abnormal{note}."
    reason = assessment.why_unsure[0] if assessment.why_unsure else "nothing was decisive"
    return f"No cause proven: {report_texts.format_coverage(context.stats)}; {reason}{_format_more_uploaded(assessment)}."


def render_likely_cause(cause: UnprovenCause, assessment: Assessment) -> str:
    """Return the likely cause and what would decide it."""
    taxonomy = assessment.reference.taxonomy
    return f"Likely, not proven: {taxonomy.get_title(cause.label)}. {describe_deciding_check(cause.label, assessment)}"


def describe_deciding_check(label: str, assessment: Assessment) -> str:
    """Return what would prove or refute a cause: a check that failed or has not run, else the leaf's next step."""
    verdict = assessment.label_verdicts.get(label)
    leaf = assessment.reference.taxonomy.get_leaf(label)
    if verdict and verdict.unobserved_checks:
        return f"Not observed: {verdict.unobserved_checks[0]}."
    ran = {check for _, check in assessment.coverage.asked}
    missing = [check for check in (*leaf.checks, *leaf.confirms) if check in assessment.reference.checks and check not in ran]
    if missing:
        return f"`{missing[0]}` would tell."
    return f"To find out: {leaf.next_step}" if leaf.next_step else "No check of mine can show it."


def _has_only_unknown_targets(context: IncidentContext) -> bool:
    return bool(context.turn.unknown or context.turn.unknown_job) and not context.hosts


def _format_more_uploaded(assessment: Assessment) -> str:
    """Name further uploaded machine events if the first one is the reason, as the mildest may come first."""
    abnormal_facts = [fact for fact in assessment.abnormal_facts if not fact.host and not is_tenant_writable(fact.key)]
    if len(abnormal_facts) < 2 or assessment.abnormal_facts[0] is not abnormal_facts[0] or assessment.suspects:
        return ""
    more_facts = abnormal_facts[1:]
    text = "".join(f"; also {fact.format_sentence()}" for fact in more_facts[:MAX_MORE_EVENTS])
    return f"{text} and {len(more_facts) - MAX_MORE_EVENTS} more" if len(more_facts) > MAX_MORE_EVENTS else text


def render_cause(assessment: Assessment, cause: Hypothesis) -> str:
    location = ", ".join(cause.devices[:4]) or (fold_host_names(cause.hosts) if cause.hosts else "not a host fault")
    return f"{assessment.reference.taxonomy.get_title(cause.label)} ({location})"
