"""Choose a remediation's next step.

It is the rest of the plan, a heavier remedy, the node's return, a recheck, the same step again, or a hand-over to people.
"""

from graph.remediation.build import NODE_EMPTYING_REMEDIES, PlanContext, enter_step, needs_idle_node, request_approval
from graph.remediation.outcomes import end_remediation
from graph.state import Remediation, RemediationStep, RemediationWait
from tools.remedies import REMEDIES


def get_current_step(remediation: Remediation) -> RemediationStep:
    step = remediation.current_step
    assert step is not None  # `apply_event` passes no remediation without a present step
    return step


def enter_next_step(remediation: Remediation, plan: PlanContext) -> Remediation:
    """Continue with the rest of the plan, then the node's return, then the recheck."""
    current_step = get_current_step(remediation)
    for index, step in list_later_steps(remediation):
        if step.plan == current_step.plan:
            return enter_step(remediation, index, plan)
    if current_step.part == "prepare":
        return escalate_remediation(remediation, "", plan)
    return_index = find_return_step(remediation)
    if remediation.drained and return_index is not None:
        return enter_step(remediation, return_index, plan)
    return schedule_recheck(remediation, plan)


def schedule_recheck(remediation: Remediation, plan: PlanContext) -> Remediation:
    """Schedule the second proof."""
    return remediation.model_copy(
        update={
            "waiting_for": "proof",
            "due": plan.now + plan.waits.recheck_after_fix,
            "approval": remediation.proven or remediation.approval,
            "says": "",
        }
    )


def escalate_remediation(remediation: Remediation, reason: str, plan: PlanContext) -> Remediation:
    """Enter the next plan, or the catalogue's heavier remedy if there is none, or hand off to people."""
    current_step = get_current_step(remediation)
    manual_work = _get_manual_work(remediation, current_step.plan)
    if manual_work and current_step.part == "prepare":
        return hand_off_to_people(remediation, reason, manual_work)
    next_plan_index = _find_next_plan(remediation, current_step.plan)
    if next_plan_index is not None:
        return enter_step(remediation, next_plan_index, plan).model_copy(update={"says": reason})
    has_later_plan = len(remediation.words) > current_step.plan + 1
    heavier_step = None if has_later_plan else _find_catalogue_escalation(remediation, current_step)
    if heavier_step is not None:
        steps = _insert_step(remediation.rungs, heavier_step, remediation.rung)
        extended_remediation = remediation.model_copy(update={"rungs": steps})
        return enter_step(extended_remediation, remediation.rung + 1, plan).model_copy(update={"says": reason})
    later_manual_work = ", or ".join(work for work in remediation.words[current_step.plan + 1 :] if work)
    return hand_off_to_people(remediation, reason, manual_work or later_manual_work)


def _find_next_plan(remediation: Remediation, plan_number: int) -> int | None:
    """Return the index of the first step of a later plan; None if people have to work before it."""
    for index, step in list_later_steps(remediation):
        if step.plan > plan_number:
            return None if _has_manual_plan_between(remediation, plan_number, step.plan) else index
    return None


def _has_manual_plan_between(remediation: Remediation, first_plan: int, last_plan: int) -> bool:
    plans_with_steps = {step.plan for step in remediation.rungs}
    return any(
        _get_manual_work(remediation, plan_number) and plan_number not in plans_with_steps
        for plan_number in range(first_plan + 1, last_plan)
    )


def _find_catalogue_escalation(remediation: Remediation, step: RemediationStep) -> RemediationStep | None:
    """Return a step with the heavier remedy; None if it was already tried or needs arguments."""
    remedy = REMEDIES[step.remedy]
    heavier_id = remedy.heavier
    if heavier_id == remedy.id:  # the same remedy with harder arguments
        args = {**step.args, **remedy.harder}
        return None if args == step.args else step.model_copy(update={"args": args, "plan": step.plan + 1})
    if not heavier_id or REMEDIES[heavier_id].args:
        return None
    if any(earlier_step.remedy == heavier_id for earlier_step in remediation.rungs):
        return None
    return RemediationStep(remedy=heavier_id, plan=step.plan + 1)


def _insert_step(steps: tuple[RemediationStep, ...], new_step: RemediationStep, index: int) -> tuple[RemediationStep, ...]:
    """Insert a step after the one at `index`."""
    return (*steps[: index + 1], new_step, *steps[index + 1 :])


def hand_off_to_people(remediation: Remediation, reason: str, manual_work: str) -> Remediation:
    next_work = f"next: {manual_work}" if manual_work else "no remedy is left"
    return end_remediation(remediation, "ticket", f"{reason}; {next_work}" if reason else next_work)


def request_approval_again(remediation: Remediation, reason: str, plan: PlanContext) -> Remediation:
    """Propose the same step as a new action with a new mention, at most `waits.asks` times."""
    if remediation.attempt >= plan.waits.asks:
        return end_remediation(remediation, "undecided", f"asked {remediation.attempt} times; last: {reason or 'no decision'}")
    return propose_again(remediation, reason, plan)


def propose_again(remediation: Remediation, reason: str, plan: PlanContext) -> Remediation:
    """Propose the step again; if it needs an idle node, wait for that first."""
    step = get_current_step(remediation)
    next_attempt = remediation.model_copy(update={"attempt": remediation.attempt + 1, "says": reason})
    needs_idle = needs_idle_node(step, plan.inventory.hosts.get(remediation.target))
    if needs_idle and step.remedy not in NODE_EMPTYING_REMEDIES:
        return next_attempt.model_copy(update={"waiting_for": "idle", "due": plan.now + plan.waits.idle, "approval": ""})
    return request_approval(next_attempt, plan)


def set_waiting(remediation: Remediation, reason: RemediationWait, plan: PlanContext, says: str) -> Remediation:
    return remediation.model_copy(update={"waiting_for": reason, "due": plan.now + plan.waits.back, "says": says})


def list_later_steps(remediation: Remediation) -> list[tuple[int, RemediationStep]]:
    """Return the steps after the current one with their indexes, without those that return the node."""
    return [(index, step) for index, step in enumerate(remediation.rungs) if index > remediation.rung and step.part != "restore"]


def find_return_step(remediation: Remediation) -> int | None:
    """Return the index of the step that returns the drained node, or None."""
    for index, step in enumerate(remediation.rungs):
        if step.part == "restore":
            return index
    return None


def _get_manual_work(remediation: Remediation, plan_number: int) -> str:
    return remediation.words[plan_number] if 0 <= plan_number < len(remediation.words) else ""
