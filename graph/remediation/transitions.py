"""State transitions of remediations: an action's result or an observation leads to the next step, a heavier one, or
people. Pure.

A step follows only after the one before is complete. After a failed proof comes something heavier, never the node's
return.
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
RETURN_EVENT = "return"  # A person requested the return of a drained node.
# Of a drained node: another party returned it; its scheduler could not be asked; the scheduler answers again.
IN_SERVICE_EVENT, SCHEDULER_UNOBSERVED_EVENT, SCHEDULER_OBSERVED_EVENT = "in_service", "unasked", "asked"
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
        since, seen = (datetime.fromisoformat(text) if (text := data.get(name)) else None for name in ("since", "seen"))
        return cls(str(data.get("event", "")), ran=bool(data.get("ran", True)), since=since, seen=seen, **texts)


TransitionFunction = Callable[[Remediation, RemediationEvent, PlanContext], Remediation]


def advance(ladders: Sequence[Remediation], news: RemediationEvent, yard: PlanContext) -> list[Remediation]:
    """Return the incident's remediations after an event; one for no present step changes nothing."""
    found = [apply_event(row, news, yard) if _concerns_remediation(row, news) else row for row in ladders]
    for row in [row for row in found if row.outcome == "recurred" and _concerns_remediation(row, news)]:
        again = _build_from_next_plan(row, found, yard)
        found = [*found, again] if again else [end_remediation(row, "ticket", row.says) if other is row else other for other in found]
    return release_finished_nodes(found, yard)


def _concerns_remediation(ladder: Remediation, news: RemediationEvent) -> bool:
    if news.ladder:
        return ladder.id == news.ladder
    return bool(news.approval) and ladder.approval == news.approval


def apply_event(ladder: Remediation, news: RemediationEvent, yard: PlanContext) -> Remediation:
    if news.kind in DRAINED_NODE_TRANSITIONS:
        return DRAINED_NODE_TRANSITIONS[news.kind](ladder, news, yard) if ladder.drained else ladder
    rule = TRANSITIONS.get(news.kind)
    if rule is None or ladder.current_step is None or _is_irrelevant(ladder, news):
        return ladder
    if news.since and ladder.current_step.part == "fix":
        ladder = ladder.model_copy(update={"since": news.since})
    if ladder.outcome and not _reopens_remediation(ladder, news):
        return _apply_after_end(ladder, news)
    if rule.waiting not in (None, ladder.waiting_for):
        return ladder
    return rule.move(ladder.model_copy(update={"outcome": ""}), news, yard)


def _is_irrelevant(ladder: Remediation, news: RemediationEvent) -> bool:
    """Ignore a result while nothing is proposed, and `Ask again` on an old card, which would skip a wait."""
    if news.kind == RETURN_EVENT:
        return ladder.is_open or not ladder.drained
    if news.kind == "again":
        return not ladder.outcome and not (news.approval and news.approval == ladder.approval)
    return news.kind in ACTION_RESULT_KINDS and not ladder.approval


def _reopens_remediation(ladder: Remediation, news: RemediationEvent) -> bool:
    if news.kind == RETURN_EVENT:
        return True
    if news.kind == "again":
        return ladder.outcome in ("undecided", "denied", "stopped", "withdrawn")
    return ladder.outcome == "unknown" and news.kind in ("done", "failed")


def _apply_after_end(ladder: Remediation, news: RemediationEvent) -> Remediation:
    """Record only what a late action drained, returned or proved."""
    remedy = ladder.current_step.remedy if ladder.current_step and news.kind == "done" else ""
    if remedy == "drain_node":
        return _mark_drained(ladder, news)
    if remedy == "resume_node":
        return _mark_returned(ladder)
    proved = bool(remedy) and ladder.current_step is not None and ladder.current_step.part == "fix" and news.outcome in PASSED_OUTCOMES
    return ladder.model_copy(update={"proven": ladder.approval}) if proved else ladder


def _mark_drained(ladder: Remediation, news: RemediationEvent) -> Remediation:
    return ladder.model_copy(update={"drained": True, "drained_at": news.since, "drained_by": news.by[:MAX_NAME_CHARS]})


def _mark_returned(ladder: Remediation) -> Remediation:
    return ladder.model_copy(update={"drained": False, "drained_at": None, "drained_by": "", "unasked": None})


def _handle_done(ladder: Remediation, news: RemediationEvent, yard: PlanContext) -> Remediation:
    rung = get_current_step(ladder)
    if rung.part == "prepare":
        if news.outcome == "worse":
            return end_remediation(ladder, "ticket", news.says)
        return enter_next_step(_mark_drained(ladder, news) if rung.remedy == "drain_node" else ladder, yard)
    if rung.remedy == "run_check":
        return end_remediation(ladder, "looked", news.says or "the check has answered")
    if rung.part == "restore":
        return (
            _finish_return(ladder, yard)
            if news.outcome in PASSED_OUTCOMES
            else end_remediation(ladder, "ticket", news.says or STILL_OUT_OF_SERVICE)
        )
    if news.outcome not in PASSED_OUTCOMES:
        return escalate_remediation(ladder, news.says or f"after it: {news.outcome or 'no proof'}", yard)
    return enter_next_step(ladder.model_copy(update={"proven": ladder.approval, "tried": rung.plan}), yard)


