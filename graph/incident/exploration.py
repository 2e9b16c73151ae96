"""Third tier of a diagnosis: if no cause is proven, a model proposes causes outside the taxonomy.

The facts that an idea cites are verified, passive checks run for it, and the model is asked a second time to refute it.
An idea never becomes a diagnosis or a remedy.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from graph.context import GraphContext
from graph.engine.assessment import Assessment
from graph.incident.context import IncidentContext, TurnState
from graph.incident.likely_causes import MIN_LIKELY_PROBABILITY, is_possible
from graph.incident.prompt_material import build_material, list_corrections, list_finding_lines
from graph.incident.questions import list_logs, list_questions
from graph.model.reasoner import DeclinedAnswer, Idea, IdeaChoices, Objection
from graph.state import Conjecture, Exploration
from tools.inventory.host_ranges import fold_host_names

MAX_ROUNDS = 3  # turns that propose ideas before people take over
MAX_REQUESTS = 24  # checks per round of ideas
MAX_CITED_CHARS = 160
MAX_CORRECTED_LABELS = 40  # likeliest labels of which earlier human corrections are shown
MAX_RULED_OUT = 12  # ruled-out causes shown to the model
EXPLORE_QUESTION = "explore"
CRITIQUE_QUESTION = "critique"
HostChecks = Sequence[tuple[str, str]]  # (host, check)


@dataclass(frozen=True, slots=True)
class ExplorationResult:
    """The turn state, the ideas so far, and the checks that they need."""

    turn: TurnState
    explored: Exploration
    asks: HostChecks = ()


async def explore_causes(context: IncidentContext, assessment: Assessment, graph_context: GraphContext) -> ExplorationResult:
    """Ask the model for ideas and return the checks that they need. After the checks, ask it to judge the ideas."""
    turn, previous_exploration = context.turn, context.exploration
    is_continued = EXPLORE_QUESTION in turn.asked_model  # the checks for the first answer have run
    asking_turn = replace(turn, questions=turn.questions or tuple(list_questions(context, assessment)))
    is_over = turn.asked_model.count(EXPLORE_QUESTION) > 1 or (previous_exploration.rounds >= MAX_ROUNDS and not is_continued)
    if graph_context.model is None or is_over or _is_known_already(turn, assessment):
        return ExplorationResult(asking_turn, previous_exploration)
    lines = list_finding_lines(assessment, list_corrections(context, list(assessment.label_verdicts)[:MAX_CORRECTED_LABELS], graph_context))
    material = await build_material(context.brief, list_logs(context), context, graph_context, assessment)
    answer = await graph_context.model.propose_ideas(context.id, material, lines, _build_idea_choices(context, assessment, graph_context))
    if isinstance(answer, DeclinedAnswer):
        return ExplorationResult(asking_turn.with_model_declined(answer.reason), previous_exploration)
    new_questions = tuple(question for question in answer.questions if question not in turn.asked)
    turn = replace(asking_turn, asked_model=(*turn.asked_model, EXPLORE_QUESTION), questions=new_questions or asking_turn.questions)
    previous_checks = {idea.title: idea.looks for idea in previous_exploration.ideas} if is_continued else {}
    checks_by_idea = {} if is_continued else list_idea_checks(answer.ideas, context, assessment)
    ideas = tuple(
        _build_conjecture(idea, lines, previous_checks.get(idea.title, ()) or _fold_checks(checks_by_idea.get(idea.title, ())))
        for idea in answer.ideas
    )
    explored = Exploration(rounds=previous_exploration.rounds + (not is_continued), ideas=ideas)
    requests = list(dict.fromkeys(request for host_checks in checks_by_idea.values() for request in host_checks))[:MAX_REQUESTS]
    if requests:
        hosts = fold_host_names((*context.hosts, *(host for host, _ in requests)))
        return ExplorationResult(replace(turn, hosts=hosts), explored, requests)
    return await _critique_ideas(ExplorationResult(turn, explored), lines, context, graph_context)


def _is_known_already(turn: TurnState, assessment: Assessment) -> bool:
    """Return whether a reading names a label as likely: only a check is missing then, and no idea."""
    return any(probability >= MIN_LIKELY_PROBABILITY and is_possible(label, assessment) for label, probability in turn.reading.items())


def _build_idea_choices(context: IncidentContext, assessment: Assessment, graph_context: GraphContext) -> IdeaChoices:
    get_title = graph_context.taxonomy.get_title
    asks_by_check = {check.id: check.asks for check in assessment.reference.list_passive_checks()}
    branches = dict.fromkeys(label.rpartition(".")[0] for label in graph_context.taxonomy.leaves)
    branch_titles = {branch: get_title(branch) for branch in branches}
    rejected = [verdict for verdict in assessment.label_verdicts.values() if verdict.verdict == "rejected" and verdict.best.support]
    ruled_out = [get_title(verdict.label) for verdict in rejected[:MAX_RULED_OUT]]
    earlier_ideas = [f"{idea.title} ({idea.standing}): {idea.cause}" for idea in context.exploration.ideas]
    return IdeaChoices(_list_allowed_hosts(context), asks_by_check, branch_titles, ruled_out, earlier_ideas)


def _list_allowed_hosts(context: IncidentContext) -> tuple[str, ...]:
    return context.hosts if context.turn.only else tuple(dict.fromkeys((*context.hosts, *context.visible)))


def list_idea_checks(ideas: Sequence[Idea], context: IncidentContext, assessment: Assessment) -> Mapping[str, HostChecks]:
    """Return the passive checks on allowed hosts that each idea asks for and that were not run yet, by the idea's title."""
    passive_checks = {check.id for check in assessment.reference.list_passive_checks()}
    allowed_hosts = set(_list_allowed_hosts(context))
    checks_by_idea: dict[str, HostChecks] = {}
    for idea in ideas:
        requests = [(host, check) for host in idea.hosts or context.hosts for check in idea.looks]
        checks_by_idea[idea.title] = [
            (host, check)
            for host, check in requests
            if host in allowed_hosts and check in passive_checks and (host, check) not in assessment.coverage.asked
        ]
    return checks_by_idea


