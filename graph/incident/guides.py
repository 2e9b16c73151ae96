"""A guide within a turn: state, conditions, checks in `plan`, status and approval cards in `conclude`. Pure."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Any

from graph.context import GraphContext
from graph.dialogue.commands import parse_guide_request
from graph.dialogue.intents import Intent
from graph.engine.abnormal_facts import is_abnormal
from graph.engine.assessment import Assessment
from graph.engine.check_selection import list_first_wave
from graph.engine.reference_data import ReferenceData
from graph.incident.answers.item_answers import build_answer_report
from graph.incident.context import IncidentContext, TurnState, build_reference_data
from graph.incident.lifecycle import get_next_lifecycle, get_remediation_event
from graph.incident.remediations import build_plan_context, is_check_result
from graph.incident.turn_result import TurnResult
from graph.remediation.plan_steps import parse_plan
from graph.remediation.proposals import MAX_TEST_HOSTS, build_requested_check, list_planned_actions
from graph.report import GuideRun, GuideStepRow
from graph.state import Remediation
from kb.guides.guide import (
    Guide,
    GuideStep,
    MarkReason,
    StepCondition,
    StepStatus,
    compute_step_statuses,
    find_best_guide,
    slugify_guide_name,
)
from kb.taxonomy.taxonomy import Clue
from tools.fact import Fact
from tools.inventory.host_ranges import expand_host_range, fold_host_names

# State of a guide run between turns: guide, hosts, steps checked, waits.


@dataclass(frozen=True, slots=True)
class GuideRunState:
    """`looked`: steps checked; `began`: start of waits; `rest`: all other checks ran too."""

    id: str
    hosts: str = ""
    looked: tuple[str, ...] = ()
    began: Mapping[str, datetime] = field(default_factory=dict)
    rest: bool = False
    by: str = ""  # the requester's ledger id, who may not approve its cards; empty where approval is impossible

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> "GuideRunState | None":
        if not row.get("id"):
            return None
        began_by_step = {name: datetime.fromisoformat(at) for name, at in row["began"].items()}
        return cls(row["id"], row["hosts"], tuple(row["looked"]), began_by_step, row["rest"], row["by"])

    def to_json(self) -> dict[str, Any]:
        began_by_step = {name: at.isoformat() for name, at in self.began.items()}
        return {"id": self.id, "hosts": self.hosts, "looked": list(self.looked), "began": began_by_step, "rest": self.rest, "by": self.by}


def get_requested_guide(context: IncidentContext) -> str:
    """Return the guide that the item names, by command or first message, or an empty string."""
    if not context.looks_at_hosts:
        return ""
    if context.message.intent is Intent.RUN_GUIDE:
        return context.message.guide
    return slugify_guide_name(request[0]) if context.item.kind == "mention" and (request := parse_guide_request(context.item.text)) else ""


def get_running_guide(context: IncidentContext) -> GuideRunState | None:
    return GuideRunState.from_json(context.turn.guide)


def start_or_resume_run(context: IncidentContext, guide: Guide, hosts: str) -> GuideRunState:
    """Resume an open run of the same guide and hosts, or start one."""
    before, previous_run = get_running_guide(context), context.report.guide if context.report else None
    goes_on = before is not None and before.id == guide.id and before.hosts == hosts and previous_run is not None and previous_run.is_open
    requester = _get_requester(context)
    return replace(before, rest=False, by=requester) if before and goes_on else GuideRunState(guide.id, hosts, by=requester)


def _get_requester(context: IncidentContext) -> str:
    team, user = context.origin.team if context.origin else "", context.item.user
    return f"{team}:{user}" if team and user else ""


# Evaluate a guide's conditions and steps against facts, remediations and the clock.

SKIPPED_KEY = "check.skipped"
NO_CARD_REASON = "nothing found asks for it, so there is no card"


@dataclass(frozen=True)
class GuideContext:
    """`running`: the run, None if the guide is only compared with the facts; `planned`: remedies of proven causes."""

    facts: Sequence[Fact]
    hosts: tuple[str, ...]
    reference: ReferenceData
    now: datetime
    running: GuideRunState | None = None
    remediations: Sequence[Remediation] = ()
    planned: Collection[str] = ()

    @cached_property
    def _facts_by_key(self) -> dict[str, list[Fact]]:
        facts_by_key: dict[str, list[Fact]] = defaultdict(list)
        for fact in self.facts:
            if not fact.host or fact.host in self.hosts:
                facts_by_key[fact.key].append(fact)
        return facts_by_key

    @cached_property
    def _facts_by_check(self) -> dict[str, list[Fact]]:
        facts_by_check: dict[str, list[Fact]] = defaultdict(list)
        for fact in self.facts:
            if fact.host in self.hosts:
                facts_by_check[fact.check].append(fact)
        return facts_by_check

    def is_condition_met(self, condition: StepCondition) -> bool | None:
        """Return whether the condition is met; "not found" needs every host observed. None if undecided."""
        clue = Clue("", condition.key, condition.expression.source, 1.0, "", condition.expression)
        if any(clue.matches(fact, self._get_expected_value(fact)) for fact in self._facts_by_key.get(condition.key, ())):
            return condition.quantifier == "any"
        checks = [check.id for check in self.reference.list_establishing_checks(condition.key)]
        if all(any(host in self._get_observed_hosts(check) for check in checks) for host in self.hosts):
            return condition.quantifier == "none"
        return None

    def get_look_status(self, step: GuideStep) -> MarkReason:
        """Return the findings, or why there are none; `next` if not checked yet."""
        if step.approve:
            return self._get_approval_status(step)
        if step.id not in self.running.looked if self.running else self._has_unasked_checks(step):
            return MarkReason("next")
        return self._render_findings(step)

    def get_remedy_status(self, step: GuideStep) -> MarkReason:
        """Return the status of its approval cards; only a proven cause has one."""
        own = [
            row
            for row in self.remediations
            if row.target in self.hosts and any(remediation_step.remedy == step.remedy for remediation_step in row.rungs)
        ]
        if not own:
            return MarkReason("waiting", "a cause asks for it") if step.remedy in self.planned else MarkReason("people", NO_CARD_REASON)
        if waiting_targets := [row.target for row in own if row.is_open]:
            awaits_approval = any(
                row.is_open and row.waiting_for == "approval" and row.current_step and row.current_step.remedy == step.remedy for row in own
            )
            return MarkReason(
                "waiting",
                f"{fold_host_names(waiting_targets)}: {'its card is waiting for approval' if awaits_approval else 'it is part of a fix under way'}",
            )
        cured = [row.target for row in own if row.outcome == "cured"]
        return (
            MarkReason("done", f"{fold_host_names(cured)}: proved")
            if cured
            else MarkReason("people", f"{own[-1].target}: {own[-1].says or own[-1].outcome}")
        )

    def get_wait_start(self, step: GuideStep) -> datetime | None:
        return self.running.began.get(step.id) if self.running else None

    def _get_approval_status(self, step: GuideStep) -> MarkReason:
        """Return the status of exclusive checks: one card each, in sequence."""
        unanswered_checks = [check for check in step.look if not self.was_answered(check)]
        if not unanswered_checks:
            return self._render_findings(step)
        if self.reference.checks[unanswered_checks[0]].scope != "host" and len(self.hosts) < 2:
            return MarkReason("unsure", f"{unanswered_checks[0]} measures between hosts, so it needs at least two")
        cards = [
            row
            for row in self.remediations
            if any(remediation_step.args.get("check") == unanswered_checks[0] for remediation_step in row.rungs)
        ]
        cards = [row for row in cards if set(row.target.split(",")) & set(self.hosts) and row.outcome != "withdrawn"]
        if any(row.is_open for row in cards):
            return MarkReason("waiting", f"the card of {unanswered_checks[0]} is waiting for approval")
        if self.running and cards:
            return MarkReason("people", f"{unanswered_checks[0]}: {cards[-1].says or cards[-1].outcome}")
        return MarkReason("next", f"{unanswered_checks[0]} needs GPUs for itself")

    def was_answered(self, check: str) -> bool:
        """Return whether an exclusive check ran and was not merely skipped."""
        return any(fact.key != SKIPPED_KEY for fact in self._facts_by_check.get(check, ()))

    def _has_unasked_checks(self, step: GuideStep) -> bool:
        asked_checks = {(fact.host, fact.check) for check in step.look for fact in self._facts_by_check.get(check, ())}
        return any((host, check) not in asked_checks for host in self.hosts for check in step.look)

    def _render_findings(self, step: GuideStep) -> MarkReason:
        facts = [fact for check in step.look for fact in self._facts_by_check.get(check, ())]
        unobserved = [fact for fact in facts if fact.status.blind]
        if not any(not fact.status.blind for fact in facts):
            return MarkReason("unsure", f"could not look: {unobserved[0].line[:80]}" if unobserved else "no answer")
        odd = list(
            dict.fromkeys(f"{fact.host}: {fact.format_sentence()}" for fact in facts if is_abnormal(fact, self._get_expected_value(fact)))
        )
        more = f", and {len(odd) - 1} more" if len(odd) > 1 else ""
        unseen = f"; could not look on {fold_host_names({fact.host for fact in unobserved})}" if unobserved else ""
        return MarkReason("done", (odd[0] + more if odd else "nothing abnormal") + unseen)

    def _get_observed_hosts(self, check: str) -> set[str]:
        return {fact.host for fact in self._facts_by_check.get(check, ()) if not fact.status.blind}

    def _get_expected_value(self, fact: Fact) -> bool | int | float | str | list[str] | None:
        return self.reference.expected(fact.host, fact.key, fact.device) if fact.host else None


# A guide within a turn: its checks in `plan`, its status and approval cards in `conclude`.

MAX_TEXT_CHARS = 140


@dataclass(frozen=True, slots=True)
class GuidedChecks:
    """The turn state and the next wave."""

    turn: TurnState
    asks: Sequence[tuple[str, str]]


def get_unknown_guide(context: IncidentContext, ports: GraphContext) -> str:
    """Return the requested guide's name if there is none of that name."""
    name = get_requested_guide(context)
    return name if name and name not in ports.guides else ""


