"""Hand-off tickets: everything a person needs who has not read the thread. Pure."""

from graph.engine.assessment import Assessment
from graph.extraction.log_digests import format_log_digest, select_telling_templates
from graph.extraction.report_texts import format_confidence_percent
from graph.incident.context import IncidentContext
from graph.incident.questions import list_logs
from graph.remediation.outcomes import describe_remediation
from graph.report import Report
from graph.state import HandoffTicket, Hypothesis
from tools.inventory.host_ranges import fold_host_names

MAX_TEMPLATES = 8


def build_handoff_ticket(context: IncidentContext, assessment: Assessment, report: Report) -> HandoffTicket:
    """Return a new ticket, or the open one with its summary updated."""
    old = context.ticket or HandoffTicket()
    return old.model_copy(
        update={
            "summary": render_ticket_summary(context, assessment, report),
            "owner": old.owner or _get_likely_owner(assessment),
            "handed": True,
        }
    )


def _get_likely_owner(assessment: Assessment) -> str:
    """Return the owner of the likeliest cause, by default the provider."""
    best = next(iter(assessment.roots or assessment.suspects), None)
    return best.leaf.owner if best else "provider"


def render_ticket_summary(context: IncidentContext, assessment: Assessment, report: Report) -> str:
    title = assessment.reference.taxonomy.get_title
    lines = [f"Reported: {context.brief.text[:400] or '(no words)'}", f"Hosts: {fold_host_names(assessment.hosts) or 'none named'}"]
    lines += [f"Job: {context.brief.job}"] if context.brief.job else []
    considered = [*report.root_causes, *(assessment.build_hypothesis(row.label) for row in assessment.suspects[:3]), *report.ruled_out]
    lines += ["Hypotheses:", *(f"  {_render_verdict(row, title(row.label))}" for row in {row.label: row for row in considered}.values())]
    finished_remediations = [row for row in context.remediations if row.proven or row.since]
    lines += (
        ["Done by approved actions:", *(f"  {describe_remediation(row, title(row.label))}" for row in finished_remediations[:6])]
        if finished_remediations
        else []
    )
    if report.likely:
        lines += [
            f"Likely and unproven ({report.likely.by}): {title(report.likely.label)} {format_confidence_percent(report.likely.p)}, {report.likely.because}"
        ]
    lines += (
        ["Unexplained:", *(f"  {fact.host or 'handed in'}: {fact.format_sentence()[:160]}" for fact in assessment.unexplained[:6])]
        if assessment.unexplained
        else []
    )
    lines += (
        ["Could not look:", *(f"  {b.host} {b.check}: {b.why[:120]}" for b in report.could_not_look[:6])] if report.could_not_look else []
    )
    ideas = [f"  {idea.title} ({idea.standing}): {idea.cause}{f' Against it: {idea.doubt}' if idea.doubt else ''}" for idea in report.ideas]
    lines += ["Beyond what I know, as a model thought of it:", *ideas] if ideas else []
    outputs = list(dict.fromkeys(f"{f.host or 'handed in'} {f.check} {f.sha256[:12]}" for f in assessment.abnormal_facts if f.sha256))
    lines += ["Outputs:", *(f"  {output}" for output in outputs[:8])] if outputs else []
    logs = select_telling_templates(list_logs(context), MAX_TEMPLATES)
    lines += ["Logs:", *(f"  {line}" for log in logs for line in format_log_digest(log))] if logs else []
    return "\n".join(lines)


def _render_verdict(row: Hypothesis, title: str) -> str:
    return f"{title}: {row.verdict} {format_confidence_percent(row.confidence)}, {row.because}"
