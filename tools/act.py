"""The one module that runs remedies. It takes a claim and nothing else, and asks the node kit; what happened is what the kit says.

A lost connection neither stops nor hides the effect: after any doubt the digest is settled, and only a host that cannot answer leaves
an action `unknown` for a human. Nothing is ever started twice or retried.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal, Protocol

from tools.action import Action
from tools.ledger.claim import Claim
from tools.ledger.ledger import Clock
from tools.remedies import REMEDIES
from tools.remedy import Remedy
from tools.transport import Ran, Transport, Unreachable

ACT = ("sudo", "-n", "/usr/local/sbin/rackmedic-act")
ASK_SECONDS = 30.0
CAP = 128 * 1024
BOOT_ID = ("cat", "/proc/sys/kernel/random/boot_id")

Word = Literal["started", "running", "done", "lost", "never", "refused", "unclear"]
WORDS: frozenset[str] = frozenset({"started", "running", "done", "lost", "never", "refused"})


@dataclass(frozen=True, slots=True)
class Said:
    """One answer of the kit. `unclear` is everything else: no session, no kit, an answer of another shape; `says` tells which."""

    word: Word
    exit_status: int | None = None
    output: str = ""
    says: str = ""


@dataclass(frozen=True, slots=True)
class Settled:
    """How an action ended, as far as anybody can know. `unknown` keeps the target locked until a human looked."""

    state: Literal["done", "failed", "unknown"]
    exit_status: int | None = None
    output: str = ""
    says: str = ""


class Beat(Protocol):
    """Tells the ledger that the holder lives; raises LostClaim when it is not the holder any more."""

    def __call__(self, claim: Claim) -> Awaitable[None]: ...


async def start(claim: Claim, transport: Transport) -> Said:
    """Begin the action, unless its digest began before. Only a claim that may start gets this far."""
    if not claim.may_start:
        raise PermissionError("an adopted claim may only settle")
    action = claim.action
    return await _ask(action.via, ("start", action.digest, action.boot_id, *action.argv), transport)


async def settle(action: Action, transport: Transport) -> Said:
    """What became of the digest; one that the host does not know can never start afterwards."""
    return await _ask(action.via, ("settle", action.digest), transport)


async def _ask(host: str, words: tuple[str, ...], transport: Transport) -> Said:
    try:
        ran = await transport.run(host, (*ACT, *words), timeout=ASK_SECONDS, cap=CAP)
    except Unreachable as why:
        return Said("unclear", says=why.why)
    return read_answer(ran)


def read_answer(ran: Ran) -> Said:
    """The kit's answer; anything that is not exactly one is `unclear`."""
    first, _, rest = ran.text.partition("\n")
    word, _, more = first.partition(" ")
    if ran.exit_status is None or ran.timed_out or word not in WORDS:
        complaint = ran.stderr.decode("utf-8", "replace").strip() or first
        return Said("unclear", says=f"the node kit gave no clear answer: {complaint[:200] or 'connection lost'}")
    if word == "done":
        return Said("done", int(more), rest) if more.isdigit() else Said("unclear", says=f"the node kit answered {first[:80]!r}")
    return Said(word, output=rest, says=more)  # type: ignore[arg-type]  # word is one of WORDS


async def run(
    claim: Claim, transport: Transport, *, clock: Clock, beat: Beat, pause: Callable[[float], Awaitable[None]] = asyncio.sleep
) -> Settled:
    """Start (where the claim may), then poll until it is settled or its time is over. LostClaim passes through: stop at once."""
    action, remedy = claim.action, REMEDIES[claim.action.remedy]
    said = await start(claim, transport) if claim.may_start else await settle(action, transport)
    deadline = clock.now() + timedelta(seconds=action.limit_seconds + remedy.completion.seconds + 60)
    while (ended := await _ended(action, remedy, said, transport)) is None:
        if clock.now() > deadline:
            return Settled("unknown", says=f"no final answer from {action.via} in time: {said.says or said.word}")
        await beat(claim)
        await pause(1.0)
        said = await settle(action, transport)
    return ended


async def _ended(action: Action, remedy: Remedy, said: Said, transport: Transport) -> Settled | None:
    """Whether this answer ends it; None means: ask again."""
    if remedy.completion.kind == "new_boot" and said.word in ("done", "lost", "running", "unclear", "started"):
        return await _rebooted(action, remedy, said, transport)
    match said.word:
        case "done":
            return _by_status(remedy, said)
        case "refused":
            return Settled("failed", says=said.says)
        case "never":
            return Settled("failed", says="it never began, and can never begin now")
        case "lost":
            return Settled("unknown", output=said.output, says="it began, and neither its end nor its process can be found")
        case _:
            return None


def _by_status(remedy: Remedy, said: Said) -> Settled:
    if said.exit_status == 0 and not explain(remedy, said.output):
        return Settled("done", 0, said.output)
    why = explain(remedy, said.output) or ("it did not end within its time limit" if said.exit_status in (124, 137) else "")
    return Settled("failed", said.exit_status, said.output, why or f"it exited with status {said.exit_status}")


async def _rebooted(action: Action, remedy: Remedy, said: Said, transport: Transport) -> Settled | None:
    """A reboot is done when the host answers with another boot id; its command's own failure ends it before."""
    if said.word == "done" and said.exit_status not in (0, None):
        return _by_status(remedy, said)
    try:
        ran = await transport.run(action.via, BOOT_ID, timeout=10, cap=100)
    except Unreachable:
        return None
    boot = ran.text.strip()
    return (
        Settled("done", 0, said.output, f"it came back with boot id {boot}")
        if ran.exit_status == 0 and boot and boot != action.boot_id
        else None
    )


def explain(remedy: Remedy, output: str) -> str:
    """What the tool's own refusal means and what to do; empty when the output holds none that we know."""
    return next((meaning for words, meaning in remedy.refusals.items() if words.lower() in output.lower()), "")
