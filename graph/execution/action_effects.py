"""The effects of the action graph: check preconditions and the fault, claim, run, record."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar

from graph.context import GraphContext
from graph.engine.assessment import assess_facts
from graph.engine.fact_history import EVENT_KEY_PREFIXES, find_clock_skews, mark_stale_after_repairs
from graph.engine.reference_data import ReferenceData
from graph.incident.context import build_reference_data
from graph.remediation.fault_condition import CausePresence, judge_fault
from tools.action import Action, FaultCondition
from tools.execution.conditions import find_unmet_conditions
from tools.execution.identity import read_boot_id, read_host_key_fingerprint
from tools.execution.runner import ContactCallback, ExecutionResult, ignore_contact_change, run_action
from tools.fact import Fact
from tools.fleet.answers import CheckRequest
from tools.ledger import record
from tools.ledger.claim import Claim
from tools.ledger.ledger import Ledger
from tools.ledger.record import ActionRecord, Refused, is_digest, list_targets
from tools.ledger.states import State, Transition
from tools.transport import Transport, Unreachable

# The last check before a claim: is the approved fault still present? Passive checks only.
#
# It judges as the proof does (`graph.remediation.fault_condition`): what would prove a repair prevents its start.


async def check_fault(
    fault: FaultCondition,
    incident: str,
    since: datetime,
    known: Sequence[Fact],
    reading: GraphContext,
    transport: Transport,
    *,
    changed: bool = False,
) -> CausePresence:
    """Return whether a fault is present now.

    Log lines count from `since` on. `known` are the incident's facts. `changed`: the host was changed since, so its old
    boot id and the old proof no longer show the fault.
    """
    if fault.lasts == "boot" and not changed and (mended := await _find_last_repair(fault, since, reading)):
        since, changed = mended, True  # its line is from before that repair
    if fault.lasts == "proved" and not changed:
        return CausePresence("shown", f"{fault.says}, as it was proved; no check that disturbs nobody can tell more")
    if fault.lasts in ("boot", "silence") and not changed:
        return await _check_by_boot(fault, transport)
    for _ in range(fault.reads):
        reading_result = await _check_by_reading(fault, incident, since, known, reading)
        if reading_result.answer != "gone":
            break
    return reading_result


async def _find_last_repair(fault: FaultCondition, since: datetime, reading: GraphContext) -> datetime | None:
    """Return when all of the fault's devices were last repaired after `since`, by any incident."""
    names = [name.rpartition("/")[2] for name in fault.devices] or [""]
    rows = [row for row in await reading.treated([fault.host]) if row.at > since and all(map(row.covers_device, names))]
    return max((row.at for row in rows), default=None)


async def _check_by_boot(fault: FaultCondition, transport: Transport) -> CausePresence:
    """Judge a fault that lasts for a boot, or that consists in not answering."""
    try:
        boot = await read_boot_id(fault.host, transport)
    except Unreachable as error:
        return CausePresence("shown" if fault.lasts == "silence" else "unseen", f"{fault.host} does not answer: {error.why}")
    if fault.lasts == "silence":
        return CausePresence("gone", f"{fault.host} answers again")
    if boot != fault.boot_id:
        return CausePresence("gone", f"{fault.host} has booted since: {fault.says} was of the boot before")
    return CausePresence("shown", f"{fault.says}, in this boot")


async def _check_by_reading(
    fault: FaultCondition, incident: str, since: datetime, known: Sequence[Fact], reading: GraphContext
) -> CausePresence:
    requests = [CheckRequest(fault.host, check) for check in list_fault_checks(fault, build_reference_data(reading, known))]
    facts = (await reading.fleet.run_checks(incident, requests, fresh=True)).facts
    if not any(not fact.status.blind for fact in facts):
        return CausePresence("unseen", facts[0].line if facts else f"nothing on {fault.host} could be looked at")
    reference = build_reference_data(reading, [*known, *facts])
    own = [fact for fact in facts if fact.host == fault.host]
    known_events = mark_stale_after_repairs(
        [fact for fact in own if fact.key.startswith(EVENT_KEY_PREFIXES)], {fault.host: since}, find_clock_skews([*known, *facts])
    )
    return judge_fault(
        fault,
        assess_facts([*(fact for fact in own if not fact.key.startswith(EVENT_KEY_PREFIXES)), *known_events], reference, [fault.host]),
    )


