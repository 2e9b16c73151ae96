"""What a model reads of an incident: bounded texts and citable lines."""

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC

from graph.context import GraphContext
from graph.engine.assessment import Assessment
from graph.engine.priors import compute_word_priors, select_telling_incidents
from graph.extraction.log_digests import format_log_digest, select_telling_templates
from graph.incident.context import IncidentContext
from graph.learning.site_notes import IncidentSubject, find_site_notes
from graph.model.prompt_texts import MAX_FINDING_CHARS, shorten_text
from graph.model.reasoner import PromptMaterial
from graph.state import Attachment, IncidentBrief, LogDigest
from kb.needle_search import split_lines
from tools.fact import WRITTEN_BY, Fact
from tools.inventory.host_ranges import fold_host_names

MAX_SIMILAR_INCIDENTS = 60  # similar incidents compared with the report's words
MAX_PAST_INCIDENTS = 4
MAX_TEMPLATES = 12
MAX_SPECIMEN_CHARS = 300
MAX_HANDED_IN_CHARS = 4_000  # characters of all attachments and pasted blocks together
MAX_HANDED_IN_TEXTS = 6
# lines of findings of each kind
MAX_NOTES, MAX_ABNORMAL, MAX_SUSPECTS, MAX_UNOBSERVED, MAX_NORMAL = 3, 24, 10, 8, 6
MIN_SHOWN_POSTERIOR = 0.05


async def build_material(
    brief: IncidentBrief,
    logs: Sequence[LogDigest],
    context: IncidentContext,
    graph_context: GraphContext,
    assessment: Assessment | None = None,
    findings: str = "",
) -> PromptMaterial:
    """Build the prompt material. Site pages are left out of tenants' incidents."""
    return PromptMaterial(
        report=brief.text,
        handed_in=await _build_handed_in(context, graph_context),
        logs=await _render_logs(logs, graph_context),
        past=await _list_past_incidents(brief, context, graph_context, assessment),
        pages=_list_page_lines(brief, context, graph_context),
        findings=findings,
    )


async def _build_handed_in(context: IncidentContext, graph_context: GraphContext) -> str:
    """Return attachments and pasted blocks as they are, shortened, each with who handed it in and the host that wrote it."""
    reporter = str(context.messages[0]["user"]) if context.messages else context.item.user
    texts: dict[str, tuple[str, str]] = {}  # digest → (description, text)
    for user, attachment in _list_attachments(context):
        text = None if attachment.unread or attachment.sha256 in texts else await graph_context.evidence.get_text(attachment.sha256)
        if text:
            writer = _find_writing_host(attachment.sha256, context)
            person = "the reporter" if user == reporter else "another person"
            texts[attachment.sha256] = (f"{attachment.name}, from {person}{f', written by {writer}' if writer else ''}", text)
    newest = list(texts.values())[-MAX_HANDED_IN_TEXTS:]
    room = MAX_HANDED_IN_CHARS // max(1, len(newest))
    return "\n".join(f"{description}:\n{shorten_text(text, room)}" for description, text in newest)


def _list_attachments(context: IncidentContext) -> list[tuple[str, Attachment]]:
    """Return the attachments of all messages with the user who sent them, the current item's last."""
    stored = [
        (str(message.get("user", "")), Attachment.model_validate(row))
        for message in context.messages
        for row in message.get("attachments", ())
    ]
    return [*stored, *((context.item.user, attachment) for attachment in context.item.attachments)]


def _find_writing_host(sha256: str, context: IncidentContext) -> str:
    """Return the host that wrote the lines of a text, or an empty string if they name none or several."""
    hosts = {str(fact.attrs[WRITTEN_BY]) for fact in context.facts if fact.sha256 == sha256 and fact.attrs.get(WRITTEN_BY)}
    return hosts.pop() if len(hosts) == 1 else ""


async def _render_logs(logs: Sequence[LogDigest], graph_context: GraphContext) -> str:
    """Render the most telling kinds of lines, each with one line in full: numbers that a kind hides may be the diagnosis."""
    rendered: list[str] = []
    for log in select_telling_templates(logs, MAX_TEMPLATES):
        head, *kinds = format_log_digest(log)
        has_line_numbers = bool(log.sha256) and any(template.line for template in log.templates)
        text = await graph_context.evidence.get_text(log.sha256) if has_line_numbers else None
        specimens = await asyncio.to_thread(_find_specimens, text, log) if text else [""] * len(kinds)
        rendered.append(head)
        for kind, specimen in zip(kinds, specimens, strict=True):
            rendered += [kind, *([f"    in full: {specimen}"] if specimen else [])]
    return "\n".join(rendered)