def answer_unknown_guide(context: IncidentContext, ports: GraphContext) -> TurnResult:
    """Answer with the known guides."""
    known_guides = ", ".join(f"`run guide {name}`" for name in ports.guides) or "none is loaded"
    return TurnResult(
        build_answer_report(context, f"I have no guide called {get_unknown_guide(context, ports)}. There are: {known_guides}.")
    )


def plan_guided_checks(context: IncidentContext, assessment: Assessment | None, ports: GraphContext) -> GuidedChecks | None:
    """Return the guide's next checks, then all other passive ones; None if no guide runs or all is done."""
    guide = ports.guides.get(get_requested_guide(context))
    if guide is None or context.turn.cut or not context.turn.hosts:
        return None
    running = start_or_resume_run(context, guide, context.turn.hosts) if assessment is None else get_running_guide(context)
    if running is None or running.rest:
        return None
    hosts = tuple(expand_host_range(running.hosts))
    statuses = compute_step_statuses(
        guide, _build_guide_context(context, ports, running, planned=_list_planned_remedies(assessment, ports))
    )
    wave = [row.step for row in statuses if row.mark == "next" and row.step.kind == "look" and not row.step.approve]
    observed_steps = (*running.looked, *(step.id for step in wave))
    running = replace(running, looked=observed_steps, rest=not wave)
    requests = [(host, check) for host in hosts for check in dict.fromkeys(check for step in wave for check in step.look)]
    rest = list_first_wave(build_reference_data(ports, context.facts), hosts)
    return GuidedChecks(replace(context.turn, guide=running.to_json()), requests if wave else rest)


