"""The effects of the action graph: check preconditions, claim, run, record.

No remedy runs without the ledger's claim, none starts twice, and none starts if its approved preconditions have
changed.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar

from graph.context import GraphContext
from graph.execution.fault_check import check_fault
from tools.action import Action
from tools.execution.conditions import find_unmet_conditions
from tools.execution.identity import read_boot_id, read_host_key_fingerprint
from tools.execution.runner import ContactCallback, ExecutionResult, ignore_contact_change, run_action
from tools.fact import Fact
from tools.fleet.answers import CheckRequest
from tools.ledger import refusals
from tools.ledger.claim import Claim
from tools.ledger.ledger import Ledger
from tools.ledger.record import ActionRecord, is_digest, list_targets
from tools.ledger.refusals import Refused
from tools.ledger.states import State, Transition
from tools.transport import Transport, Unreachable

T = TypeVar("T")
# Refusals that may pass before the time to start is over.
RETRYABLE_REFUSALS = (
    *(
        refusals.KillSwitchOn,
        refusals.TargetBusy,
        refusals.FleetLimitExceeded,
        refusals.BreakerOpen,
        refusals.BlastRadiusExceeded,
        refusals.NonDurableStore,
    ),
    *(refusals.StoreDown, refusals.ClockBehind, refusals.Contention, refusals.TamperedRecord),
)


class ActionDeferred(Exception):
    """The approved action cannot start yet. It is tried again until its time to start is over."""


class StillRunning(Exception):
    """A live worker holds the action."""


class ApprovalOutdated(Exception):
    """The approved state is outdated. `why` is a word for the remediation, the text a sentence for people."""

    def __init__(self, reason: str, says: str) -> None:
        super().__init__(says)
        self.why = reason


@dataclass(frozen=True, slots=True)
class ActionGraphContext:
    """The outside world of an action; `reading` is the incident's context."""

    reading: GraphContext
    ledger: Ledger
    transport: Transport
    catalogue: str
    policy: Callable[[], str]  # Returns the present policy hash.
    # Returns who may approve this action now, as `TEAM:USER`.
    authorised: Callable[[ActionRecord], Awaitable[frozenset[str]]]
    facts_of: Callable[[str], Awaitable[list[Fact]]]  # Returns the incident's facts.
    worker: str
    began: Callable[[str], Awaitable[None]]  # Called with an approval id once it is claimed. Must not raise.
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep
    beat_seconds: float = 8.0
    # Called when contact with the host of a running action is lost or restored.
    contact: ContactCallback = ignore_contact_change


async def claim_action(action_record: ActionRecord, action_context: ActionGraphContext) -> Claim:
    """Check identity, conditions and fault, then claim. Raises ApprovalOutdated, ActionDeferred or a Refused."""
    action = action_record.action
    try:
        await _verify_host_identity(action, action_context)
    except Unreachable as error:
        raise ActionDeferred(f"{error.host} cannot be asked: {error.why}") from error
    for condition in await find_unmet_conditions(action, action_context.transport, controller=_get_controller(action, action_context)):
        if condition.ok is None:
            raise ActionDeferred(f"could not see whether {condition.says}: {condition.saw}")
        raise ApprovalOutdated("conditions", f"not so any more: {condition.says} (it says {condition.saw[:80]!r})")
    await _verify_fault_present(action_record, action_context)
    if refusal := await action_context.ledger.explain_held_back(action_record):
        raise ActionDeferred(refusal)  # before asking Slack, which allows few such calls a minute
    try:
        authorised = await action_context.authorised(action_record)
        return await action_context.ledger.claim(
            action_record.approval,
            action_record.digest,
            action_context.worker,
            policy=action_context.policy(),
            catalogue=action_context.catalogue,
            authorised=authorised,
        )
    except RETRYABLE_REFUSALS as error:
        raise ActionDeferred(str(error)) from error
    except refusals.NoQuorum as error:
        raise ApprovalOutdated("approvers", "a person who approved no longer has the right to approve") from error


async def _verify_host_identity(action: Action, action_context: ActionGraphContext) -> None:
    """Compare host key and boot id with those that were diagnosed."""
    if action.host_key:
        key = await read_host_key_fingerprint(action.via, action_context.transport)
        if key != action.host_key:
            raise ApprovalOutdated(
                "host_key", f"{action.via} shows another host key than when this was proposed: find out why before anything is done to it"
            )
    if action.boot_id:
        boot = await read_boot_id(action.via, action_context.transport)
        if boot != action.boot_id:
            raise ApprovalOutdated("rebooted", f"{action.via} was rebooted since this was proposed")


