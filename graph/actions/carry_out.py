"""What the action graph does to the world, step by step: read the conditions, claim, run, write down. The ledger alone decides what may run.

Nothing here runs a remedy without the ledger's claim, nothing is started twice, and what changed since people looked is refused.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar

from graph.actions.fault import fault_now
from graph.ports import Ports
from tools.acting.conditions import unmet
from tools.acting.identity import boot_id, fingerprint
from tools.acting.run import Contact, Ending, nobody_hears, run
from tools.action import Action
from tools.fact import Fact
from tools.fleet.answers import Ask
from tools.ledger import record
from tools.ledger.claim import Claim
from tools.ledger.ledger import Ledger
from tools.ledger.record import Record, Refused, is_digest, targets_of
from tools.ledger.states import State, Transition
from tools.transport import Transport, Unreachable

T = TypeVar("T")
LATER = (
    *(record.Stopped, record.TargetBusy, record.FleetLimit, record.BreakerOpen, record.BlastRadius, record.Forgetful),
    *(record.StoreDown, record.ClockSkew, record.Crowded, record.Tampered),
)
"""Refusals that may pass before the time to start is over."""


class NotNow(Exception):
    """Approved, and not started: something outside keeps it back. It is tried again until its time to start is over."""


class StillRunning(Exception):
    """Another worker holds the action and lives."""


class Changed(Exception):
    """What people approved is not what is there any more. `why` is a word for the ladder, the text a sentence for people."""

    def __init__(self, why: str, says: str) -> None:
        super().__init__(says)
        self.why = why


@dataclass(frozen=True, slots=True)
class ActionPorts:
    """The outside world of an action. `reading` is the incident's half of it."""

    reading: Ports
    ledger: Ledger
    transport: Transport
    catalogue: str
    policy: Callable[[], str]
    """The policy's hash now."""
    authorised: Callable[[Record], Awaitable[frozenset[str]]]
    """Who may approve this action now, as `TEAM:USER`."""
    facts_of: Callable[[str], Awaitable[list[Fact]]]
    """What the incident knows."""
    worker: str
    began: Callable[[str], Awaitable[None]]
    """Hears of an approval once it is claimed. Must not raise."""
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep
    beat_seconds: float = 8.0
    contact: Contact = nobody_hears
    """Hears that contact with the host of a running action is lost, or is there again."""


async def begin(seen: Record, ports: ActionPorts) -> Claim:
    """The claim, after everything that can be read beforehand was read. Raises Changed, NotNow or a Refused."""
    action = seen.action
    try:
        await _same_host(action, ports)
    except Unreachable as why:
        raise NotNow(f"{why.host} cannot be asked: {why.why}") from why
    for one in await unmet(action, ports.transport, controller=_controller(action, ports)):
        if one.ok is None:
            raise NotNow(f"could not see whether {one.says}: {one.saw}")
        raise Changed("conditions", f"not so any more: {one.says} (it says {one.saw[:80]!r})")
    await _still_there(seen, ports)
    if held := await ports.ledger.held_back(seen):
        raise NotNow(held)  # before Slack is asked, which answers a few such questions a minute
    try:
        authorised = await ports.authorised(seen)
        return await ports.ledger.claim(
            seen.approval, seen.digest, ports.worker, policy=ports.policy(), catalogue=ports.catalogue, authorised=authorised
        )
    except LATER as why:
        raise NotNow(str(why)) from why
    except record.NoQuorum as why:
        raise Changed("approvers", "somebody who approved may not approve any more") from why


async def _same_host(action: Action, ports: ActionPorts) -> None:
    """The machine, by its key and its boot, is the one that was looked at."""
    if action.host_key:
        key = await fingerprint(action.via, ports.transport)
        if key != action.host_key:
            raise Changed(
                "host_key", f"{action.via} shows another host key than when this was proposed: find out why before anything is done to it"
            )
    if action.boot_id:
        boot = await boot_id(action.via, ports.transport)
        if boot != action.boot_id:
            raise Changed("rebooted", f"{action.via} was rebooted since this was proposed")