def _fold_checks(host_checks: HostChecks) -> tuple[str, ...]:
    """Return `dmesg on gpu-[001-002]` for each check."""
    hosts_by_check: dict[str, list[str]] = {}
    for host, check in host_checks:
        hosts_by_check.setdefault(check, []).append(host)
    return tuple(f"{check} on {fold_host_names(hosts)}" for check, hosts in hosts_by_check.items())


def _build_conjecture(idea: Idea, lines: Sequence[str], looks: tuple[str, ...]) -> Conjecture:
    return Conjecture(
        title=idea.title,
        cause=idea.cause,
        branch=idea.branch,
        rests=(*(lines[index][:MAX_CITED_CHARS] for index in idea.cites if index < len(lines)), *idea.quotes),
        confirms=idea.confirms,
        refutes=idea.refutes,
        looks=looks,
        suggestions=idea.suggestions,
        standing=idea.standing,
    )


async def _critique_ideas(
    result: ExplorationResult, lines: Sequence[str], context: IncidentContext, graph_context: GraphContext
) -> ExplorationResult:
    """Ask the model to refute the ideas that are still open."""
    open_ideas = [idea for idea in result.explored.ideas if idea.standing != "refuted"]
    if graph_context.model is None or not open_ideas:
        return result
    answer = await graph_context.model.critique_claims(context.id, [f"{idea.title}: {idea.cause}" for idea in open_ideas], lines)
    turn = replace(result.turn, asked_model=(*result.turn.asked_model, CRITIQUE_QUESTION))
    if isinstance(answer, DeclinedAnswer):
        return replace(result, turn=turn.with_model_declined(answer.reason))
    objections = {idea.title: objection for idea, objection in zip(open_ideas, answer, strict=True)}
    ideas = tuple(_apply_objection(idea, objections.get(idea.title)) for idea in result.explored.ideas)
    return replace(result, turn=turn, explored=result.explored.model_copy(update={"ideas": ideas}))


def _apply_objection(idea: Conjecture, objection: Objection | None) -> Conjecture:
    if objection is None or objection.verdict == "holds":
        return idea
    standing = "refuted" if objection.verdict == "contradicted" else idea.standing
    return idea.model_copy(update={"doubt": objection.because, "standing": standing})


def has_exhausted_ideas(context: IncidentContext) -> bool:
    """Return whether all rounds are used and a new message brought no further ideas."""
    return (
        context.exploration.rounds >= MAX_ROUNDS
        and EXPLORE_QUESTION not in context.turn.asked_model
        and context.kind in ("reply", "attach")
    )
