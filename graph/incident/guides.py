"""A guide within a turn: its checks in `plan`, its status and approval cards in `conclude`."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from graph.context import GraphContext
from graph.dialogue.intents import Intent
from graph.engine.assessment import Assessment
from graph.engine.check_selection import list_first_wave
from graph.incident.answers.item_answers import build_answer_report
from graph.incident.context import IncidentContext, TurnState, build_reference_data
from graph.incident.guide_context import GuideContext
from graph.incident.guide_run import GuideRunState, get_requested_guide, get_running_guide, start_or_resume_run
from graph.incident.lifecycle import get_next_lifecycle, get_remediation_event
from graph.incident.remediations import build_plan_context, is_check_result
from graph.incident.turn_result import TurnResult
from graph.remediation.plan_steps import parse_plan
from graph.remediation.proposals import MAX_TEST_HOSTS, build_requested_check, list_planned_actions
from graph.report import GuideRun, GuideStepRow
from graph.state import Remediation
from kb.guides.guide import Guide, find_best_guide
from kb.guides.step_status import StepStatus, compute_step_statuses
from tools.inventory.host_ranges import expand_host_range

MAX_TEXT_CHARS = 140


@dataclass(frozen=True, slots=True)
class GuidedChecks:
    """The turn state and the next wave."""

    turn: TurnState
    asks: Sequence[tuple[str, str]]


def lacks_requested_guide(context: IncidentContext, graph_context: GraphContext) -> bool:
    """Return whether the item requests a guide that does not exist, or does not say which one."""
    requests_guide = bool(get_requested_guide(context)) or (context.looks_at_hosts and context.message.intent is Intent.RUN_GUIDE)
    return requests_guide and _find_requested_guide(context, graph_context) is None


def answer_unknown_guide(context: IncidentContext, graph_context: GraphContext) -> TurnResult:
    """Answer with the known guides."""
    known_guides = ", ".join(f"`run guide {name}`" for name in graph_context.guides) or "none is loaded"
    name = get_requested_guide(context)
    problem = f"I have no guide called {name}." if name else "Which guide do you mean?"
    return TurnResult(build_answer_report(context, f"{problem} There are: {known_guides}."))


def _find_requested_guide(context: IncidentContext, graph_context: GraphContext) -> Guide | None:
    """Return the guide of that name, or without a name the one whose words the message has."""
    name = get_requested_guide(context)
    if name or context.message.intent is not Intent.RUN_GUIDE:
        return graph_context.guides.get(name)
    return find_best_guide(graph_context.guides, (), context.message.text)


def plan_guided_checks(context: IncidentContext, assessment: Assessment | None, graph_context: GraphContext) -> GuidedChecks | None:
    """Return the guide's next checks, then all other passive ones; None if no guide runs or all is done."""
    guide = _find_requested_guide(context, graph_context)
    if guide is None or context.turn.cut or not context.turn.hosts:
        return None
    running = start_or_resume_run(context, guide, context.turn.hosts) if assessment is None else get_running_guide(context)
    if running is None or running.rest:
        return None
    hosts = tuple(expand_host_range(running.hosts))
    statuses = compute_step_statuses(
        guide, _build_guide_context(context, graph_context, running, planned=_list_planned_remedies(assessment, graph_context))
    )
    wave = [
        step_status.step
        for step_status in statuses
        if step_status.mark == "next" and step_status.step.kind == "look" and not step_status.step.approve
    ]
    observed_steps = (*running.looked, *(step.id for step in wave))
    running = replace(running, looked=observed_steps, rest=not wave)
    requests = [(host, check) for host in hosts for check in dict.fromkeys(check for step in wave for check in step.look)]
    rest = list_first_wave(build_reference_data(graph_context, context.facts), hosts)
    return GuidedChecks(replace(context.turn, guide=running.to_json()), requests if wave else rest)


def _list_planned_remedies(assessment: Assessment | None, graph_context: GraphContext) -> frozenset[str]:
    labels = {cause.label for cause in assessment.list_root_causes()} if assessment else set()
    plans = [plan for label in labels for plan in graph_context.taxonomy.get_leaf(label).remedies]
    return frozenset(step.name for plan in plans for step in parse_plan(plan))


