"""A guide within a turn: its checks in `plan`, its status and approval cards in `conclude`."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from graph.context import GraphContext
from graph.engine.assessment import Assessment
from graph.engine.check_selection import list_first_wave
from graph.incident.answers.item_answers import build_answer_report
from graph.incident.context import IncidentContext, TurnState, build_reference_data
from graph.incident.guiding.guide_context import GuideContext
from graph.incident.guiding.guide_run import GuideRunState, get_requested_guide, get_running_guide, start_or_resume_run
from graph.incident.lifecycle import get_next_lifecycle, get_remediation_event
from graph.incident.remediations import build_plan_context, is_check_result
from graph.incident.turn_result import TurnResult
from graph.remediation.exclusive_checks import MAX_TEST_HOSTS, build_requested_check
from graph.remediation.plan_steps import parse_plan
from graph.remediation.preview import list_planned_actions
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


def get_unknown_guide(case: IncidentContext, ports: GraphContext) -> str:
    """Return the requested guide's name if there is none of that name."""
    name = get_requested_guide(case)
    return name if name and name not in ports.guides else ""


def answer_unknown_guide(case: IncidentContext, ports: GraphContext) -> TurnResult:
    """Answer with the known guides."""
    known = ", ".join(f"`run guide {name}`" for name in ports.guides) or "none is loaded"
    return TurnResult(build_answer_report(case, f"I have no guide called {get_unknown_guide(case, ports)}. There are: {known}."))


def plan_guided_checks(case: IncidentContext, now: Assessment | None, ports: GraphContext) -> GuidedChecks | None:
    """Return the guide's next checks, then all other passive ones; None if no guide runs or all is done."""
    guide = ports.guides.get(get_requested_guide(case))
    if guide is None or case.turn.cut or not case.turn.hosts:
        return None
    running = start_or_resume_run(case, guide, case.turn.hosts) if now is None else get_running_guide(case)
    if running is None or running.rest:
        return None
    hosts = tuple(expand_host_range(running.hosts))
    stands = compute_step_statuses(guide, _build_guide_context(case, ports, running, planned=_list_planned_remedies(now, ports)))
    wave = [row.step for row in stands if row.mark == "next" and row.step.kind == "look" and not row.step.approve]
    looked = (*running.looked, *(step.id for step in wave))
    running = replace(running, looked=looked, rest=not wave)
    asks = [(host, check) for host in hosts for check in dict.fromkeys(check for step in wave for check in step.look)]
    rest = list_first_wave(build_reference_data(ports, case.facts), hosts)
    return GuidedChecks(replace(case.turn, guide=running.to_json()), asks if wave else rest)


def _list_planned_remedies(now: Assessment | None, ports: GraphContext) -> frozenset[str]:
    labels = {row.label for row in now.list_root_causes()} if now else set()
    plans = [plan for label in labels for plan in ports.taxonomy.get_leaf(label).remedies]
    return frozenset(step.name for plan in plans for step in parse_plan(plan))


def _build_guide_context(
    case: IncidentContext,
    ports: GraphContext,
    running: GuideRunState | None,
    ladders: Sequence[Remediation] = (),
    planned: frozenset[str] = frozenset(),
) -> GuideContext:
    hosts = tuple(expand_host_range(running.hosts)) if running else case.hosts
    return GuideContext(case.facts, hosts, build_reference_data(ports, case.facts), ports.clock.now(), running, ladders, planned)


def add_guide_status(concluded: TurnResult, case: IncidentContext, now: Assessment, ports: GraphContext) -> TurnResult:
    """Add the running guide's status, or without one a fitting guide if nothing is proven.

    A run proposes its exclusive checks one after the other.
    """
    calls = bool(get_requested_guide(case)) or is_check_result(case.item)
    running = get_running_guide(case)
    if running and not calls and not (case.report and case.report.guide and case.report.guide.is_open):
        running = None  # it ended and was reported in an earlier turn
    guide = ports.guides.get(running.id) if running else _find_fitting_guide(concluded, case, ports)
    if guide is None:
        return concluded
    ladders = list(case.remediations if concluded.ladders is None else concluded.ladders)
    stands = compute_step_statuses(guide, _build_guide_context(case, ports, running, ladders))
    if running and calls and not case.turn.cut and (card := _build_check_remediation(stands, running, case, now, ports, ladders)):
        ladders = [*ladders, card]
        concluded = _propose_remediations(concluded, ladders, case, ports)
        stands = compute_step_statuses(guide, _build_guide_context(case, ports, running, ladders))
    if running:
        began = {row.step.id: running.began.get(row.step.id, ports.clock.now()) for row in stands if row.mark == "waiting" and row.due}
        running = replace(running, began={**running.began, **began})
        concluded = replace(concluded, turn=replace(concluded.turn or case.turn, guide=running.to_json()))
    told = _build_guide_run(guide, stands, called=running is not None)
    return replace(concluded, report=concluded.report.model_copy(update={"guide": told}))


def _find_fitting_guide(concluded: TurnResult, case: IncidentContext, ports: GraphContext) -> Guide | None:
    open_ = concluded.report.outcome == "abstained" and not (case.turn.cut or case.turn.narrow or case.turn.news)
    return find_best_guide(ports.guides, case.brief.symptoms, case.brief.text) if open_ and case.hosts and case.facts else None


def _build_check_remediation(
    stands: Sequence[StepStatus],
    running: GuideRunState,
    case: IncidentContext,
    now: Assessment,
    ports: GraphContext,
    ladders: Sequence[Remediation],
) -> Remediation | None:
    if any(row.is_open and row.current_step and row.current_step.remedy == "run_check" for row in ladders):
        return None
    hosts = expand_host_range(running.hosts)[:MAX_TEST_HOSTS]
    ground = _build_guide_context(case, ports, running, ladders)
    for row in stands:
        if row.mark != "next" or not row.step.approve:
            continue
        check = now.lens.checks[next(name for name in row.step.look if not ground.was_answered(name))]
        return build_requested_check(check, hosts, now, build_plan_context(case, ports), ladders).model_copy(
            update={"asked_by": running.by}
        )
    return None


def _propose_remediations(concluded: TurnResult, ladders: list[Remediation], case: IncidentContext, ports: GraphContext) -> TurnResult:
    actions = tuple(list_planned_actions(ladders, build_plan_context(case, ports)))
    report = concluded.report.model_copy(update={"actions": actions})
    return replace(
        concluded,
        report=report,
        ladders=ladders,
        lifecycle=get_next_lifecycle(concluded.lifecycle or "open", get_remediation_event(ladders)),
    )


def _build_guide_run(guide: Guide, stands: Sequence[StepStatus], *, called: bool) -> GuideRun:
    rows = tuple(
        GuideStepRow(id=row.step.id, mark=row.mark, does=row.step.says[:MAX_TEXT_CHARS], says=row.says[:MAX_TEXT_CHARS]) for row in stands
    )
    due = min((row.due for row in stands if row.due and row.mark == "waiting"), default=None)
    return GuideRun(id=guide.id, title=guide.title, called=called, steps=rows, due=due if called else None)
