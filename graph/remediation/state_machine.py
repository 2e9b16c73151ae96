"""State machine of a remediation: which event leads where (`TRANSITIONS`), and the next step: the plan's, a heavier one, or people. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from graph.remediation.build import NODE_EMPTYING_REMEDIES, PlanContext, build_remediation, enter_step, needs_idle_node, request_approval
from graph.remediation.drained_nodes import is_returning, propose_return
from graph.remediation.outcomes import end_remediation, format_still_drained, release_finished_nodes
from graph.state import Remediation, RemediationStep, RemediationWait
from tools.remedies import REMEDIES

# Choose a remediation's next step: rest of the plan, heavier remedy, return, recheck, same step again, or people.


def get_current_step(remediation: Remediation) -> RemediationStep:
    step = remediation.current_step
    assert step is not None  # `apply_event` passes no remediation without a present step
    return step


def enter_next_step(remediation: Remediation, plan: PlanContext) -> Remediation:
    """Continue with the rest of the plan, then the node's return, then the recheck."""
    step = get_current_step(remediation)
    follow = _find_step_index(remediation, lambda n, row: n > remediation.rung and row.plan == step.plan and row.part != "restore")
    if follow is not None:
        return enter_step(remediation, follow, plan)
    if step.part == "prepare":
        return escalate_remediation(remediation, "", plan)
    back = _find_step_index(remediation, lambda n, row: row.part == "restore")
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


def escalate_remediation(remediation: Remediation, why: str, plan: PlanContext) -> Remediation:
    """Enter the next plan; without one the catalogue's heavier remedy; else hand off."""
    step = get_current_step(remediation)
    manual_work = _get_manual_work(remediation, step.plan)
    later = _find_step_index(remediation, lambda n, row: n > remediation.rung and row.plan > step.plan and row.part != "restore")
    if manual_work and step.part == "prepare":
        return hand_off_to_people(remediation, why, manual_work)
    if later is not None and not _has_manual_plan_between(remediation, step.plan, remediation.rungs[later].plan):
        return enter_step(remediation, later, plan).model_copy(update={"says": why})
    if len(remediation.words) <= step.plan + 1 and (more := _find_catalogue_escalation(remediation, step)):
        return enter_step(
            remediation.model_copy(update={"rungs": _insert_step(remediation.rungs, more, remediation.rung)}), remediation.rung + 1, plan
        ).model_copy(update={"says": why})
    return hand_off_to_people(remediation, why, manual_work or ", or ".join(filter(None, remediation.words[step.plan + 1 :])))


def _has_manual_plan_between(remediation: Remediation, plan: int, later: int) -> bool:
    return any(
        _get_manual_work(remediation, number) and not any(row.plan == number for row in remediation.rungs)
        for number in range(plan + 1, later)
    )


def _find_catalogue_escalation(remediation: Remediation, step: RemediationStep) -> RemediationStep | None:
    """Return the heavier remedy, unless tried or in need of arguments."""
    row = REMEDIES[step.remedy]
    heavier = row.heavier
    if heavier == row.id:
        args = {**step.args, **row.harder}
        return None if args == step.args else step.model_copy(update={"args": args, "plan": step.plan + 1})
    if not heavier or REMEDIES[heavier].args or any(row.remedy == heavier for row in remediation.rungs):
        return None
    return RemediationStep(remedy=heavier, plan=step.plan + 1)


def _insert_step(steps: tuple[RemediationStep, ...], more: RemediationStep, behind: int) -> tuple[RemediationStep, ...]:
    return (*steps[: behind + 1], more, *steps[behind + 1 :])


def hand_off_to_people(remediation: Remediation, why: str, words: str) -> Remediation:
    return end_remediation(remediation, "ticket", "; ".join(filter(None, (why, f"next: {words}" if words else "no remedy is left"))))


def request_approval_again(remediation: Remediation, why: str, plan: PlanContext) -> Remediation:
    """Propose the same step as a new action with a new mention, at most `waits.asks` times."""
    if remediation.attempt >= plan.waits.asks:
        return end_remediation(remediation, "undecided", f"asked {remediation.attempt} times; last: {why or 'no decision'}")
    return propose_again(remediation, why, plan)


def propose_again(remediation: Remediation, why: str, plan: PlanContext) -> Remediation:
    """Propose the step again; where it needs an idle node, wait for that first."""
    step = get_current_step(remediation)
    row = remediation.model_copy(update={"attempt": remediation.attempt + 1, "says": why})
    if needs_idle_node(step, plan.inventory.hosts.get(remediation.target)) and step.remedy not in NODE_EMPTYING_REMEDIES:
        return row.model_copy(update={"waiting_for": "idle", "due": plan.now + plan.waits.idle, "approval": ""})
    return request_approval(row, plan)