def _finish_return(ladder: Remediation, yard: PlanContext) -> Remediation:
    """Schedule the second proof; without a remedy of RackMedic's own there is nothing to prove."""
    if ladder.proven:
        return schedule_recheck(_mark_returned(ladder), yard)
    return end_remediation(
        _mark_returned(ladder), "withdrawn", f"the fault was gone without a remedy of ours; {ladder.target} is back in service"
    )


def _handle_failed(ladder: Remediation, news: RemediationEvent, yard: PlanContext) -> Remediation:
    if not news.ran:
        return request_approval_again(ladder, news.says, yard)
    if news.outcome in PASSED_OUTCOMES and get_current_step(ladder).part == "fix" and ladder.fault and ladder.fault.lasts == "read":
        return _handle_done(
            ladder, news, yard
        )  # the host was checked again and is healthy: do nothing heavier, even though the command failed
    why = news.says or "the command failed"
    if (
        get_current_step(ladder).remedy == "evict_pods"
    ):  # pods that may not be evicted may still end: the node stays drained, and the remediation waits for that
        return enter_next_step(ladder, yard).model_copy(update={"says": why})
    return escalate_remediation(ladder, why, yard) if get_current_step(ladder).part == "fix" else end_remediation(ladder, "ticket", why)


def _handle_superseded(ladder: Remediation, news: RemediationEvent, yard: PlanContext) -> Remediation:
    if news.replaced_by:
        return ladder.model_copy(update={"approval": news.replaced_by, "says": news.says})
    if news.outcome == "covered":
        return set_waiting(ladder, "node_back", yard, news.says)
    if news.outcome == "host_key":
        return end_remediation(ladder, "ticket", news.says)
    if news.outcome == "fault_gone":
        return _handle_needless(ladder, news, yard)
    return request_approval_again(ladder, news.says, yard)


def _handle_expired(ladder: Remediation, news: RemediationEvent, yard: PlanContext) -> Remediation:
    """Do not propose a return again: the node stays drained until a person requests it."""
    if get_current_step(ladder).part == "restore":
        return end_remediation(ladder, "undecided", news.says or "nobody decided in time")
    return request_approval_again(ladder, news.says, yard)


def _handle_denied(ladder: Remediation, news: RemediationEvent, yard: PlanContext) -> Remediation:
    return end_remediation(ladder, "denied", news.says or "an approver said no")


def _handle_revoked(ladder: Remediation, news: RemediationEvent, yard: PlanContext) -> Remediation:
    return end_remediation(ladder, "stopped", news.says or "it was revoked")


def _handle_unknown(ladder: Remediation, news: RemediationEvent, yard: PlanContext) -> Remediation:
    says = news.says or "the host cannot say what happened"
    return end_remediation(ladder, "unknown", f"{says}; {ladder.target} stays locked until somebody looked and says what happened")


def _handle_idle(ladder: Remediation, news: RemediationEvent, yard: PlanContext) -> Remediation:
    return enter_next_step(ladder, yard) if get_current_step(ladder).remedy in NODE_EMPTYING_REMEDIES else request_approval(ladder, yard)


def _handle_busy(ladder: Remediation, news: RemediationEvent, yard: PlanContext) -> Remediation:
    if get_current_step(ladder).remedy in NODE_EMPTYING_REMEDIES:
        return request_approval(ladder, yard)
    says = f"{ladder.target} is still not drained and without jobs"
    return ladder.model_copy(update={"due": yard.now + yard.waits.idle, "says": says})


def _handle_held(ladder: Remediation, news: RemediationEvent, yard: PlanContext) -> Remediation:
    """Another party drained the node, so RackMedic does not return it."""
    return (
        enter_next_step(ladder.model_copy(update={"held_elsewhere": news.says}), yard)
        if get_current_step(ladder).remedy == "drain_node"
        else ladder
    )


def _handle_given_back(ladder: Remediation, news: RemediationEvent, yard: PlanContext) -> Remediation:
    """Another party returned the node: RackMedic does not drain it again on its own."""
    return end_remediation(_mark_returned(ladder), "withdrawn" if news.outcome == "gone" else "ticket", news.says)


def _handle_unreachable(ladder: Remediation, news: RemediationEvent, yard: PlanContext) -> Remediation:
    return set_waiting(ladder, "node_back", yard, news.says)