def _list_planned_remedies(assessment: Assessment | None, ports: GraphContext) -> frozenset[str]:
    labels = {row.label for row in assessment.list_root_causes()} if assessment else set()
    plans = [plan for label in labels for plan in ports.taxonomy.get_leaf(label).remedies]
    return frozenset(step.name for plan in plans for step in parse_plan(plan))


def _build_guide_context(
    context: IncidentContext,
    ports: GraphContext,
    running: GuideRunState | None,
    remediations: Sequence[Remediation] = (),
    planned: frozenset[str] = frozenset(),
) -> GuideContext:
    hosts = tuple(expand_host_range(running.hosts)) if running else context.hosts
    return GuideContext(context.facts, hosts, build_reference_data(ports, context.facts), ports.clock.now(), running, remediations, planned)


def add_guide_status(result: TurnResult, context: IncidentContext, assessment: Assessment, ports: GraphContext) -> TurnResult:
    """Add the running guide's status, or without one a fitting guide if nothing is proven.

    A run proposes its exclusive checks one after the other.
    """
    calls = bool(get_requested_guide(context)) or is_check_result(context.item)
    running = get_running_guide(context)
    if running and not calls and not (context.report and context.report.guide and context.report.guide.is_open):
        running = None  # it ended and was reported in an earlier turn
    guide = ports.guides.get(running.id) if running else _find_fitting_guide(result, context, ports)
    if guide is None:
        return result
    remediations = list(context.remediations if result.ladders is None else result.ladders)
    statuses = compute_step_statuses(guide, _build_guide_context(context, ports, running, remediations))
    if (
        running
        and calls
        and not context.turn.cut
        and (card := _build_check_remediation(statuses, running, context, assessment, ports, remediations))
    ):
        remediations = [*remediations, card]
        result = _propose_remediations(result, remediations, context, ports)
        statuses = compute_step_statuses(guide, _build_guide_context(context, ports, running, remediations))
    if running:
        began_by_step = {
            row.step.id: running.began.get(row.step.id, ports.clock.now()) for row in statuses if row.mark == "waiting" and row.due
        }
        running = replace(running, began={**running.began, **began_by_step})
        result = replace(result, turn=replace(result.turn or context.turn, guide=running.to_json()))
    run = _build_guide_run(guide, statuses, called=running is not None)
    return replace(result, report=result.report.model_copy(update={"guide": run}))