def list_fault_checks(fault: FaultCondition, reference: ReferenceData) -> tuple[str, ...]:
    """Return the checks that showed the fault and all non-exclusive ones that can decide its cause."""
    leaf = reference.taxonomy.leaves.get(fault.label)
    deciding = [check.id for check in reference.list_deciding_checks(leaf)] if leaf else []
    return tuple(
        name for name in dict.fromkeys((*fault.checks, *deciding)) if name in reference.checks and not reference.checks[name].exclusive
    )


# The effects of the action graph: check preconditions, claim, run, record.
#
# No remedy runs without the ledger's claim, none starts twice, and none starts if its approved preconditions have
# changed.

T = TypeVar("T")
# Refusals that may pass before the time to start is over.
RETRYABLE_REFUSALS = (
    *(record.KillSwitchOn, record.TargetBusy, record.FleetLimit, record.BreakerOpen, record.BlastRadius, record.NonDurableStore),
    *(record.StoreDown, record.ClockSkew, record.Contention, record.TamperedRecord),
)


class ActionDeferred(Exception):
    """Approved, and not started: something outside keeps it back. It is tried again until its time to start is over."""


class StillRunning(Exception):
    """Another worker holds the action and lives."""


class ApprovalOutdated(Exception):
    """What people approved is not what is there any more. `why` is a word for the ladder, the text a sentence for people."""

    def __init__(self, why: str, says: str) -> None:
        super().__init__(says)
        self.why = why


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


async def claim_action(seen: ActionRecord, ports: ActionGraphContext) -> Claim:
    """Check identity, conditions and fault, then claim. Raises ApprovalOutdated, ActionDeferred or a Refused."""
    action = seen.action
    try:
        await _verify_host_identity(action, ports)
    except Unreachable as error:
        raise ActionDeferred(f"{error.host} cannot be asked: {error.why}") from error
    for condition in await find_unmet_conditions(action, ports.transport, controller=_get_controller(action, ports)):
        if condition.ok is None:
            raise ActionDeferred(f"could not see whether {condition.says}: {condition.saw}")
        raise ApprovalOutdated("conditions", f"not so any more: {condition.says} (it says {condition.saw[:80]!r})")
    await _verify_fault_present(seen, ports)
    if refusal := await ports.ledger.explain_held_back(seen):
        raise ActionDeferred(refusal)  # before asking Slack, which allows few such calls a minute
    try:
        authorised = await ports.authorised(seen)
        return await ports.ledger.claim(
            seen.approval, seen.digest, ports.worker, policy=ports.policy(), catalogue=ports.catalogue, authorised=authorised
        )
    except RETRYABLE_REFUSALS as error:
        raise ActionDeferred(str(error)) from error
    except record.NoQuorum as error:
        raise ApprovalOutdated("approvers", "a person who approved no longer has the right to approve") from error


async def _verify_host_identity(action: Action, ports: ActionGraphContext) -> None:
    """Compare host key and boot id with those that were diagnosed."""
    if action.host_key:
        key = await read_host_key_fingerprint(action.via, ports.transport)
        if key != action.host_key:
            raise ApprovalOutdated(
                "host_key", f"{action.via} shows another host key than when this was proposed: find out why before anything is done to it"
            )
    if action.boot_id:
        boot = await read_boot_id(action.via, ports.transport)
        if boot != action.boot_id:
            raise ApprovalOutdated("rebooted", f"{action.via} was rebooted since this was proposed")


async def _verify_fault_present(record: ActionRecord, ports: ActionGraphContext) -> None:
    """Check that the approved fault is still present: a remedy for a repaired host could only harm."""
    fault = record.action.fault
    if fault is None:
        return
    incident = record.action.incident
    current_fault = await check_fault(fault, incident, record.proposed_at, await ports.facts_of(incident), ports.reading, ports.transport)
    if current_fault.answer == "unseen":
        raise ActionDeferred(f"could not see whether the fault is still there: {current_fault.says}")
    if current_fault.answer == "gone":
        raise ApprovalOutdated("fault_gone", f"the fault is gone, so nothing is done about it: {current_fault.says}")


