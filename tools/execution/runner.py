"""The only module that runs remedies: it needs a claim and drives the node kit, whose answers are authoritative.

A lost connection neither stops nor hides the effect; in doubt the digest is settled. An action stays `unknown`, for a
human, only if the host does not answer or contradicts itself. Nothing is started twice or retried.
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
BOOT_POLL_TIMEOUT_SECONDS = 10.0  # short, because a rebooting host is polled often

# time without a kit answer after which contact counts as lost; reported within a minute, heartbeats included
CONTACT_LOST_AFTER = timedelta(seconds=40)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ExecutionResult:
    """The known outcome. `unknown` keeps the target locked until a human has looked."""

    state: Literal["done", "failed", "unknown"]
    exit_status: int | None = None
    output: str = ""
    says: str = ""


# Renews the claim in the ledger. Raises LostClaim if this worker no longer holds it.
HeartbeatCallback = Callable[[Claim], Awaitable[None]]


# Receives the time since when the host has not answered, or None once it answers again. Must not raise.
ContactCallback = Callable[[Action, datetime | None], Awaitable[None]]


async def ignore_contact_change(action: Action, since: datetime | None) -> None:
    """Ignore lost and regained contact."""


async def start_action(claim: Claim, transport: Transport, kit: tuple[str, ...] = ACT_COMMAND) -> KitAnswer:
    """Start the action unless its digest was started before. Raises PermissionError if the claim may only settle.

    Requires the approved host key and a kit of this catalogue: an older kit would run an older command.
    """
    if not claim.may_start:
        raise PermissionError("an adopted claim may only settle")
    action = claim.action
    if action.host_key and isinstance(transport, HostKeyTransport):
        try:
            key = await transport.fingerprint(action.via)
        except Unreachable as error:
            return KitAnswer("unclear", says=error.why)
        if key != action.host_key:
            return KitAnswer("refused", says=f"{action.via} has another host key ({key}) than the one that was approved")
    kit_state = await read_kit_state(action.via, transport, kit)
    if kit_state.state != "current":
        return _reject_foreign_kit(action, kit_state)
    return await ask_kit(action.via, ("start", action.digest, action.boot_id, *action.argv), transport, kit)


def _reject_foreign_kit(action: Action, kit_state: KitState) -> KitAnswer:
    """Return why a kit of another version starts nothing. If `unclear`, the caller settles the digest."""
    match kit_state.state:
        case "older":
            explanation = "nothing was started, because an older kit may do something other than what was approved."
            return KitAnswer("refused", says=f"{explanation} {kit_state.explain_unusable(action)}")
        case "missing":
            return KitAnswer("absent", says=kit_state.says)
        case _:
            return KitAnswer("unclear", says=kit_state.says)


async def settle_action(action: Action, transport: Transport, kit: tuple[str, ...] = ACT_COMMAND) -> KitAnswer:
    """Ask what became of the digest. One that the host does not know can never start afterwards."""
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
    """Start (if the claim may) and poll until the end or the deadline.

    On LostClaim, which passes through, stop at once.
    """
    action = claim.action
    remedy = get_executed_remedy(action.argv, action.remedy)
    deadline = clock.now() + timedelta(seconds=action.limit_seconds + remedy.completion.seconds + 60)
    watch = _ActionWatch(action, remedy, transport)
    contact_monitor = _ContactMonitor(action, clock, contact, clock.now(), lost=not claim.may_start)

    async def beat_and_watch(claim: Claim) -> None:
        await beat(claim)
        await contact_monitor.report_lost_contact()

    first_request = start_action(claim, transport, kit) if claim.may_start else settle_action(action, transport, kit)
    answer = await _await_with_heartbeat(first_request, claim, beat_and_watch, beat_seconds)
    if answer.word == "absent" and claim.may_start:
        return ExecutionResult("failed", says=f"nothing was started: {answer.says}")
    await contact_monitor.record_answer(answer)
    while (result := await _await_with_heartbeat(watch.classify_answer(answer), claim, beat_and_watch, beat_seconds)) is None:
        if clock.now() > deadline:
            return watch.build_timeout_result(answer)
        await beat_and_watch(claim)
        await pause(1.0)
        answer = await _await_with_heartbeat(settle_action(action, transport, kit), claim, beat_and_watch, beat_seconds)
        await contact_monitor.record_answer(answer)
    return result


async def _await_with_heartbeat(work: Coroutine[Any, Any, T], claim: Claim, beat: HeartbeatCallback, every: float) -> T:
    """Send heartbeats while waiting: a slow host must not cost the claim."""
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
    """Report when contact with the kit is lost and regained.

    `since` is the time of the last clear answer. `lost` is True once the loss was reported, by this worker or the
    previous one.
    """

    action: Action
    clock: Clock
    contact: ContactCallback
    since: datetime
    lost: bool = False

    async def record_answer(self, answer: KitAnswer) -> None:
        if answer.word == "unclear":
            await self.report_lost_contact()
            return
        self.since = self.clock.now()
        if self.lost:
            self.lost = False
            await self.contact(self.action, None)

    async def report_lost_contact(self) -> None:
        if not self.lost and self.clock.now() - self.since >= CONTACT_LOST_AFTER:
            self.lost = True
            await self.contact(self.action, self.since)


@dataclass(slots=True)
class _ActionWatch:
    """Decide from the kit's answers how one action ended. `began` stays True even if the host loses its record."""

    action: Action
    remedy: Remedy
    transport: Transport
    began: bool = False
    same_boot: bool | None = None

    async def classify_answer(self, answer: KitAnswer) -> ExecutionResult | None:
        """Return the result if this answer ends the action; None to poll again."""
        self.began = self.began or answer.word in ("started", "running", "done", "lost")
        match answer.word:
            case "done" | "lost" if self.remedy.completion.kind == "new_boot":
                return await self._check_reboot(answer)
            case "done":
                return _build_result_by_status(self.remedy, answer)
            case "refused":
                return ExecutionResult("failed", says="; ".join(filter(None, (answer.says, explain_refusal(self.remedy, answer.says)))))
            case "never":
                return await self._handle_never_started(answer)
            case "lost":
                return ExecutionResult("unknown", output=answer.output, says="it began, and neither its end nor its process can be found")
            case _:
                return None

    async def _check_reboot(self, answer: KitAnswer) -> ExecutionResult | None:
        """Return the result of a reboot: done once the boot id is new, failed if the command could not run or was refused."""
        boot = await self._read_boot_id()
        if boot and not self.same_boot:
            return ExecutionResult("done", 0, answer.output, f"it came back with boot id {boot}")
        could_not_run = answer.exit_status in CANNOT_RUN_STATUSES or (answer.exit_status and explain_refusal(self.remedy, answer.output))
        return _build_result_by_status(self.remedy, answer) if could_not_run else None

    async def _handle_never_started(self, answer: KitAnswer) -> ExecutionResult | None:
        """Return the result for a host without a record: never begun, if it still runs the approved boot.

        A diskless host loses its records with a boot.
        """
        boot = await self._read_boot_id()
        if not boot:
            return None
        if self.began and not self.same_boot and self.remedy.completion.kind == "new_boot":
            return ExecutionResult("done", 0, answer.output, f"it came back with boot id {boot}, and without its records")
        if self.began:
            return ExecutionResult("unknown", says="the host said that it began, and has no record of it now")
        if not self.same_boot:
            return ExecutionResult(
                "unknown", says="the host has booted since the approval and has no record; whether it ran before that is not known"
            )
        return ExecutionResult("failed", says="it never began, and can never begin now")

    def build_timeout_result(self, answer: KitAnswer) -> ExecutionResult:
        if self.remedy.completion.kind == "new_boot" and answer.word == "done" and self.same_boot:
            explanation = f"the host still runs the same boot {self.remedy.completion.seconds} seconds after the command"
            return ExecutionResult("failed", answer.exit_status, answer.output, explanation)
        return ExecutionResult(
            "unknown", output=answer.output, says=f"no final answer from {self.action.via} in time: {answer.says or answer.word}"
        )

    async def _read_boot_id(self) -> str:
        """Return "" if the host does not answer. Sets `same_boot`."""
        self.same_boot = None
        try:
            boot = await read_boot_id(self.action.via, self.transport, seconds=BOOT_POLL_TIMEOUT_SECONDS)
        except Unreachable:
            return ""
        self.same_boot = boot == self.action.boot_id
        return boot


def _build_result_by_status(remedy: Remedy, answer: KitAnswer) -> ExecutionResult:
    refusal = explain_refusal(remedy, answer.output)
    if answer.exit_status == 0 and not refusal:
        return ExecutionResult("done", 0, answer.output)
    timeout_text = "it did not end within its time limit" if answer.exit_status in TIMEOUT_STATUSES else ""
    return ExecutionResult(
        "failed", answer.exit_status, answer.output, refusal or timeout_text or f"it exited with status {answer.exit_status}"
    )


def explain_refusal(remedy: Remedy, output: str) -> str:
    """Return the meaning of a known refusal in the output and what to do, or ""."""
    return next((meaning for words, meaning in remedy.refusals.items() if words.lower() in output.lower()), "")
