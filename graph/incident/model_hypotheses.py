"""What a model reads of an incident, and the causes that it holds likely or proposes where nothing is proven."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from graph.context import GraphContext
from graph.engine.assessment import Assessment
from graph.engine.priors import rank_labels_by_words
from graph.extraction.log_digests import format_log_digest, select_telling_templates
from graph.incident.context import IncidentContext, TurnState
from graph.incident.questions import list_logs, list_mistake_notes, list_questions, render_findings
from graph.learning.site_notes import IncidentSubject, find_site_notes
from graph.model.reasoner import DeclinedAnswer, Idea, IdeaChoices, PromptMaterial
from graph.report import UnprovenCause
from graph.state import Conjecture, Exploration, IncidentBrief, LogDigest
from kb.needle_search import split_lines
from kb.taxonomy.taxonomy import Taxonomy
from tools.inventory.host_ranges import fold_host_names

# What a model reads of an incident: bounded texts and citable lines.

MAX_OFFERED_LABELS = 40  # labels a reading may choose from, likeliest first
# past incidents and log templates shown
MAX_PAST_INCIDENTS = 4
MAX_TEMPLATES = 12


async def build_material(
    brief: IncidentBrief, logs: Sequence[LogDigest], context: IncidentContext, ports: GraphContext, findings: str = ""
) -> PromptMaterial:
    """Build the prompt material. Site pages are left out of tenants' incidents."""
    similar_incidents = await ports.history.find_similar(brief.text, MAX_PAST_INCIDENTS, context.audience_tenant) if brief.text else []
    past = [
        f"{ports.taxonomy.get_title(one.label)} ({one.label}): {one.title}"
        for one in similar_incidents
        if one.label in ports.taxonomy.leaves
    ]
    log_text = "\n".join(line for log in select_telling_templates(logs, MAX_TEMPLATES) for line in format_log_digest(log))
    return PromptMaterial(brief.text, log_text, past, _list_page_lines(brief, context, ports), findings)


def _list_page_lines(brief: IncidentBrief, context: IncidentContext, ports: GraphContext) -> list[str]:
    if not ports.pages or context.audience_tenant is not None:
        return []
    hosts = [ports.inventory.hosts[name] for name in brief.hosts if name in ports.inventory.hosts]
    return [
        f"{note.title}: {line}"
        for note in find_site_notes(ports.pages, IncidentSubject.from_hosts(brief.text, (), hosts))
        for line in note.says
    ]


def list_finding_lines(assessment: Assessment, notes: Sequence[str] = ()) -> list[str]:
    """Return findings as lines, `notes` first."""
    return split_lines(render_findings(assessment, (), notes))


def list_corrections(context: IncidentContext, labels: Sequence[str], ports: GraphContext) -> list[str]:
    """Return earlier human corrections about these causes."""
    return list_mistake_notes(labels, ports.mistakes(context.audience_tenant), ports.taxonomy.titles)


# Likely but unproven causes: by a model's last reading, else by the facts. Labelled as such, never acted on.

MIN_LIKELY_PROBABILITY = 0.5  # minimum probability of a reading to name a label
MAX_LABELS_BY_WORDS = 16  # labels offered because the report suggests them, even if no check can show them
MAX_REASON_CHARS = 160


def is_possible(label: str, assessment: Assessment) -> bool:
    """Return whether no fact contradicts it; a missing sign is no contradiction, as many faults leave no trace."""
    verdict = assessment.label_verdicts.get(label)
    return verdict is None or verdict.verdict != "rejected" or verdict.absent


def list_offered_labels(context: IncidentContext, assessment: Assessment, taxonomy: Taxonomy) -> dict[str, str]:
    """Return labels offered to a reading, with title and whether checks missed them."""
    spoken = [label for label in rank_labels_by_words(taxonomy, context.brief, MAX_LABELS_BY_WORDS) if is_possible(label, assessment)]
    possible_labels = [one.label for one in assessment.label_verdicts.values() if one.verdict != "rejected"]
    return {
        label: f"{taxonomy.get_title(label)}{_format_missed_look(label, assessment)}"
        for label in list(dict.fromkeys((*spoken, *possible_labels)))[:MAX_OFFERED_LABELS]
    }


