"""Hand-off tickets: everything a person needs who has not read the thread."""

from collections.abc import Sequence

from graph.engine.assessment import Assessment
from graph.extraction.log_digests import format_log_digest, select_telling_templates
from graph.extraction.report_texts import format_confidence_percent
from graph.incident.context import IncidentContext
from graph.incident.questions import list_logs
from graph.remediation.outcomes import describe_remediation
from graph.report import Report, UnprovenCause
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
    considered = [
        *report.root_causes,
        *(assessment.build_hypothesis(belief.label) for belief in assessment.suspects[:3]),
        *report.ruled_out,
    ]
    finished_remediations = [remediation for remediation in context.remediations if remediation.proven or remediation.since]
    ideas = [f"{idea.title} ({idea.standing}): {idea.cause}{f' Against it: {idea.doubt}' if idea.doubt else ''}" for idea in report.ideas]
    outputs = list(dict.fromkeys(f"{f.host or 'handed in'} {f.check} {f.sha256[:12]}" for f in assessment.abnormal_facts if f.sha256))
    logs = select_telling_templates(list_logs(context), MAX_TEMPLATES)
    lines = [
        f"Reported: {context.brief.text[:400] or '(no words)'}",
        f"Hosts: {fold_host_names(assessment.hosts) or 'none named'}",
        f"Job: {context.brief.job}" if context.brief.job else "",
        "Hypotheses:",
        *(f"  {_render_verdict(cause, title(cause.label))}" for cause in {cause.label: cause for cause in considered}.values()),
        *_render_section(
            "Done by approved actions:",
            [describe_remediation(remediation, title(remediation.label)) for remediation in finished_remediations[:6]],
        ),
        _render_likely_cause(report.likely, title(report.likely.label)) if report.likely else "",
        *_render_section(
            "Unexplained:", [f"{fact.host or 'handed in'}: {fact.format_sentence()[:160]}" for fact in assessment.unexplained[:6]]
        ),
        *_render_section("Could not look:", [f"{b.host} {b.check}: {b.why[:120]}" for b in report.could_not_look[:6]]),
        *_render_section("Beyond what I know, as a model thought of it:", ideas),
        *_render_section("Outputs:", outputs[:8]),
        *_render_section("Logs:", [line for log in logs for line in format_log_digest(log)]),
    ]
    return "\n".join(filter(None, lines))


def _render_section(heading: str, lines: Sequence[str]) -> list[str]:
    return [heading, *(f"  {line}" for line in lines)] if lines else []


def _render_likely_cause(likely: UnprovenCause, title: str) -> str:
    return f"Likely and unproven ({likely.by}): {title} {format_confidence_percent(likely.p)}, {likely.because}"


def _render_verdict(cause: Hypothesis, title: str) -> str:
    return f"{title}: {cause.verdict} {format_confidence_percent(cause.confidence)}, {cause.because}"
