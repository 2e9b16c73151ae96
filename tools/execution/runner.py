"""The one module that runs remedies. It takes a claim and nothing else, and asks the node kit; what happened is what the kit says.

A lost connection neither stops nor hides the effect: after any doubt the digest is settled, and only a host that cannot answer, or that
contradicts itself, leaves an action `unknown` for a human. Nothing is ever started twice or retried.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, TypeVar

from tools.action import Action
from tools.clock import Clock
from tools.execution.identity import HostKeyTransport, read_boot_id
from tools.execution.kit import KitAnswer, KitState, ask_kit, read_kit_state
from tools.ledger.claim import Claim
from tools.nodekit.generate import ACT_COMMAND
from tools.remedies import get_executed_remedy
from tools.remedies.remedy import Remedy
from tools.transport import Transport, Unreachable

CANNOT_RUN_STATUSES = (126, 127)
TIMEOUT_STATUSES = (124, 137)
BOOT_POLL_TIMEOUT_SECONDS = 10.0
"""A host on its way down is asked often, so that nobody waits long for one answer."""

CONTACT_LOST_AFTER = timedelta(seconds=40)
"""Without an answer of the host's kit for so long, contact counts as lost; it is said within a minute, beats included."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ExecutionResult:
    """How an action ended, as far as anybody can know. `unknown` keeps the target locked until a human looked."""

    state: Literal["done", "failed", "unknown"]
    exit_status: int | None = None
    output: str = ""
    says: str = ""


HeartbeatCallback = Callable[[Claim], Awaitable[None]]
"""Tells the ledger that the holder lives; raises LostClaim when it is not the holder any more."""


ContactCallback = Callable[[Action, datetime | None], Awaitable[None]]
"""Hears since when the host has not answered, and None once it answers again. Must not raise."""


async def ignore_contact_change(action: Action, since: datetime | None) -> None:
    """Tell nobody."""


async def start_action(claim: Claim, transport: Transport, kit: tuple[str, ...] = ACT_COMMAND) -> KitAnswer:
    """Begin the action, unless its digest began before. Only a claim that may start gets this far, only to the host key approved, and only
    where the kit says that it is of this catalogue: another one would run what the remedy was then."""
    if not claim.may_start:
        raise PermissionError("an adopted claim may only settle")
    action = claim.action
    if action.host_key and isinstance(transport, HostKeyTransport):
        try:
            key = await transport.fingerprint(action.via)
        except Unreachable as why:
            return KitAnswer("unclear", says=why.why)
        if key != action.host_key:
            return KitAnswer("refused", says=f"{action.via} has another host key ({key}) than the one that was approved")
    there = await read_kit_state(action.via, transport, kit)
    if there.state != "current":
        return _reject_foreign_kit(action, there)
    return await ask_kit(action.via, ("start", action.digest, action.boot_id, *action.argv), transport, kit)


def _reject_foreign_kit(action: Action, there: KitState) -> KitAnswer:
    """The answer of a kit that is not known to be ours. One that did not say what it is is settled, so that the digest can never start."""
    match there.state:
        case "older":
            why = "nothing was started, for an older kit may do another thing than what was approved."
            return KitAnswer("refused", says=f"{why} {there.explain_unusable(action)}")
        case "missing":
            return KitAnswer("absent", says=there.says)
        case _:
            return KitAnswer("unclear", says=there.says)


async def settle_action(action: Action, transport: Transport, kit: tuple[str, ...] = ACT_COMMAND) -> KitAnswer:
    """What became of the digest; one that the host does not know can never start afterwards."""
    return await ask_kit(action.via, ("settle", action.digest), transport, kit)


async def run_action(
    claim: Claim,
    transport: Transport,
    *,
    clock: Clock,
    beat: HeartbeatCallback,
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    kit: tuple[str, ...] = ACT_COMMAND,
    beat_seconds: float = 10.0,
    contact: ContactCallback = ignore_contact_change,
) -> ExecutionResult:
    """Start (where the claim may), then poll until it is settled or its time is over. LostClaim passes through: stop at once."""
    action, remedy = claim.action, get_executed_remedy(claim.action.argv, claim.action.remedy)
    deadline = clock.now() + timedelta(seconds=action.limit_seconds + remedy.completion.seconds + 60)
    watch, line = _ActionWatch(action, remedy, transport), _ContactMonitor(action, clock, contact, clock.now(), lost=not claim.may_start)

    async def beat_and_watch(held: Claim) -> None:
        await beat(held)
        await line.report_lost_contact()

    first = start_action(claim, transport, kit) if claim.may_start else settle_action(action, transport, kit)
    said = await _await_with_heartbeat(first, claim, beat_and_watch, beat_seconds)
    if said.word == "absent" and claim.may_start:
        return ExecutionResult("failed", says=f"nothing was started: {said.says}")
    await line.record_answer(said)
    while (ended := await _await_with_heartbeat(watch.classify_answer(said), claim, beat_and_watch, beat_seconds)) is None:
        if clock.now() > deadline:
            return watch.build_timeout_result(said)
        await beat_and_watch(claim)
        await pause(1.0)
        said = await _await_with_heartbeat(settle_action(action, transport, kit), claim, beat_and_watch, beat_seconds)
        await line.record_answer(said)
    return ended


