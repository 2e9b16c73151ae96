"""Choose a remediation's next step: rest of the plan, heavier remedy, return, recheck, same step again, or people.
Pure.
"""

from collections.abc import Callable

from graph.remediation.build import NODE_EMPTYING_REMEDIES, PlanContext, enter_step, needs_idle_node, request_approval
from graph.remediation.outcomes import end_remediation
from graph.state import Remediation, RemediationStep, RemediationWait
from tools.remedies import REMEDIES


def get_current_step(ladder: Remediation) -> RemediationStep:
    rung = ladder.current_step
    assert rung is not None  # `apply_event` passes no remediation without a present step
    return rung


def enter_next_step(ladder: Remediation, yard: PlanContext) -> Remediation:
    """Continue with the rest of the plan, then the node's return, then the recheck."""
    rung = get_current_step(ladder)
    follow = _find_step_index(ladder, lambda n, row: n > ladder.rung and row.plan == rung.plan and row.part != "restore")
    if follow is not None:
        return enter_step(ladder, follow, yard)
    if rung.part == "prepare":
        return escalate_remediation(ladder, "", yard)
    back = _find_step_index(ladder, lambda n, row: row.part == "restore")
    return enter_step(ladder, back, yard) if back is not None and ladder.drained else schedule_recheck(ladder, yard)


def schedule_recheck(ladder: Remediation, yard: PlanContext) -> Remediation:
    """Schedule the second proof."""
    watched = {"waiting_for": "proof", "due": yard.now + yard.waits.reproof, "approval": ladder.proven or ladder.approval, "says": ""}
    return ladder.model_copy(update=watched)


def escalate_remediation(ladder: Remediation, why: str, yard: PlanContext) -> Remediation:
    """Enter the next plan; without one the catalogue's heavier remedy; else hand off."""
    rung = get_current_step(ladder)
    left = _get_manual_work(ladder, rung.plan)
    later = _find_step_index(ladder, lambda n, row: n > ladder.rung and row.plan > rung.plan and row.part != "restore")
    if left and rung.part == "prepare":
        return hand_off_to_people(ladder, why, left)
    if later is not None and not _has_manual_plan_between(ladder, rung.plan, ladder.rungs[later].plan):
        return enter_step(ladder, later, yard).model_copy(update={"says": why})
    if len(ladder.words) <= rung.plan + 1 and (more := _find_catalogue_escalation(ladder, rung)):
        return enter_step(
            ladder.model_copy(update={"rungs": _insert_step(ladder.rungs, more, ladder.rung)}), ladder.rung + 1, yard
        ).model_copy(update={"says": why})
    return hand_off_to_people(ladder, why, left or ", or ".join(filter(None, ladder.words[rung.plan + 1 :])))


def _has_manual_plan_between(ladder: Remediation, plan: int, later: int) -> bool:
    return any(
        _get_manual_work(ladder, number) and not any(row.plan == number for row in ladder.rungs) for number in range(plan + 1, later)
    )


def _find_catalogue_escalation(ladder: Remediation, rung: RemediationStep) -> RemediationStep | None:
    """Return the heavier remedy, unless tried or in need of arguments."""
    row = REMEDIES[rung.remedy]
    heavier = row.heavier
    if heavier == row.id:
        args = {**rung.args, **row.harder}
        return None if args == rung.args else rung.model_copy(update={"args": args, "plan": rung.plan + 1})
    if not heavier or REMEDIES[heavier].args or any(row.remedy == heavier for row in ladder.rungs):
        return None
    return RemediationStep(remedy=heavier, plan=rung.plan + 1)


def _insert_step(rungs: tuple[RemediationStep, ...], more: RemediationStep, behind: int) -> tuple[RemediationStep, ...]:
    return (*rungs[: behind + 1], more, *rungs[behind + 1 :])


def hand_off_to_people(ladder: Remediation, why: str, words: str) -> Remediation:
    return end_remediation(ladder, "ticket", "; ".join(filter(None, (why, f"next: {words}" if words else "no remedy is left"))))


def request_approval_again(ladder: Remediation, why: str, yard: PlanContext) -> Remediation:
    """Propose the same step as a new action with a new mention, at most `waits.asks` times."""
    if ladder.attempt >= yard.waits.asks:
        return end_remediation(ladder, "undecided", f"asked {ladder.attempt} times; last: {why or 'nobody decided'}")
    return propose_again(ladder, why, yard)


def propose_again(ladder: Remediation, why: str, yard: PlanContext) -> Remediation:
    """Propose the step again; where it needs an idle node, wait for that first."""
    rung = get_current_step(ladder)
    row = ladder.model_copy(update={"attempt": ladder.attempt + 1, "says": why})
    if needs_idle_node(rung, yard.inventory.hosts.get(ladder.target)) and rung.remedy not in NODE_EMPTYING_REMEDIES:
        return row.model_copy(update={"waiting_for": "idle", "due": yard.now + yard.waits.idle, "approval": ""})
    return request_approval(row, yard)


def set_waiting(ladder: Remediation, reason: RemediationWait, yard: PlanContext, says: str) -> Remediation:
    return ladder.model_copy(update={"waiting_for": reason, "due": yard.now + yard.waits.back, "says": says})


def _find_step_index(ladder: Remediation, fits: Callable[[int, RemediationStep], bool]) -> int | None:
    return next((n for n, row in enumerate(ladder.rungs) if fits(n, row)), None)


def _get_manual_work(ladder: Remediation, plan: int) -> str:
    return ladder.words[plan] if 0 <= plan < len(ladder.words) else ""