def _format_missed_look(label: str, assessment: Assessment) -> str:
    verdict = assessment.label_verdicts.get(label)
    if verdict is None:
        return " (no look can show it)"
    return f" ({verdict.because[:MAX_REASON_CHARS]})" if verdict.verdict == "rejected" else ""


def find_likely_cause(context: IncidentContext, assessment: Assessment, taxonomy: Taxonomy) -> UnprovenCause | None:
    """Return the likeliest cause or None; never one that facts contradict."""
    read = [
        (p, label)
        for label, p in context.turn.reading.items()
        if p >= MIN_LIKELY_PROBABILITY and label in taxonomy.leaves and is_possible(label, assessment)
    ]
    if read:
        p, label = max(read)
        verdict = assessment.label_verdicts.get(label)
        because = verdict.because if verdict else "no look of mine can show it"
        return UnprovenCause(label=label, p=round(p, 2), by="reading", because=because[:MAX_REASON_CHARS])
    best = next((row for row in assessment.suspects if assessment.label_verdicts[row.label].verdict != "rejected"), None)
    if best is None:
        return None
    because = assessment.label_verdicts[best.label].because[:MAX_REASON_CHARS]
    return UnprovenCause(label=best.label, p=round(best.posterior, 2), by="facts", because=because)


# Third tier: where nothing is proven, a model proposes other causes.
#
# Their basis is checked, passive checks run for them, and a second reading attacks the rest. None becomes a diagnosis or
# a remedy.

MAX_ROUNDS = 3  # turns that propose ideas; then people go on
MAX_ASKS = 24  # checks per round of ideas
MAX_RULED_OUT = 12  # ruled-out causes shown to the model
# from this probability of a taxonomy label only a check is missing, and no ideas are sought
MIN_KNOWN_PROBABILITY = 0.7
EXPLORE_QUESTION = "explore"
CRITIQUE_QUESTION = "critique"
HostChecks = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class ExplorationResult:
    """The turn state, the ideas so far, and checks for them."""

    turn: TurnState
    explored: Exploration
    asks: HostChecks = ()


async def explore_causes(context: IncidentContext, assessment: Assessment, ports: GraphContext) -> ExplorationResult:
    """Take one step: propose ideas and their checks, or weigh them once checked."""
    turn, before, is_continued = context.turn, context.exploration, EXPLORE_QUESTION in context.turn.asked_model
    asking = replace(turn, questions=turn.questions or tuple(list_questions(context, assessment)))
    over = turn.asked_model.count(EXPLORE_QUESTION) > 1 or (before.rounds >= MAX_ROUNDS and not is_continued)
    if ports.model is None or over or _is_known_already(turn, assessment):
        return ExplorationResult(asking, before)
    lines = list_finding_lines(assessment, list_corrections(context, list(assessment.label_verdicts)[:MAX_OFFERED_LABELS], ports))
    material = await build_material(context.brief, list_logs(context), context, ports)
    answer = await ports.model.propose_ideas(context.id, material, lines, _build_idea_choices(context, assessment, ports))
    if isinstance(answer, DeclinedAnswer):
        return ExplorationResult(asking.with_model_declined(answer.reason), before)
    new_questions = tuple(question for question in answer.questions if question not in turn.asked)
    turn = replace(asking, asked_model=(*turn.asked_model, EXPLORE_QUESTION), questions=new_questions or asking.questions)
    previous_checks = {idea.title: idea.looks for idea in before.ideas} if is_continued else {}
    checks_by_idea = {} if is_continued else list_idea_checks(answer.ideas, context, assessment)
    ideas = tuple(
        _build_conjecture(idea, lines, previous_checks.get(idea.title, ()) or _fold_checks(checks_by_idea.get(idea.title, ())))
        for idea in answer.ideas
    )
    explored = Exploration(rounds=before.rounds + (not is_continued), ideas=ideas)
    if requests := list(dict.fromkeys(ask for rows in checks_by_idea.values() for ask in rows))[:MAX_ASKS]:
        return ExplorationResult(
            replace(turn, hosts=fold_host_names((*context.hosts, *(host for host, _ in requests)))), explored, requests
        )
    return await _critique_ideas(ExplorationResult(turn, explored), lines, context, ports)