def set_waiting(remediation: Remediation, reason: RemediationWait, plan: PlanContext, says: str) -> Remediation:
    return remediation.model_copy(update={"waiting_for": reason, "due": plan.now + plan.waits.back, "says": says})


def _find_step_index(remediation: Remediation, fits: Callable[[int, RemediationStep], bool]) -> int | None:
    return next((n for n, row in enumerate(remediation.rungs) if fits(n, row)), None)


def _get_manual_work(remediation: Remediation, plan: int) -> str:
    return remediation.words[plan] if 0 <= plan < len(remediation.words) else ""


# State transitions of remediations: an action's result or an observation leads to the next step, a heavier one, or
# people. Pure.
#
# A step follows only after the one before is complete. After a failed proof comes something heavier, never the node's
# return.

PASSED_OUTCOMES = frozenset({"passes_now", "cured"})
MAX_NAME_CHARS = 60
STILL_OUT_OF_SERVICE = "the scheduler still has it out of service"
RETURN_EVENT = "return"  # A person requested the return of a drained node.
IN_SERVICE_EVENT = "in_service"  # Of a drained node: another party returned it
SCHEDULER_UNOBSERVED_EVENT = "unasked"  # its scheduler could not be asked
SCHEDULER_OBSERVED_EVENT = "asked"  # the scheduler answers again
ACTION_RESULT_KINDS = frozenset({"done", "failed", "unknown", "denied", "expired", "superseded", "revoked"})
TEXT_FIELDS = ("approval", "ladder", "outcome", "says", "replaced_by", "by")


@dataclass(frozen=True, slots=True)
class RemediationEvent:
    """`kind` is a terminal state of the ledger, or what an observation found."""

    kind: str
    approval: str = ""
    ladder: str = ""
    outcome: str = ""  # The proof's outcome; for a superseded action the reason (`covered`, `host_key` …).
    says: str = ""
    ran: bool = True  # False where the command never began.
    replaced_by: str = ""
    since: datetime | None = None  # When the action was claimed.
    seen: datetime | None = None  # When it was observed.
    by: str = ""  # The approver's name; set for a drain.

    @classmethod
    def from_item_data(cls, data: Mapping[str, Any]) -> "RemediationEvent":
        texts = {name: data[name] for name in TEXT_FIELDS if isinstance(data.get(name), str)}
        since, last_seen = (datetime.fromisoformat(text) if (text := data.get(name)) else None for name in ("since", "seen"))
        return cls(str(data.get("event", "")), ran=bool(data.get("ran", True)), since=since, seen=last_seen, **texts)


TransitionFunction = Callable[[Remediation, RemediationEvent, PlanContext], Remediation]


def advance(remediations: Sequence[Remediation], event: RemediationEvent, plan: PlanContext) -> list[Remediation]:
    """Return the incident's remediations after an event; one for no present step changes nothing."""
    updated = [apply_event(row, event, plan) if _concerns_remediation(row, event) else row for row in remediations]
    for row in [row for row in updated if row.outcome == "recurred" and _concerns_remediation(row, event)]:
        next_remediation = _build_from_next_plan(row, updated, plan)
        updated = (
            [*updated, next_remediation]
            if next_remediation
            else [end_remediation(row, "ticket", row.says) if other is row else other for other in updated]
        )
    return release_finished_nodes(updated, plan)


def _concerns_remediation(remediation: Remediation, event: RemediationEvent) -> bool:
    if event.ladder:
        return remediation.id == event.ladder
    return bool(event.approval) and remediation.approval == event.approval


def apply_event(remediation: Remediation, event: RemediationEvent, plan: PlanContext) -> Remediation:
    if event.kind in DRAINED_NODE_TRANSITIONS:
        return DRAINED_NODE_TRANSITIONS[event.kind](remediation, event, plan) if remediation.drained else remediation
    rule = TRANSITIONS.get(event.kind)
    if rule is None or remediation.current_step is None or _is_irrelevant(remediation, event):
        return remediation
    if event.since and remediation.current_step.part == "fix":
        remediation = remediation.model_copy(update={"since": event.since})
    if remediation.outcome and not _reopens_remediation(remediation, event):
        return _apply_after_end(remediation, event)
    if rule.waiting not in (None, remediation.waiting_for):
        return remediation
    return rule.move(remediation.model_copy(update={"outcome": ""}), event, plan)