def _find_fitting_guide(result: TurnResult, context: IncidentContext, ports: GraphContext) -> Guide | None:
    open_ = result.report.outcome == "abstained" and not (context.turn.cut or context.turn.narrow or context.turn.news)
    return find_best_guide(ports.guides, context.brief.symptoms, context.brief.text) if open_ and context.hosts and context.facts else None


def _build_check_remediation(
    stands: Sequence[StepStatus],
    running: GuideRunState,
    context: IncidentContext,
    assessment: Assessment,
    ports: GraphContext,
    remediations: Sequence[Remediation],
) -> Remediation | None:
    if any(row.is_open and row.current_step and row.current_step.remedy == "run_check" for row in remediations):
        return None
    hosts = expand_host_range(running.hosts)[:MAX_TEST_HOSTS]
    guide_context = _build_guide_context(context, ports, running, remediations)
    for row in stands:
        if row.mark != "next" or not row.step.approve:
            continue
        check = assessment.reference.checks[next(name for name in row.step.look if not guide_context.was_answered(name))]
        return build_requested_check(check, hosts, assessment, build_plan_context(context, ports), remediations).model_copy(
            update={"asked_by": running.by}
        )
    return None


def _propose_remediations(result: TurnResult, remediations: list[Remediation], context: IncidentContext, ports: GraphContext) -> TurnResult:
    actions = tuple(list_planned_actions(remediations, build_plan_context(context, ports)))
    report = result.report.model_copy(update={"actions": actions})
    return replace(
        result,
        report=report,
        ladders=remediations,
        lifecycle=get_next_lifecycle(result.lifecycle or "open", get_remediation_event(remediations)),
    )


def _build_guide_run(guide: Guide, stands: Sequence[StepStatus], *, called: bool) -> GuideRun:
    rows = tuple(
        GuideStepRow(id=row.step.id, mark=row.mark, does=row.step.says[:MAX_TEXT_CHARS], says=row.says[:MAX_TEXT_CHARS]) for row in stands
    )
    due_at = min((row.due for row in stands if row.due and row.mark == "waiting"), default=None)
    return GuideRun(id=guide.id, title=guide.title, called=called, steps=rows, due=due_at if called else None)