def _build_guide_context(
    context: IncidentContext,
    graph_context: GraphContext,
    running: GuideRunState | None,
    remediations: Sequence[Remediation] = (),
    planned: frozenset[str] = frozenset(),
) -> GuideContext:
    hosts = tuple(expand_host_range(running.hosts)) if running else context.hosts
    return GuideContext(
        context.facts, hosts, build_reference_data(graph_context, context.facts), graph_context.clock.now(), running, remediations, planned
    )


def add_guide_status(result: TurnResult, context: IncidentContext, assessment: Assessment, graph_context: GraphContext) -> TurnResult:
    """Add the running guide's status, or without one a fitting guide if nothing is proven.

    A run proposes its exclusive checks one after the other.
    """
    calls = _find_requested_guide(context, graph_context) is not None or is_check_result(context.item)
    running = get_running_guide(context)
    if running and not calls and not (context.report and context.report.guide and context.report.guide.is_open):
        running = None  # it ended and was reported in an earlier turn
    guide = graph_context.guides.get(running.id) if running else _find_fitting_guide(result, context, graph_context)
    if guide is None:
        return result
    remediations = list(context.remediations if result.ladders is None else result.ladders)
    statuses = compute_step_statuses(guide, _build_guide_context(context, graph_context, running, remediations))
    if (
        running
        and calls
        and not context.turn.cut
        and (card := _build_check_remediation(statuses, running, context, assessment, graph_context, remediations))
    ):
        remediations = [*remediations, card]
        result = _propose_remediations(result, remediations, context, graph_context)
        statuses = compute_step_statuses(guide, _build_guide_context(context, graph_context, running, remediations))
    if running:
        began_by_step = {
            step_status.step.id: running.began.get(step_status.step.id, graph_context.clock.now())
            for step_status in statuses
            if step_status.mark == "waiting" and step_status.due
        }
        running = replace(running, began={**running.began, **began_by_step})
        result = replace(result, turn=replace(result.turn or context.turn, guide=running.to_json()))
    run = _build_guide_run(guide, statuses, called=running is not None)
    return replace(result, report=result.report.model_copy(update={"guide": run}))


def _find_fitting_guide(result: TurnResult, context: IncidentContext, graph_context: GraphContext) -> Guide | None:
    open_ = result.report.outcome == "abstained" and not (context.turn.cut or context.turn.narrow or context.turn.news)
    return (
        find_best_guide(graph_context.guides, context.brief.symptoms, context.brief.text)
        if open_ and context.hosts and context.facts
        else None
    )


def _build_check_remediation(
    statuses: Sequence[StepStatus],
    running: GuideRunState,
    context: IncidentContext,
    assessment: Assessment,
    graph_context: GraphContext,
    remediations: Sequence[Remediation],
) -> Remediation | None:
    if any(
        remediation.is_open and remediation.current_step and remediation.current_step.remedy == "run_check" for remediation in remediations
    ):
        return None
    hosts = expand_host_range(running.hosts)[:MAX_TEST_HOSTS]
    guide_context = _build_guide_context(context, graph_context, running, remediations)
    for step_status in statuses:
        if step_status.mark != "next" or not step_status.step.approve:
            continue
        check = assessment.reference.checks[next(name for name in step_status.step.look if not guide_context.was_answered(name))]
        return build_requested_check(check, hosts, assessment, build_plan_context(context, graph_context), remediations).model_copy(
            update={"asked_by": running.by}
        )
    return None


def _propose_remediations(
    result: TurnResult, remediations: list[Remediation], context: IncidentContext, graph_context: GraphContext
) -> TurnResult:
    actions = tuple(list_planned_actions(remediations, build_plan_context(context, graph_context)))
    report = result.report.model_copy(update={"actions": actions})
    return replace(
        result,
        report=report,
        ladders=remediations,
        lifecycle=get_next_lifecycle(result.lifecycle or "open", get_remediation_event(remediations)),
    )


def _build_guide_run(guide: Guide, statuses: Sequence[StepStatus], *, called: bool) -> GuideRun:
    step_rows = tuple(
        GuideStepRow(
            id=step_status.step.id,
            mark=step_status.mark,
            does=step_status.step.says[:MAX_TEXT_CHARS],
            says=step_status.says[:MAX_TEXT_CHARS],
        )
        for step_status in statuses
    )
    due_at = min((step_status.due for step_status in statuses if step_status.due and step_status.mark == "waiting"), default=None)
    return GuideRun(id=guide.id, title=guide.title, called=called, steps=step_rows, due=due_at if called else None)