def _is_irrelevant(remediation: Remediation, event: RemediationEvent) -> bool:
    """Ignore a result while nothing is proposed, and `Ask again` on an old card, which would skip a wait."""
    if event.kind == RETURN_EVENT:
        return remediation.is_open or not remediation.drained
    if event.kind == "again":
        return not remediation.outcome and not (event.approval and event.approval == remediation.approval)
    return event.kind in ACTION_RESULT_KINDS and not remediation.approval


def _reopens_remediation(remediation: Remediation, event: RemediationEvent) -> bool:
    if event.kind == RETURN_EVENT:
        return True
    if event.kind == "again":
        return remediation.outcome in ("undecided", "denied", "stopped", "withdrawn")
    return remediation.outcome == "unknown" and event.kind in ("done", "failed")


def _apply_after_end(remediation: Remediation, event: RemediationEvent) -> Remediation:
    """Record only what a late action drained, returned or proved."""
    remedy = remediation.current_step.remedy if remediation.current_step and event.kind == "done" else ""
    if remedy == "drain_node":
        return _mark_drained(remediation, event)
    if remedy == "resume_node":
        return _mark_returned(remediation)
    is_fix_verified = (
        bool(remedy)
        and remediation.current_step is not None
        and remediation.current_step.part == "fix"
        and event.outcome in PASSED_OUTCOMES
    )
    return remediation.model_copy(update={"proven": remediation.approval}) if is_fix_verified else remediation


def _mark_drained(remediation: Remediation, event: RemediationEvent) -> Remediation:
    return remediation.model_copy(update={"drained": True, "drained_at": event.since, "drained_by": event.by[:MAX_NAME_CHARS]})


def _mark_returned(remediation: Remediation) -> Remediation:
    return remediation.model_copy(update={"drained": False, "drained_at": None, "drained_by": "", "unasked": None})


def _handle_done(remediation: Remediation, event: RemediationEvent, plan: PlanContext) -> Remediation:
    step = get_current_step(remediation)
    if step.part == "prepare":
        if event.outcome == "worse":
            return end_remediation(remediation, "ticket", event.says)
        return enter_next_step(_mark_drained(remediation, event) if step.remedy == "drain_node" else remediation, plan)
    if step.remedy == "run_check":
        return end_remediation(remediation, "looked", event.says or "the check has answered")
    if step.part == "restore":
        return (
            _finish_return(remediation, plan)
            if event.outcome in PASSED_OUTCOMES
            else end_remediation(remediation, "ticket", event.says or STILL_OUT_OF_SERVICE)
        )
    if event.outcome not in PASSED_OUTCOMES:
        return escalate_remediation(remediation, event.says or f"after it: {event.outcome or 'no proof'}", plan)
    return enter_next_step(remediation.model_copy(update={"proven": remediation.approval, "tried": step.plan}), plan)


def _finish_return(remediation: Remediation, plan: PlanContext) -> Remediation:
    """Schedule the second proof; without a remedy of RackMedic's own there is nothing to prove."""
    if remediation.proven:
        return schedule_recheck(_mark_returned(remediation), plan)
    return end_remediation(
        _mark_returned(remediation), "withdrawn", f"the fault was gone without a remedy of ours; {remediation.target} is back in service"
    )


def _handle_failed(remediation: Remediation, event: RemediationEvent, plan: PlanContext) -> Remediation:
    if not event.ran:
        return request_approval_again(remediation, event.says, plan)
    if (
        event.outcome in PASSED_OUTCOMES
        and get_current_step(remediation).part == "fix"
        and remediation.fault
        and remediation.fault.lasts == "read"
    ):
        return _handle_done(
            remediation, event, plan
        )  # the host was checked again and is healthy: do nothing heavier, even though the command failed
    reason = event.says or "the command failed"
    if (
        get_current_step(remediation).remedy == "evict_pods"
    ):  # pods that may not be evicted may still end: the node stays drained, and the remediation waits for that
        return enter_next_step(remediation, plan).model_copy(update={"says": reason})
    return (
        escalate_remediation(remediation, reason, plan)
        if get_current_step(remediation).part == "fix"
        else end_remediation(remediation, "ticket", reason)
    )


def _handle_superseded(remediation: Remediation, event: RemediationEvent, plan: PlanContext) -> Remediation:
    if event.replaced_by:
        return remediation.model_copy(update={"approval": event.replaced_by, "says": event.says})
    if event.outcome == "covered":
        return set_waiting(remediation, "node_back", plan, event.says)
    if event.outcome == "host_key":
        return end_remediation(remediation, "ticket", event.says)
    if event.outcome == "fault_gone":
        return _handle_needless(remediation, event, plan)
    return request_approval_again(remediation, event.says, plan)