async def _still_there(seen: Record, ports: ActionPorts) -> None:
    """The fault that people approved this for is there now: a remedy for what is mended already could only harm."""
    fault = seen.action.fault
    if fault is None:
        return
    incident = seen.action.incident
    found = await fault_now(fault, incident, seen.proposed_at, await ports.facts_of(incident), ports.reading, ports.transport)
    if found.answer == "unseen":
        raise NotNow(f"could not see whether the fault is still there: {found.says}")
    if found.answer == "gone":
        raise Changed("fault_gone", f"the fault is gone, so nothing is done about it: {found.says}")


def _controller(action: Action, ports: ActionPorts) -> str:
    """Where the scheduler of the target is asked; empty without one."""
    row = ports.reading.inventory.hosts.get(action.target)
    return row.controller if row else ""


async def carry_out(claim: Claim, ports: ActionPorts) -> Record:
    """Run (or, for an adopted claim, find out) under the claim, and write down how it ended. LostClaim: somebody else goes on."""
    settled = await _run(claim, ports)
    sha = settled.output if is_digest(settled.output) else await _kept(claim.action.incident, settled.output, ports)
    return await ports.ledger.finish(claim, settled.state, exit_status=settled.exit_status, output=sha, says=settled.says)


async def _kept(incident: str, output: str, ports: ActionPorts) -> str:
    return await ports.reading.evidence.put(incident, output) if output.strip() else ""


async def _run(claim: Claim, ports: ActionPorts) -> Ending:
    action = claim.action
    for host in targets_of(action):
        ports.reading.fleet.forget(host)
    if action.remedy != "run_check":
        return await run(
            claim, ports.transport, clock=ports.reading.clock, beat=_Beat(ports.ledger), pause=ports.pause, contact=ports.contact
        )
    return await _beating(claim, _run_check(claim, ports), ports)


@dataclass(frozen=True, slots=True)
class _Beat:
    """The ledger's heartbeat as `tools.acting.run` wants it."""

    ledger: Ledger

    async def __call__(self, claim: Claim) -> None:
        await self.ledger.beat(claim)


async def _run_check(claim: Claim, ports: ActionPorts) -> Ending:
    """An exclusive check under its claim; its output is the digest of the facts."""
    action = claim.action
    if not claim.may_start:
        return Ending("failed", says="the worker that ran it died; it changed nothing and may be run again")
    wave = await ports.reading.fleet.look(
        action.incident, [Ask(host, action.args["check"]) for host in targets_of(action)], fresh=True, permitted=True
    )
    facts = [fact for fact in wave.facts if fact.key and fact.key != "check.skipped"]
    blind = "; ".join(f"{answer.host}: {answer.could_not}" for answer in wave.answers if answer.could_not)
    sha = await ports.reading.evidence.put_facts(action.incident, wave.facts)
    return Ending("done" if facts else "failed", 0 if facts else 1, output=sha, says=blind[:300])


async def _beating(claim: Claim, work: Coroutine[Any, Any, T], ports: ActionPorts) -> T:
    """Beside `work` the ledger hears that we live; when it says that we are not the holder any more, `work` is cut off."""
    task, keeper = asyncio.create_task(work), asyncio.create_task(_keep(claim, ports))
    try:
        await asyncio.wait({task, keeper}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        keeper.result()
        raise record.LostClaim(record.LostClaim.__doc__)
    finally:
        for one in (task, keeper):
            one.cancel()
            with suppress(asyncio.CancelledError, Refused):
                await one


async def _keep(claim: Claim, ports: ActionPorts) -> None:
    while True:
        await asyncio.sleep(ports.beat_seconds)
        with suppress(record.StoreDown, record.ClockSkew, record.Crowded):
            await ports.ledger.beat(claim)


async def supersede(approval: str, why: Changed, ports: ActionPorts) -> Record:
    """End what must not run any more."""
    with suppress(record.NotOpen):
        await ports.ledger.end(approval, Transition.SUPERSEDE, "rackmedic", str(why))
    return await ports.ledger.record(approval)


def claimed_at(seen: Record, now: datetime) -> datetime:
    """A moment not later than the claim, for whoever did not see it: when the last vote was cast."""
    votes = [datetime.fromisoformat(vote.at) for vote in seen.votes]
    return max(votes, default=now - timedelta(seconds=seen.terms.start_seconds))


def ran(seen: Record) -> bool:
    """Whether the command began, as far as the record tells."""
    return seen.state is State.DONE or (seen.state is State.FAILED and seen.exit_status is not None)
