"""Checks that need GPUs for themselves: when one may run, and what is said when it may not.

It runs by itself only where a look of this moment shows every GPU idle, and nobody else's check holds the host. What cannot be seen
counts as busy. Each ends with its time limit, and with it whatever it started: the remote `timeout -k` signals its own process group,
nothing else on the host is touched.
"""

import asyncio
import re
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Literal, Protocol

from tools.checks.row import Check
from tools.fact import Fact, Status
from tools.transport import Ran

LOOKS = ("smi", "procs")
"""The passive checks that show whether GPUs are used."""
IDLE_UTIL, IDLE_MIB = 5, 1024
"""What a GPU nobody uses may show: per cent, and MiB the driver keeps for itself."""
UNUSABLE = frozenset({"driver_not_loaded", "no_devices"})
"""Answers of nvidia-smi that leave no GPU anybody could be using."""
SPARE_SECONDS = 60.0
Why = Literal["busy", "not_known", "no_tool"]


@dataclass(frozen=True, slots=True)
class Use:
    """Whether the GPUs of a host are used: "" when they are idle, else why a check may not run, and the sentence."""

    why: Literal["", "busy", "not_known"] = ""
    says: str = ""


def use_of(facts: Iterable[Fact]) -> Use:
    """From fresh facts of LOOKS. Reading nothing is not idle."""
    known = [fact for fact in facts if not fact.stale]
    if using := [fact for fact in known if _is_use(fact)]:
        return Use("busy", f"{len({f.device for f in using})} of its GPUs are in use: {_said(using[0])}")
    if any(fact.key == "smi.error" and fact.value in UNUSABLE for fact in known):
        return Use()
    if not any(fact.key == "gpu.processes" and fact.status is Status.OK for fact in known):
        reason = next((fact.line for fact in known if fact.status.blind or fact.key == "smi.error"), "nvidia-smi was not asked")
        return Use("not_known", f"whether its GPUs are in use cannot be seen: {reason}"[:300])
    return Use()


def _is_use(fact: Fact) -> bool:
    if fact.status is not Status.OK:
        return fact.key == "proc.gpu_memory" and fact.status is Status.ABSENT and bool(fact.attrs.get("pid"))
    if fact.key in ("gpu.util", "gpu.memory.used", "gpu.processes") and isinstance(fact.value, int):
        return fact.value > {"gpu.util": IDLE_UTIL, "gpu.memory.used": IDLE_MIB}.get(fact.key, 0)
    return fact.key == "proc.gpu_memory"


def _said(fact: Fact) -> str:
    what = {"gpu.util": "%", "gpu.memory.used": "MiB used", "gpu.processes": "processes", "proc.gpu_memory": "MiB held by a process"}
    return f"{fact.device or 'a GPU'} {fact.value if fact.value is not None else ''} {what.get(fact.key, '')}".strip()


def skipped(check: Check, why: Why, says: str) -> Fact:
    """The fact that a check was not run. Neither healthy nor sick: nothing was established but this."""
    return Fact(check.id, "check.skipped", why, line=says[:300], attrs={"text": check.tool} if why == "no_tool" else {})


def no_tool(check: Check, rans: Sequence[Ran]) -> Fact | None:
    """The fact that a command is not installed, with how to get it; None where all are."""
    for command, ran in zip(check.commands, rans, strict=False):
        if not command.optional and is_missing(ran):
            return skipped(
                check, "no_tool", f"{command.argv[0].rpartition('/')[2]} is not installed; {check.id} needs {check.tool or 'it'}"
            )
    return None


_MISSING = re.compile(
    r"(?:failed to run command|bash: line \d+:).{0,200}(?:No such file|not found)|error while loading shared libraries|^execve?\(\): .{0,80}No such file",
    re.MULTILINE,
)


def is_missing(ran: Ran) -> bool:
    """Whether a command did not even start: shells say 127, launchers say it in words."""
    return ran.exit_status in (126, 127) or (not ran.stdout.strip() and bool(_MISSING.search(ran.stderr.decode("utf-8", "replace"))))


class Leases(Protocol):
    """Who holds a host for a check. A holder that dies loses it after `seconds`."""

    async def take(self, host: str, seconds: float) -> str | None:
        """A token, or None while somebody else holds the host."""
        ...

    async def give(self, host: str, token: str) -> None:
        """Give it back; a token that is not the holder's any more changes nothing."""
        ...


@dataclass(slots=True)
class LocalLeases:
    """For one process."""

    clock: Callable[[], float] = time.monotonic
    _held: dict[str, tuple[str, float]] = field(default_factory=dict)

    async def take(self, host: str, seconds: float) -> str | None:
        now = self.clock()
        if host in self._held and self._held[host][1] > now:
            return None
        token = secrets.token_hex(8)
        self._held[host] = (token, now + seconds)
        return token

    async def give(self, host: str, token: str) -> None:
        if host in self._held and self._held[host][0] == token:
            del self._held[host]


@asynccontextmanager
async def held(hosts: Iterable[str], check: Check, leases: Leases) -> AsyncIterator[Mapping[str, Use]]:
    """Hold every host that is free for as long as the check may take; of the others, why not. All are given back, whatever happens."""
    uses: dict[str, Use] = {}
    seconds = check.timeout * max(len(check.commands), 1) * (8 if check.together else 1) + SPARE_SECONDS
    async with AsyncExitStack() as stack:
        for host in sorted(hosts):
            token = await leases.take(host, seconds)
            if token is None:
                uses[host] = Use("busy", "another exclusive check runs there")
            else:
                stack.push_async_callback(leases.give, host, token)
                uses[host] = Use()
        yield uses


@dataclass(frozen=True, slots=True)
class Permit:
    """Who may run a check now, and who may not and why. `seconds` were spent on finding out."""

    uses: Mapping[str, Use]
    seconds: Mapping[str, float]

    @property
    def free(self) -> tuple[str, ...]:
        return tuple(host for host, use in self.uses.items() if not use.why)


Looked = Callable[[str, str], Awaitable[tuple[Sequence[Fact], float]]]
"""A passive check of a host, asked now: its facts and its seconds."""


@asynccontextmanager
async def permit(hosts: Iterable[str], check: Check, leases: Leases, looked: Looked | None) -> AsyncIterator[Permit]:
    """Hold the hosts and look whether they are idle; `looked` None where people have permitted it on GPUs in use."""
    async with held(hosts, check, leases) as uses:
        spent: dict[str, float] = {}
        if looked:
            free = [host for host, use in uses.items() if not use.why]
            seen = await asyncio.gather(*(_use(host, looked) for host in free))
            uses = {**uses, **{host: use for host, (use, _) in zip(free, seen, strict=True)}}
            spent = {host: seconds for host, (_, seconds) in zip(free, seen, strict=True)}
        yield Permit(uses, spent)


async def _use(host: str, looked: Looked) -> tuple[Use, float]:
    answers = await asyncio.gather(*(looked(host, name) for name in LOOKS))
    return use_of([fact for facts, _ in answers for fact in facts]), max(seconds for _, seconds in answers)