def _handle_expired(remediation: Remediation, event: RemediationEvent, plan: PlanContext) -> Remediation:
    """Do not propose a return again: the node stays drained until a person requests it."""
    if get_current_step(remediation).part == "restore":
        return end_remediation(remediation, "undecided", event.says or "no decision in time")
    return request_approval_again(remediation, event.says, plan)


def _handle_denied(remediation: Remediation, event: RemediationEvent, plan: PlanContext) -> Remediation:
    return end_remediation(remediation, "denied", event.says or "an approver said no")


def _handle_revoked(remediation: Remediation, event: RemediationEvent, plan: PlanContext) -> Remediation:
    return end_remediation(remediation, "stopped", event.says or "it was revoked")


def _handle_unknown(remediation: Remediation, event: RemediationEvent, plan: PlanContext) -> Remediation:
    reason = event.says or "the host cannot say what happened"
    return end_remediation(
        remediation, "unknown", f"{reason}; {remediation.target} stays locked until a person checks it and says what happened"
    )


def _handle_idle(remediation: Remediation, event: RemediationEvent, plan: PlanContext) -> Remediation:
    return (
        enter_next_step(remediation, plan)
        if get_current_step(remediation).remedy in NODE_EMPTYING_REMEDIES
        else request_approval(remediation, plan)
    )


def _handle_busy(remediation: Remediation, event: RemediationEvent, plan: PlanContext) -> Remediation:
    if get_current_step(remediation).remedy in NODE_EMPTYING_REMEDIES:
        return request_approval(remediation, plan)
    note = f"{remediation.target} is still not drained and without jobs"
    return remediation.model_copy(update={"due": plan.now + plan.waits.idle, "says": note})


def _handle_held(remediation: Remediation, event: RemediationEvent, plan: PlanContext) -> Remediation:
    """Another party drained the node, so RackMedic does not return it."""
    return (
        enter_next_step(remediation.model_copy(update={"held_elsewhere": event.says}), plan)
        if get_current_step(remediation).remedy == "drain_node"
        else remediation
    )


def _handle_given_back(remediation: Remediation, event: RemediationEvent, plan: PlanContext) -> Remediation:
    """Another party returned the node: RackMedic does not drain it again on its own."""
    return end_remediation(_mark_returned(remediation), "withdrawn" if event.outcome == "gone" else "ticket", event.says)


def _handle_unreachable(remediation: Remediation, event: RemediationEvent, plan: PlanContext) -> Remediation:
    return set_waiting(remediation, "node_back", plan, event.says)


def _handle_back(remediation: Remediation, event: RemediationEvent, plan: PlanContext) -> Remediation:
    """Propose again, unless the fault is gone."""
    if event.outcome in PASSED_OUTCOMES and get_current_step(remediation).part == "fix":
        return enter_next_step(remediation, plan)
    return propose_again(remediation, event.says, plan)


def _handle_cannot(remediation: Remediation, event: RemediationEvent, plan: PlanContext) -> Remediation:
    return (
        escalate_remediation(remediation, event.says, plan)
        if get_current_step(remediation).part == "fix"
        else end_remediation(remediation, "ticket", event.says)
    )


def _handle_over(remediation: Remediation, event: RemediationEvent, plan: PlanContext) -> Remediation:
    """The job ended on its own, which was the aim of cancelling it."""
    return enter_next_step(remediation, plan) if get_current_step(remediation).remedy in NODE_EMPTYING_REMEDIES else remediation


def _handle_needless(remediation: Remediation, event: RemediationEvent, plan: PlanContext) -> Remediation:
    """The fault is gone without a remedy; offer the return of its drained node."""
    back = next((n for n, step in enumerate(remediation.rungs) if step.part == "restore"), None)
    if remediation.drained and back is not None:
        return enter_step(remediation, back, plan).model_copy(update={"says": event.says})
    return end_remediation(remediation, "withdrawn", event.says)


def _handle_shows(remediation: Remediation, event: RemediationEvent, plan: PlanContext) -> Remediation:
    """The fault is back while the return is proposed."""
    return end_remediation(remediation, "ticket", event.says) if get_current_step(remediation).part == "restore" else remediation


def _handle_joined(remediation: Remediation, event: RemediationEvent, plan: PlanContext) -> Remediation:
    """Another incident proposed the same action; its result decides."""
    return set_waiting(remediation.model_copy(update={"approval": event.replaced_by}), "node_back", plan, event.says)