async def _await_with_heartbeat(work: Coroutine[Any, Any, T], claim: Claim, beat: HeartbeatCallback, every: float) -> T:
    """Wait for an answer and say meanwhile that we live: a host that takes its time must not cost us the claim."""
    task = asyncio.create_task(work)
    try:
        while not (await asyncio.wait({task}, timeout=every))[0]:
            await beat(claim)
    except BaseException:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        raise
    return task.result()


@dataclass(slots=True)
class _ContactMonitor:
    """Since when the host's kit has given no clear answer. `lost`: whether that was told, by us or by the worker before us."""

    action: Action
    clock: Clock
    contact: ContactCallback
    since: datetime
    lost: bool = False

    async def record_answer(self, said: KitAnswer) -> None:
        """Take an answer."""
        if said.word == "unclear":
            await self.report_lost_contact()
            return
        self.since = self.clock.now()
        if self.lost:
            self.lost = False
            await self.contact(self.action, None)

    async def report_lost_contact(self) -> None:
        """Tell once that contact is lost, where it is."""
        if not self.lost and self.clock.now() - self.since >= CONTACT_LOST_AFTER:
            self.lost = True
            await self.contact(self.action, self.since)


@dataclass(slots=True)
class _ActionWatch:
    """What the answers so far say about one action. `began` is kept: a host that forgets cannot take it back."""

    action: Action
    remedy: Remedy
    transport: Transport
    began: bool = False
    same_boot: bool | None = None

    async def classify_answer(self, said: KitAnswer) -> ExecutionResult | None:
        """Whether this answer ends it; None means: ask again."""
        self.began = self.began or said.word in ("started", "running", "done", "lost")
        match said.word:
            case "done" | "lost" if self.remedy.completion.kind == "new_boot":
                return await self._check_reboot(said)
            case "done":
                return _build_result_by_status(self.remedy, said)
            case "refused":
                return ExecutionResult("failed", says="; ".join(filter(None, (said.says, explain_refusal(self.remedy, said.says)))))
            case "never":
                return await self._handle_never_started(said)
            case "lost":
                return ExecutionResult("unknown", output=said.output, says="it began, and neither its end nor its process can be found")
            case _:
                return None

    async def _check_reboot(self, said: KitAnswer) -> ExecutionResult | None:
        """A reboot is done when the host answers with another boot id; a command that could not run, or was refused, ends it before."""
        boot = await self._read_boot_id()
        if boot and not self.same_boot:
            return ExecutionResult("done", 0, said.output, f"it came back with boot id {boot}")
        hopeless = said.exit_status in CANNOT_RUN_STATUSES or (said.exit_status and explain_refusal(self.remedy, said.output))
        return _build_result_by_status(self.remedy, said) if hopeless else None

    async def _handle_never_started(self, said: KitAnswer) -> ExecutionResult | None:
        """No record: it never began, if the host's memory reaches back to the approval. A host may lose it with a boot (no disk of its own)."""
        boot = await self._read_boot_id()
        if not boot:
            return None
        if self.began and not self.same_boot and self.remedy.completion.kind == "new_boot":
            return ExecutionResult("done", 0, said.output, f"it came back with boot id {boot}, and without its records")
        if self.began:
            return ExecutionResult("unknown", says="the host said that it began, and has no record of it now")
        if not self.same_boot:
            return ExecutionResult(
                "unknown", says="the host has booted since the approval and has no record; whether it ran before that is not known"
            )
        return ExecutionResult("failed", says="it never began, and can never begin now")

    def build_timeout_result(self, said: KitAnswer) -> ExecutionResult:
        """The time is over."""
        if self.remedy.completion.kind == "new_boot" and said.word == "done" and self.same_boot:
            late = f"the host still runs the same boot {self.remedy.completion.seconds} seconds after the command"
            return ExecutionResult("failed", said.exit_status, said.output, late)
        return ExecutionResult(
            "unknown", output=said.output, says=f"no final answer from {self.action.via} in time: {said.says or said.word}"
        )

    async def _read_boot_id(self) -> str:
        """The boot id that the host answers with, empty where it does not; whether it is the approved one is noted."""
        self.same_boot = None
        try:
            boot = await read_boot_id(self.action.via, self.transport, seconds=BOOT_POLL_TIMEOUT_SECONDS)
        except Unreachable:
            return ""
        self.same_boot = boot == self.action.boot_id
        return boot


def _build_result_by_status(remedy: Remedy, said: KitAnswer) -> ExecutionResult:
    why = explain_refusal(remedy, said.output)
    if said.exit_status == 0 and not why:
        return ExecutionResult("done", 0, said.output)
    late = "it did not end within its time limit" if said.exit_status in TIMEOUT_STATUSES else ""
    return ExecutionResult("failed", said.exit_status, said.output, why or late or f"it exited with status {said.exit_status}")


def explain_refusal(remedy: Remedy, output: str) -> str:
    """What the tool's own refusal means and what to do; empty when the output holds none that we know."""
    return next((meaning for words, meaning in remedy.refusals.items() if words.lower() in output.lower()), "")
