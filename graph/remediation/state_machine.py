"""State machine of a remediation: `TRANSITIONS` maps each event to the function that handles it.

A step starts only after the one before is complete. After a failed proof comes a heavier remedy, never the node's return.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from graph.remediation.build import NODE_EMPTYING_REMEDIES, PlanContext, build_remediation, enter_step, request_approval
from graph.remediation.drained_nodes import is_returning, propose_return
from graph.remediation.next_step import (
    enter_next_step,
    escalate_remediation,
    find_return_step,
    get_current_step,
    propose_again,
    request_approval_again,
    schedule_recheck,
    set_waiting,
)
from graph.remediation.outcomes import end_remediation, format_still_drained, release_finished_nodes
from graph.state import Remediation, RemediationWait

PASSED_OUTCOMES = frozenset({"passes_now", "cured"})
MAX_NAME_CHARS = 60
STILL_OUT_OF_SERVICE = "the scheduler still has it out of service"
# Events of a drained node.
RETURN_EVENT = "return"  # a person requested its return
IN_SERVICE_EVENT = "in_service"  # another party returned it
SCHEDULER_UNOBSERVED_EVENT = "unasked"  # its scheduler could not be asked
SCHEDULER_OBSERVED_EVENT = "asked"  # its scheduler answers again
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
        return cls(
            str(data.get("event", "")),
            ran=bool(data.get("ran", True)),
            since=_parse_time(data.get("since")),
            seen=_parse_time(data.get("seen")),
            **texts,
        )


def _parse_time(text: Any) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


TransitionFunction = Callable[[Remediation, RemediationEvent, PlanContext], Remediation]


def advance(remediations: Sequence[Remediation], event: RemediationEvent, plan: PlanContext) -> list[Remediation]:
    """Return the incident's remediations after an event. An event that concerns no remediation changes nothing."""
    updated: list[Remediation] = []
    recurred: list[Remediation] = []
    for remediation in remediations:
        if _concerns_remediation(remediation, event):
            remediation = apply_event(remediation, event, plan)
            if remediation.outcome == "recurred" and _concerns_remediation(remediation, event):
                recurred.append(remediation)
        updated.append(remediation)
    for recurred_remediation in recurred:
        next_remediation = _build_from_next_plan(recurred_remediation, updated, plan)
        if next_remediation:
            updated = [*updated, next_remediation]
        else:
            ended_remediation = end_remediation(recurred_remediation, "ticket", recurred_remediation.says)
            updated = [ended_remediation if remediation is recurred_remediation else remediation for remediation in updated]
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
    return rule.handle(remediation.model_copy(update={"outcome": ""}), event, plan)


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
    is_fix = bool(remedy) and get_current_step(remediation).part == "fix"
    if is_fix and event.outcome in PASSED_OUTCOMES:
        return remediation.model_copy(update={"proven": remediation.approval})
    return remediation


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
        if event.outcome in PASSED_OUTCOMES:
            return _finish_return(remediation, plan)
        return end_remediation(remediation, "ticket", event.says or STILL_OUT_OF_SERVICE)
    if event.outcome not in PASSED_OUTCOMES:
        return escalate_remediation(remediation, event.says or f"after it: {event.outcome or 'no proof'}", plan)
    return enter_next_step(remediation.model_copy(update={"proven": remediation.approval, "tried": step.plan}), plan)


def _finish_return(remediation: Remediation, plan: PlanContext) -> Remediation:
    """Schedule the second proof; if RackMedic itself repaired nothing, there is nothing to prove."""
    if remediation.proven:
        return schedule_recheck(_mark_returned(remediation), plan)
    return end_remediation(
        _mark_returned(remediation), "withdrawn", f"the fault was gone without a remedy of ours; {remediation.target} is back in service"
    )


def _handle_failed(remediation: Remediation, event: RemediationEvent, plan: PlanContext) -> Remediation:
    if not event.ran:
        return request_approval_again(remediation, event.says, plan)
    step = get_current_step(remediation)
    was_fault_read_again = remediation.fault is not None and remediation.fault.lasts == "read"
    if step.part == "fix" and event.outcome in PASSED_OUTCOMES and was_fault_read_again:
        # The host was checked again and is healthy, so nothing heavier follows even though the command failed.
        return _handle_done(remediation, event, plan)
    reason = event.says or "the command failed"
    if step.remedy == "evict_pods":
        # Pods that may not be evicted may still end: the node stays drained, and the remediation waits for that.
        return enter_next_step(remediation, plan).model_copy(update={"says": reason})
    if step.part == "fix":
        return escalate_remediation(remediation, reason, plan)
    return end_remediation(remediation, "ticket", reason)


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
    if get_current_step(remediation).remedy in NODE_EMPTYING_REMEDIES:
        return enter_next_step(remediation, plan)
    return request_approval(remediation, plan)


def _handle_busy(remediation: Remediation, event: RemediationEvent, plan: PlanContext) -> Remediation:
    if get_current_step(remediation).remedy in NODE_EMPTYING_REMEDIES:
        return request_approval(remediation, plan)
    note = f"{remediation.target} is still not drained and without jobs"
    return remediation.model_copy(update={"due": plan.now + plan.waits.idle, "says": note})


def _handle_held(remediation: Remediation, event: RemediationEvent, plan: PlanContext) -> Remediation:
    """Another party drained the node, so RackMedic does not return it."""
    if get_current_step(remediation).remedy != "drain_node":
        return remediation
    return enter_next_step(remediation.model_copy(update={"held_elsewhere": event.says}), plan)


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
    if get_current_step(remediation).part == "fix":
        return escalate_remediation(remediation, event.says, plan)
    return end_remediation(remediation, "ticket", event.says)


def _handle_over(remediation: Remediation, event: RemediationEvent, plan: PlanContext) -> Remediation:
    """The job ended on its own, which was the aim of cancelling it."""
    return enter_next_step(remediation, plan) if get_current_step(remediation).remedy in NODE_EMPTYING_REMEDIES else remediation


def _handle_needless(remediation: Remediation, event: RemediationEvent, plan: PlanContext) -> Remediation:
    """The fault is gone without a remedy; offer the return of its drained node."""
    return_index = find_return_step(remediation)
    if remediation.drained and return_index is not None:
        return enter_step(remediation, return_index, plan).model_copy(update={"says": event.says})
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
        earlier_note = remediation.says.removesuffix(format_still_drained(remediation)).rstrip("; ")
        notes = "; ".join(note for note in (earlier_note, event.says) if note)
        return _mark_returned(remediation).model_copy(update={"says": notes})
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
    cured_remediation = end_remediation(remediation, "cured", "proved again, the fault did not come back")
    return cured_remediation.model_copy(update={"due": plan.now + plan.waits.quiet})


def _handle_recurred(remediation: Remediation, event: RemediationEvent, plan: PlanContext) -> Remediation:
    return end_remediation(remediation, "recurred", f"the fault came back: {event.says}" if event.says else "the fault came back")


def _build_from_next_plan(remediation: Remediation, remediations: Sequence[Remediation], plan: PlanContext) -> Remediation | None:
    """Build a new remediation for a fault that came back, because the node is in service again."""
    host = plan.inventory.hosts.get(remediation.target)
    if host is None:
        return None
    return build_remediation(remediation.label, host, remediation.devices, plan, remediations, plan=remediation.tried + 1)


class TransitionRule(NamedTuple):
    """How to handle an event. With `waiting` the rule applies only to remediations that wait for that."""

    handle: TransitionFunction
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