def _handle_back(ladder: Remediation, news: RemediationEvent, yard: PlanContext) -> Remediation:
    """Propose again, unless the fault is gone."""
    if news.outcome in PASSED_OUTCOMES and get_current_step(ladder).part == "fix":
        return enter_next_step(ladder, yard)
    return propose_again(ladder, news.says, yard)


def _handle_cannot(ladder: Remediation, news: RemediationEvent, yard: PlanContext) -> Remediation:
    return (
        escalate_remediation(ladder, news.says, yard)
        if get_current_step(ladder).part == "fix"
        else end_remediation(ladder, "ticket", news.says)
    )


def _handle_over(ladder: Remediation, news: RemediationEvent, yard: PlanContext) -> Remediation:
    """The job ended on its own, which was the aim of cancelling it."""
    return enter_next_step(ladder, yard) if get_current_step(ladder).remedy in NODE_EMPTYING_REMEDIES else ladder


def _handle_needless(ladder: Remediation, news: RemediationEvent, yard: PlanContext) -> Remediation:
    """The fault is gone without a remedy; offer the return of its drained node."""
    back = next((n for n, rung in enumerate(ladder.rungs) if rung.part == "restore"), None)
    if ladder.drained and back is not None:
        return enter_step(ladder, back, yard).model_copy(update={"says": news.says})
    return end_remediation(ladder, "withdrawn", news.says)


def _handle_shows(ladder: Remediation, news: RemediationEvent, yard: PlanContext) -> Remediation:
    """The fault is back while the return is proposed."""
    return end_remediation(ladder, "ticket", news.says) if get_current_step(ladder).part == "restore" else ladder


def _handle_joined(ladder: Remediation, news: RemediationEvent, yard: PlanContext) -> Remediation:
    """Another incident proposed the same action; its result decides."""
    return set_waiting(ladder.model_copy(update={"approval": news.replaced_by}), "node_back", yard, news.says)


def _handle_not_idle(ladder: Remediation, news: RemediationEvent, yard: PlanContext) -> Remediation:
    """Wait again under the same attempt."""
    return ladder.model_copy(update={"waiting_for": "idle", "due": yard.now + yard.waits.idle, "approval": "", "says": news.says})


def _handle_again(ladder: Remediation, news: RemediationEvent, yard: PlanContext) -> Remediation:
    return request_approval(ladder.model_copy(update={"attempt": ladder.attempt + 1, "says": ""}), yard)


def _handle_return(ladder: Remediation, news: RemediationEvent, yard: PlanContext) -> Remediation:
    return propose_return(yard.incident, ladder)


def _handle_in_service(ladder: Remediation, news: RemediationEvent, yard: PlanContext) -> Remediation:
    """Another party returned the node. A repair is still proved again; an open remediation notices by its conditions."""
    if not ladder.is_open:
        says = "; ".join(filter(None, (ladder.says.removesuffix(format_still_drained(ladder)).rstrip("; "), news.says)))
        return _mark_returned(ladder).model_copy(update={"says": says})
    if not is_returning(ladder):
        return ladder
    if ladder.proven:
        return schedule_recheck(_mark_returned(ladder), yard).model_copy(update={"says": news.says})
    return end_remediation(_mark_returned(ladder), "withdrawn", news.says)


def _handle_scheduler_unobserved(ladder: Remediation, news: RemediationEvent, yard: PlanContext) -> Remediation:
    return ladder.model_copy(update={"unasked": ladder.unasked or news.seen or yard.now})


def _handle_scheduler_observed(ladder: Remediation, news: RemediationEvent, yard: PlanContext) -> Remediation:
    return ladder.model_copy(update={"unasked": None})


# Scheduler observations of a drained node, for open and ended remediations.
DRAINED_NODE_TRANSITIONS: Mapping[str, TransitionFunction] = {
    IN_SERVICE_EVENT: _handle_in_service,
    SCHEDULER_UNOBSERVED_EVENT: _handle_scheduler_unobserved,
    SCHEDULER_OBSERVED_EVENT: _handle_scheduler_observed,
}


def _handle_cured(ladder: Remediation, news: RemediationEvent, yard: PlanContext) -> Remediation:
    over = end_remediation(ladder, "cured", "proved again, the fault did not come back")
    return over.model_copy(update={"due": yard.now + yard.waits.quiet})


def _handle_recurred(ladder: Remediation, news: RemediationEvent, yard: PlanContext) -> Remediation:
    return end_remediation(ladder, "recurred", f"the fault came back: {news.says}" if news.says else "the fault came back")


def _build_from_next_plan(ladder: Remediation, ladders: Sequence[Remediation], yard: PlanContext) -> Remediation | None:
    """A relapse needs a new remediation, because the node is in service again."""
    host = yard.inventory.hosts.get(ladder.target)
    return build_remediation(ladder.label, host, ladder.devices, yard, ladders, plan=ladder.tried + 1) if host else None


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