def _handle_not_idle(remediation: Remediation, event: RemediationEvent, plan: PlanContext) -> Remediation:
    """Wait again under the same attempt."""
    return remediation.model_copy(update={"waiting_for": "idle", "due": plan.now + plan.waits.idle, "approval": "", "says": event.says})


def _handle_again(remediation: Remediation, event: RemediationEvent, plan: PlanContext) -> Remediation:
    return request_approval(remediation.model_copy(update={"attempt": remediation.attempt + 1, "says": ""}), plan)


def _handle_return(remediation: Remediation, event: RemediationEvent, plan: PlanContext) -> Remediation:
    return propose_return(plan.incident, remediation)


def _handle_in_service(remediation: Remediation, event: RemediationEvent, plan: PlanContext) -> Remediation:
    """Another party returned the node. A repair is still proved again; an open remediation notices by its conditions."""
    if not remediation.is_open:
        note = "; ".join(filter(None, (remediation.says.removesuffix(format_still_drained(remediation)).rstrip("; "), event.says)))
        return _mark_returned(remediation).model_copy(update={"says": note})
    if not is_returning(remediation):
        return remediation
    if remediation.proven:
        return schedule_recheck(_mark_returned(remediation), plan).model_copy(update={"says": event.says})
    return end_remediation(_mark_returned(remediation), "withdrawn", event.says)


def _handle_scheduler_unobserved(remediation: Remediation, event: RemediationEvent, plan: PlanContext) -> Remediation:
    return remediation.model_copy(update={"unasked": remediation.unasked or event.seen or plan.now})


def _handle_scheduler_observed(remediation: Remediation, event: RemediationEvent, plan: PlanContext) -> Remediation:
    return remediation.model_copy(update={"unasked": None})


# Scheduler observations of a drained node, for open and ended remediations.
DRAINED_NODE_TRANSITIONS: Mapping[str, TransitionFunction] = {
    IN_SERVICE_EVENT: _handle_in_service,
    SCHEDULER_UNOBSERVED_EVENT: _handle_scheduler_unobserved,
    SCHEDULER_OBSERVED_EVENT: _handle_scheduler_observed,
}


def _handle_cured(remediation: Remediation, event: RemediationEvent, plan: PlanContext) -> Remediation:
    over = end_remediation(remediation, "cured", "proved again, the fault did not come back")
    return over.model_copy(update={"due": plan.now + plan.waits.quiet})


def _handle_recurred(remediation: Remediation, event: RemediationEvent, plan: PlanContext) -> Remediation:
    return end_remediation(remediation, "recurred", f"the fault came back: {event.says}" if event.says else "the fault came back")


def _build_from_next_plan(remediation: Remediation, remediations: Sequence[Remediation], plan: PlanContext) -> Remediation | None:
    """A relapse needs a new remediation, because the node is in service again."""
    host = plan.inventory.hosts.get(remediation.target)
    return build_remediation(remediation.label, host, remediation.devices, plan, remediations, plan=remediation.tried + 1) if host else None


class TransitionRule(NamedTuple):
    """With `waiting` it applies only to remediations that wait for this."""

    move: TransitionFunction
    waiting: RemediationWait | None = None


# fmt: off
TRANSITIONS: Mapping[str, TransitionRule] = {
    # result of the present step's action
    "done":        TransitionRule(_handle_done),
    "failed":      TransitionRule(_handle_failed),
    "unknown":     TransitionRule(_handle_unknown),
    "denied":      TransitionRule(_handle_denied),
    "expired":     TransitionRule(_handle_expired),
    "superseded":  TransitionRule(_handle_superseded),
    "revoked":     TransitionRule(_handle_revoked),
    # observations of the host or its scheduler
    "idle":        TransitionRule(_handle_idle,      "idle"),
    "busy":        TransitionRule(_handle_busy,      "idle"),
    "not_idle":    TransitionRule(_handle_not_idle),
    "given_back":  TransitionRule(_handle_given_back, "idle"),
    "held":        TransitionRule(_handle_held),
    "unreachable": TransitionRule(_handle_unreachable),
    "back":        TransitionRule(_handle_back,      "node_back"),
    "cannot":      TransitionRule(_handle_cannot),
    "over":        TransitionRule(_handle_over),
    "needless":    TransitionRule(_handle_needless),
    "shows":       TransitionRule(_handle_shows,     "approval"),
    "joined":      TransitionRule(_handle_joined,    "approval"),
    # result of the second proof
    "cured":       TransitionRule(_handle_cured,     "proof"),
    "recurred":    TransitionRule(_handle_recurred,  "proof"),
    # a person's button
    "again":       TransitionRule(_handle_again),
    "return":      TransitionRule(_handle_return),
}
# fmt: on