def _get_controller(action: Action, ports: ActionGraphContext) -> str:
    row = ports.reading.inventory.hosts.get(action.target)
    return row.controller if row else ""


async def execute_claim(claim: Claim, ports: ActionGraphContext) -> ActionRecord:
    """Run the claim, or find out how an adopted one ended, and record the result. Raises LostClaim."""
    settled_claim = await _run_claim(claim, ports)
    sha = (
        settled_claim.output if is_digest(settled_claim.output) else await _store_output(claim.action.incident, settled_claim.output, ports)
    )
    return await ports.ledger.finish(claim, settled_claim.state, exit_status=settled_claim.exit_status, output=sha, says=settled_claim.says)


async def _store_output(incident: str, output: str, ports: ActionGraphContext) -> str:
    return await ports.reading.evidence.put_text(incident, output) if output.strip() else ""


async def _run_claim(claim: Claim, ports: ActionGraphContext) -> ExecutionResult:
    action = claim.action
    for host in list_targets(action):
        ports.reading.fleet.forget_host(host)
    if action.remedy != "run_check":
        return await run_action(
            claim, ports.transport, clock=ports.reading.clock, beat=_LedgerHeartbeat(ports.ledger), pause=ports.pause, contact=ports.contact
        )
    return await _run_with_heartbeat(claim, _run_check(claim, ports), ports)


@dataclass(frozen=True, slots=True)
class _LedgerHeartbeat:
    """Adapts the ledger to `tools.execution.runner`."""

    ledger: Ledger

    async def __call__(self, claim: Claim) -> None:
        await self.ledger.send_heartbeat(claim)


async def _run_check(claim: Claim, ports: ActionGraphContext) -> ExecutionResult:
    """Run an exclusive check; `output` is the digest of its facts."""
    action = claim.action
    if not claim.may_start:
        return ExecutionResult("failed", says="the worker that ran it died; it changed nothing and may be run again")
    wave = await ports.reading.fleet.run_checks(
        action.incident, [CheckRequest(host, action.args["check"]) for host in list_targets(action)], fresh=True, permitted=True
    )
    facts = [fact for fact in wave.facts if fact.key and fact.key != "check.skipped"]
    unobserved_reasons = "; ".join(f"{answer.host}: {answer.could_not}" for answer in wave.answers if answer.could_not)
    sha = await ports.reading.evidence.put_facts(action.incident, wave.facts)
    return ExecutionResult("done" if facts else "failed", 0 if facts else 1, output=sha, says=unobserved_reasons[:300])


async def _run_with_heartbeat(claim: Claim, work: Coroutine[Any, Any, T], ports: ActionGraphContext) -> T:
    """Await `work` with heartbeats; cancel it when the claim is lost."""
    task, keeper = asyncio.create_task(work), asyncio.create_task(_send_heartbeats(claim, ports))
    try:
        await asyncio.wait({task, keeper}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        keeper.result()
        raise record.LostClaim(record.LostClaim.__doc__)
    finally:
        for task_to_cancel in (task, keeper):
            task_to_cancel.cancel()
            with suppress(asyncio.CancelledError, Refused):
                await task_to_cancel


async def _send_heartbeats(claim: Claim, ports: ActionGraphContext) -> None:
    while True:
        await asyncio.sleep(ports.beat_seconds)
        with suppress(record.StoreDown, record.ClockSkew, record.Contention):
            await ports.ledger.send_heartbeat(claim)


async def supersede_action(approval: str, why: ApprovalOutdated, ports: ActionGraphContext) -> ActionRecord:
    with suppress(record.NotOpen):
        await ports.ledger.end_action(approval, Transition.SUPERSEDE, "rackmedic", str(why))
    return await ports.ledger.get_record(approval)


def estimate_claim_time(record: ActionRecord, now: datetime) -> datetime:
    """Return a time not later than the claim: the last vote, else `now` minus the start window."""
    votes = [datetime.fromisoformat(vote.at) for vote in record.votes]
    return max(votes, default=now - timedelta(seconds=record.terms.start_seconds))


def has_started(record: ActionRecord) -> bool:
    return record.state is State.DONE or (record.state is State.FAILED and record.exit_status is not None)