def _is_known_already(turn: TurnState, assessment: Assessment) -> bool:
    return any(p >= MIN_KNOWN_PROBABILITY and is_possible(label, assessment) for label, p in turn.reading.items())


def _build_idea_choices(context: IncidentContext, assessment: Assessment, ports: GraphContext) -> IdeaChoices:
    title = ports.taxonomy.get_title
    asks_by_check = {check.id: check.asks for check in assessment.reference.list_passive_checks()}
    branches = {branch: title(branch) for branch in dict.fromkeys(label.rpartition(".")[0] for label in ports.taxonomy.leaves)}
    out = [title(row.label) for row in assessment.label_verdicts.values() if row.verdict == "rejected" and row.best.support][:MAX_RULED_OUT]
    earlier = [f"{idea.title} ({idea.standing}): {idea.cause}" for idea in context.exploration.ideas]
    return IdeaChoices(_list_allowed_hosts(context), asks_by_check, branches, out, earlier)


def _list_allowed_hosts(context: IncidentContext) -> tuple[str, ...]:
    return context.hosts if context.turn.only else tuple(dict.fromkeys((*context.hosts, *context.visible)))


def list_idea_checks(ideas: Sequence[Idea], context: IncidentContext, assessment: Assessment) -> Mapping[str, HostChecks]:
    """Return by idea title the unasked passive checks it wants, on allowed hosts."""
    passive, places = {check.id for check in assessment.reference.list_passive_checks()}, set(_list_allowed_hosts(context))
    requests_by_idea = {idea.title: [(host, look) for host in idea.hosts or context.hosts for look in idea.looks] for idea in ideas}
    return {
        title: [(host, look) for host, look in rows if host in places and look in passive and (host, look) not in assessment.coverage.asked]
        for title, rows in requests_by_idea.items()
    }


def _fold_checks(asks: HostChecks) -> tuple[str, ...]:
    checks = dict.fromkeys(check for _, check in asks)
    return tuple(f"{check} on {fold_host_names(host for host, of in asks if of == check)}" for check in checks)


def _build_conjecture(idea: Idea, lines: Sequence[str], looks: tuple[str, ...]) -> Conjecture:
    return Conjecture(
        title=idea.title,
        cause=idea.cause,
        branch=idea.branch,
        rests=(*(lines[at][:160] for at in idea.cites if at < len(lines)), *idea.quotes),
        confirms=idea.confirms,
        refutes=idea.refutes,
        looks=looks,
        suggestions=idea.suggestions,
        standing=idea.standing,
    )


async def _critique_ideas(now: ExplorationResult, lines: Sequence[str], context: IncidentContext, ports: GraphContext) -> ExplorationResult:
    open_ideas = [idea for idea in now.explored.ideas if idea.standing != "refuted"]
    if ports.model is None or not open_ideas:
        return now
    answer = await ports.model.critique_claims(context.id, [f"{idea.title}: {idea.cause}" for idea in open_ideas], lines)
    turn = replace(now.turn, asked_model=(*now.turn.asked_model, CRITIQUE_QUESTION))
    if isinstance(answer, DeclinedAnswer):
        return replace(now, turn=turn.with_model_declined(answer.reason))
    against = {idea.title: row for idea, row in zip(open_ideas, answer, strict=True)}
    ideas = tuple(
        idea.model_copy(
            update={"doubt": row.because, "standing": "refuted" if row.verdict == "contradicted" else idea.standing}
            if (row := against.get(idea.title)) and row.verdict != "holds"
            else {}
        )
        for idea in now.explored.ideas
    )
    return replace(now, turn=turn, explored=now.explored.model_copy(update={"ideas": ideas}))


def has_exhausted_ideas(context: IncidentContext) -> bool:
    """Return whether all rounds are used and a new message brought no further ideas."""
    return (
        context.exploration.rounds >= MAX_ROUNDS
        and EXPLORE_QUESTION not in context.turn.asked_model
        and context.kind in ("reply", "attach")
    )
