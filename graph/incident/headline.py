"""The headline of a diagnosis: one sentence on the hosts asked about."""

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
from graph.report import HostsSummary
from graph.state import DiagnosisOutcome, Hypothesis
from tools.fact import Status
from tools.inventory.host_ranges import fold_host_names

NO_HOST_CHECKED_TEXT = "I looked at no machine."
MOST_BESIDE = 3


def _has_only_unknown_targets(context: IncidentContext) -> bool:
    return bool(context.turn.unknown or context.turn.unknown_job) and not context.hosts


def build_headline(
    context: IncidentContext,
    assessment: Assessment,
    outcome: DiagnosisOutcome,
    roots: Sequence[Hypothesis],
    hosts_summary: HostsSummary | None,
) -> str:
    """Return one sentence about `roots` on the hosts asked about; hosts that answer despite the report first."""
    headline = _build_headline_text(context, assessment, outcome, roots, hosts_summary)
    unreached = find_unreached_hosts(assessment, context.brief.hosts)
    answer = () if roots or context.turn.cut else tuple(host for host in find_answering_hosts(context) if host not in unreached)
    foreign = "" if context.turn.unknown else describe_unknown_writers(context)
    headline = f"{foreign} {headline}".strip()
    return f"{fold_host_names(answer)} answer{'s' * (len(answer) == 1)}. {headline}" if answer else headline


def find_answering_hosts(context: IncidentContext) -> tuple[str, ...]:
    """Return reportedly unreachable hosts that answered."""
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
        return "; ".join(render_cause(assessment, cause) for cause in roots[:3]) + (f" and {len(roots) - 3} more" if len(roots) > 3 else "")
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
        side_notes = (*complaints[:1], *render_old_events(context, assessment)[:1], *render_differences(context, assessment)[:1])
        return f"No fault found: {report_texts.format_coverage(context.stats)}, nothing abnormal{f', but {side_notes[0]}' if side_notes else ''}."
    reason = assessment.why_unsure[0] if assessment.why_unsure else "nothing was decisive"
    return f"No cause proven: {report_texts.format_coverage(context.stats)}; {reason}{_format_more_uploaded(assessment)}."


def _format_more_uploaded(assessment: Assessment) -> str:
    """Name further uploaded machine events where the first is the reason: the mildest may come first."""
    abnormal_facts = [fact for fact in assessment.abnormal_facts if not fact.host and not is_tenant_writable(fact.key)]
    if len(abnormal_facts) < 2 or assessment.abnormal_facts[0] is not abnormal_facts[0] or assessment.suspects:
        return ""
    more = f" and {len(abnormal_facts) - 1 - MOST_BESIDE} more" if len(abnormal_facts) - 1 > MOST_BESIDE else ""
    return "".join(f"; also {fact.format_sentence()}" for fact in abnormal_facts[1 : 1 + MOST_BESIDE]) + more


def render_cause(assessment: Assessment, cause: Hypothesis) -> str:
    location = ", ".join(cause.devices[:4]) or (fold_host_names(cause.hosts) if cause.hosts else "not a host fault")
    return f"{assessment.reference.taxonomy.get_title(cause.label)} ({location})"
