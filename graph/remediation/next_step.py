"""Choose a remediation's next step: rest of the plan, heavier remedy, return, recheck, same step again, or people."""

from collections.abc import Callable

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
    step = get_current_step(remediation)
    follow = _find_step_index(
        remediation,
        lambda n, remediation_step: n > remediation.rung and remediation_step.plan == step.plan and remediation_step.part != "restore",
    )
    if follow is not None:
        return enter_step(remediation, follow, plan)
    if step.part == "prepare":
        return escalate_remediation(remediation, "", plan)
    back = _find_step_index(remediation, lambda n, step: step.part == "restore")
    return enter_step(remediation, back, plan) if back is not None and remediation.drained else schedule_recheck(remediation, plan)


def schedule_recheck(remediation: Remediation, plan: PlanContext) -> Remediation:
    """Schedule the second proof."""
    watched = {
        "waiting_for": "proof",
        "due": plan.now + plan.waits.recheck_after_fix,
        "approval": remediation.proven or remediation.approval,
        "says": "",
    }
    return remediation.model_copy(update=watched)


def escalate_remediation(remediation: Remediation, reason: str, plan: PlanContext) -> Remediation:
    """Enter the next plan; without one the catalogue's heavier remedy; else hand off."""
    step = get_current_step(remediation)
    manual_work = _get_manual_work(remediation, step.plan)
    later = _find_step_index(
        remediation,
        lambda n, remediation_step: n > remediation.rung and remediation_step.plan > step.plan and remediation_step.part != "restore",
    )
    if manual_work and step.part == "prepare":
        return hand_off_to_people(remediation, reason, manual_work)
    if later is not None and not _has_manual_plan_between(remediation, step.plan, remediation.rungs[later].plan):
        return enter_step(remediation, later, plan).model_copy(update={"says": reason})
    if len(remediation.words) <= step.plan + 1 and (heavier_step := _find_catalogue_escalation(remediation, step)):
        return enter_step(
            remediation.model_copy(update={"rungs": _insert_step(remediation.rungs, heavier_step, remediation.rung)}),
            remediation.rung + 1,
            plan,
        ).model_copy(update={"says": reason})
    return hand_off_to_people(remediation, reason, manual_work or ", or ".join(filter(None, remediation.words[step.plan + 1 :])))


def _has_manual_plan_between(remediation: Remediation, plan: int, later: int) -> bool:
    return any(
        _get_manual_work(remediation, number) and not any(step.plan == number for step in remediation.rungs)
        for number in range(plan + 1, later)
    )


def _find_catalogue_escalation(remediation: Remediation, step: RemediationStep) -> RemediationStep | None:
    """Return the heavier remedy, unless tried or in need of arguments."""
    remedy = REMEDIES[step.remedy]
    heavier = remedy.heavier
    if heavier == remedy.id:
        args = {**step.args, **remedy.harder}
        return None if args == step.args else step.model_copy(update={"args": args, "plan": step.plan + 1})
    if not heavier or REMEDIES[heavier].args or any(step.remedy == heavier for step in remediation.rungs):
        return None
    return RemediationStep(remedy=heavier, plan=step.plan + 1)


def _insert_step(steps: tuple[RemediationStep, ...], more: RemediationStep, behind: int) -> tuple[RemediationStep, ...]:
    return (*steps[: behind + 1], more, *steps[behind + 1 :])


def hand_off_to_people(remediation: Remediation, reason: str, words: str) -> Remediation:
    return end_remediation(remediation, "ticket", "; ".join(filter(None, (reason, f"next: {words}" if words else "no remedy is left"))))


def request_approval_again(remediation: Remediation, reason: str, plan: PlanContext) -> Remediation:
    """Propose the same step as a new action with a new mention, at most `waits.asks` times."""
    if remediation.attempt >= plan.waits.asks:
        return end_remediation(remediation, "undecided", f"asked {remediation.attempt} times; last: {reason or 'no decision'}")
    return propose_again(remediation, reason, plan)


def propose_again(remediation: Remediation, reason: str, plan: PlanContext) -> Remediation:
    """Propose the step again; where it needs an idle node, wait for that first."""
    step = get_current_step(remediation)
    next_attempt = remediation.model_copy(update={"attempt": remediation.attempt + 1, "says": reason})
    if needs_idle_node(step, plan.inventory.hosts.get(remediation.target)) and step.remedy not in NODE_EMPTYING_REMEDIES:
        return next_attempt.model_copy(update={"waiting_for": "idle", "due": plan.now + plan.waits.idle, "approval": ""})
    return request_approval(next_attempt, plan)


def set_waiting(remediation: Remediation, reason: RemediationWait, plan: PlanContext, says: str) -> Remediation:
    return remediation.model_copy(update={"waiting_for": reason, "due": plan.now + plan.waits.back, "says": says})


def _find_step_index(remediation: Remediation, fits: Callable[[int, RemediationStep], bool]) -> int | None:
    return next((n for n, step in enumerate(remediation.rungs) if fits(n, step)), None)


def _get_manual_work(remediation: Remediation, plan: int) -> str:
    return remediation.words[plan] if 0 <= plan < len(remediation.words) else ""