async def _verify_fault_present(record: ActionRecord, action_context: ActionGraphContext) -> None:
    """Check that the approved fault is still present: a remedy for a repaired host could only harm."""
    fault = record.action.fault
    if fault is None:
        return
    incident = record.action.incident
    current_fault = await check_fault(
        fault, incident, record.proposed_at, await action_context.facts_of(incident), action_context.reading, action_context.transport
    )
    if current_fault.answer == "unseen":
        raise ActionDeferred(f"could not see whether the fault is still there: {current_fault.says}")
    if current_fault.answer == "gone":
        raise ApprovalOutdated("fault_gone", f"the fault is gone, so nothing is done about it: {current_fault.says}")


def _get_controller(action: Action, action_context: ActionGraphContext) -> str:
    host = action_context.reading.inventory.hosts.get(action.target)
    return host.controller if host else ""


async def execute_claim(claim: Claim, action_context: ActionGraphContext) -> ActionRecord:
    """Run the claim, or find out how an adopted one ended, and record the result.

    Raises LostClaim if another worker took it over.
    """
    settled_claim = await _run_claim(claim, action_context)
    sha = (
        settled_claim.output
        if is_digest(settled_claim.output)
        else await _store_output(claim.action.incident, settled_claim.output, action_context)
    )
    return await action_context.ledger.finish(
        claim, settled_claim.state, exit_status=settled_claim.exit_status, output=sha, says=settled_claim.says
    )


async def _store_output(incident: str, output: str, action_context: ActionGraphContext) -> str:
    return await action_context.reading.evidence.put_text(incident, output) if output.strip() else ""


async def _run_claim(claim: Claim, action_context: ActionGraphContext) -> ExecutionResult:
    action = claim.action
    for host in list_targets(action):
        action_context.reading.fleet.forget_host(host)
    if action.remedy != "run_check":
        return await run_action(
            claim,
            action_context.transport,
            clock=action_context.reading.clock,
            beat=_LedgerHeartbeat(action_context.ledger),
            pause=action_context.pause,
            contact=action_context.contact,
        )
    return await _run_with_heartbeat(claim, _run_check(claim, action_context), action_context)


@dataclass(frozen=True, slots=True)
class _LedgerHeartbeat:
    """Adapts the ledger to `tools.execution.runner`."""

    ledger: Ledger

    async def __call__(self, claim: Claim) -> None:
        await self.ledger.send_heartbeat(claim)


async def _run_check(claim: Claim, action_context: ActionGraphContext) -> ExecutionResult:
    """Run an exclusive check; `output` is the digest of its facts."""
    action = claim.action
    if not claim.may_start:
        return ExecutionResult("failed", says="the worker that ran it died; it changed nothing and may be run again")
    wave = await action_context.reading.fleet.run_checks(
        action.incident, [CheckRequest(host, action.args["check"]) for host in list_targets(action)], fresh=True, permitted=True
    )
    facts = [fact for fact in wave.facts if fact.key and fact.key != "check.skipped"]
    unobserved_reasons = "; ".join(f"{answer.host}: {answer.could_not}" for answer in wave.answers if answer.could_not)
    sha = await action_context.reading.evidence.put_facts(action.incident, wave.facts)
    return ExecutionResult("done" if facts else "failed", 0 if facts else 1, output=sha, says=unobserved_reasons[:300])


async def _run_with_heartbeat(claim: Claim, work: Coroutine[Any, Any, T], action_context: ActionGraphContext) -> T:
    """Await `work` with heartbeats; cancel it when the claim is lost."""
    task, keeper = asyncio.create_task(work), asyncio.create_task(_send_heartbeats(claim, action_context))
    try:
        await asyncio.wait({task, keeper}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        keeper.result()
        raise refusals.LostClaim
    finally:
        for task_to_cancel in (task, keeper):
            task_to_cancel.cancel()
            with suppress(asyncio.CancelledError, Refused):
                await task_to_cancel


async def _send_heartbeats(claim: Claim, action_context: ActionGraphContext) -> None:
    while True:
        await asyncio.sleep(action_context.beat_seconds)
        with suppress(refusals.StoreDown, refusals.ClockBehind, refusals.Contention):
            await action_context.ledger.send_heartbeat(claim)


async def supersede_action(approval: str, error: ApprovalOutdated, action_context: ActionGraphContext) -> ActionRecord:
    with suppress(refusals.NotOpen):
        await action_context.ledger.end_action(approval, Transition.SUPERSEDE, "rackmedic", str(error))
    return await action_context.ledger.get_record(approval)


def estimate_claim_time(record: ActionRecord, now: datetime) -> datetime:
    """Return a time not later than the claim: the last vote, else `now` minus the start window."""
    votes = [datetime.fromisoformat(vote.at) for vote in record.votes]
    return max(votes, default=now - timedelta(seconds=record.terms.start_seconds))


def has_started(record: ActionRecord) -> bool:
    return record.state is State.DONE or (record.state is State.FAILED and record.exit_status is not None)