def _find_specimens(text: str, log: LogDigest) -> list[str]:
    """Return the first line of each template as it stands in the log."""
    lines = split_lines(text)
    return [lines[row.line - 1].strip()[:MAX_SPECIMEN_CHARS] if 0 < row.line <= len(lines) else "" for row in log.templates]


async def _list_past_incidents(
    brief: IncidentBrief, context: IncidentContext, graph_context: GraphContext, assessment: Assessment | None
) -> list[str]:
    """Return similar incidents whose cause fits the report's words and is not contradicted by what was found."""
    if not brief.text:
        return []
    taxonomy = graph_context.taxonomy
    similar = await graph_context.history.find_similar(brief.text, MAX_SIMILAR_INCIDENTS, context.audience_tenant)
    telling = select_telling_incidents(similar, compute_word_priors(taxonomy, brief), MAX_PAST_INCIDENTS)
    verdicts = assessment.label_verdicts if assessment else {}
    fitting = [
        past
        for past in telling
        if past.label in taxonomy.leaves and (past.label not in verdicts or verdicts[past.label].verdict != "rejected")
    ]
    return [f"{taxonomy.get_title(past.label)} ({past.label}): {past.title}" for past in fitting[:MAX_PAST_INCIDENTS]]


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
    """Return what was found, likely causes, failed checks and what is normal, as lines.

    `notes`: past misdiagnoses here, put first.
    """
    suspected = [belief for belief in assessment.beliefs if belief.support and belief.posterior >= MIN_SHOWN_POSTERIOR]
    lines = [
        *(f"learnt here: {note}" for note in notes[:MAX_NOTES]),
        *_list_abnormal_lines(assessment.abnormal_facts),
        *(
            f"{belief.label} {belief.posterior:.2f}: {'; '.join(dict.fromkeys(match.says for match in belief.support))}"
            for belief in suspected[:MAX_SUSPECTS]
        ),
        *(f"could not look: {row.host} {row.check}: {row.why}" for row in assessment.list_unobserved()[:MAX_UNOBSERVED]),
        *_list_normal_lines(assessment),
    ]
    return [line[:MAX_FINDING_CHARS] for line in dict.fromkeys(lines)]


def _list_abnormal_lines(facts: Sequence[Fact]) -> list[str]:
    """Return one line for the same finding of several hosts, with hosts, check and time."""
    hosts_by_finding: dict[tuple[str, str, str], list[str]] = {}
    for fact in facts:
        time = f" {fact.time.astimezone(UTC):%m-%d %H:%M:%SZ}" if fact.time else ""
        if not fact.host:
            writer = fact.attrs.get(WRITTEN_BY)
            time += f" (handed in{f', written by {writer}' if writer else ''})"
        text = fact.line or f"{fact.key}={fact.value}{f' on {fact.device}' if fact.device else ''}"
        hosts_by_finding.setdefault((fact.check, time, text), []).append(fact.host)
    findings = [
        f"{f'{fold_host_names(dict.fromkeys(hosts))} ' if any(hosts) else ''}{check}{time}: {text}"
        for (check, time, text), hosts in hosts_by_finding.items()
    ]
    return findings[:MAX_ABNORMAL]


def _list_normal_lines(assessment: Assessment) -> list[str]:
    """Return which checks found nothing abnormal, and where."""
    coverage = assessment.coverage
    loud = {(fact.host, fact.check) for fact in assessment.abnormal_facts} | coverage.unobserved.keys() | coverage.skipped.keys()
    checks_by_host: dict[str, list[str]] = defaultdict(list)
    for host, check in sorted(coverage.asked - loud - coverage.untargeted.keys()):
        if host and check in assessment.reference.checks:
            checks_by_host[host].append(check)
    hosts_by_checks: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for host, checks in checks_by_host.items():
        hosts_by_checks[tuple(checks)].append(host)
    return [
        f"nothing abnormal on {fold_host_names(hosts)}: {', '.join(checks)}" for checks, hosts in list(hosts_by_checks.items())[:MAX_NORMAL]
    ]


def list_corrections(context: IncidentContext, labels: Sequence[str], graph_context: GraphContext) -> list[str]:
    """Return earlier human corrections about these causes."""
    notes = graph_context.mistakes(context.audience_tenant)
    titles = graph_context.taxonomy.titles
    return [note.format_sentence(titles) for note in notes if note.is_useful and {note.blamed, note.was} & set(labels)]
