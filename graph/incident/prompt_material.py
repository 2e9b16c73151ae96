"""What a model reads of an incident: bounded texts and citable lines."""

from collections.abc import Sequence

from graph.context import GraphContext
from graph.engine.assessment import Assessment
from graph.extraction.log_digests import format_log_digest, select_telling_templates
from graph.incident.context import IncidentContext
from graph.incident.questions import list_mistake_notes, render_findings
from graph.learning.site_notes import IncidentSubject, find_site_notes
from graph.model.reasoner import PromptMaterial
from graph.state import IncidentBrief, LogDigest
from kb.needle_search import split_lines

MAX_OFFERED_LABELS = 40  # labels a reading may choose from, likeliest first
# past incidents and log templates shown
MAX_PAST_INCIDENTS = 4
MAX_TEMPLATES = 12


async def build_material(
    brief: IncidentBrief, logs: Sequence[LogDigest], context: IncidentContext, graph_context: GraphContext, findings: str = ""
) -> PromptMaterial:
    """Build the prompt material. Site pages are left out of tenants' incidents."""
    similar_incidents = (
        await graph_context.history.find_similar(brief.text, MAX_PAST_INCIDENTS, context.audience_tenant) if brief.text else []
    )
    past = [
        f"{graph_context.taxonomy.get_title(incident.label)} ({incident.label}): {incident.title}"
        for incident in similar_incidents
        if incident.label in graph_context.taxonomy.leaves
    ]
    log_text = "\n".join(line for log in select_telling_templates(logs, MAX_TEMPLATES) for line in format_log_digest(log))
    return PromptMaterial(brief.text, log_text, past, _list_page_lines(brief, context, graph_context), findings)


def _list_page_lines(brief: IncidentBrief, context: IncidentContext, graph_context: GraphContext) -> list[str]:
    if not graph_context.pages or context.audience_tenant is not None:
        return []
    hosts = [graph_context.inventory.hosts[name] for name in brief.hosts if name in graph_context.inventory.hosts]
    return [
        f"{note.title}: {line}"
        for note in find_site_notes(graph_context.pages, IncidentSubject.from_hosts(brief.text, (), hosts))
        for line in note.says
    ]


def list_finding_lines(assessment: Assessment, notes: Sequence[str] = ()) -> list[str]:
    """Return findings as lines, `notes` first."""
    return split_lines(render_findings(assessment, (), notes))


def list_corrections(context: IncidentContext, labels: Sequence[str], graph_context: GraphContext) -> list[str]:
    """Return earlier human corrections about these causes."""
    return list_mistake_notes(labels, graph_context.mistakes(context.audience_tenant), graph_context.taxonomy.titles)
