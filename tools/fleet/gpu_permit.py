"""Permission to run checks that need GPUs for themselves: whether they are in use, and their reservation."""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Literal, Protocol

from tools.checks.check_types import Check
from tools.fact import Fact, Status

# Reservations of a host's GPUs for a check: one holder per host, with expiry in case it dies.


class GpuReservations(Protocol):
    """A reservation expires after `seconds`."""

    async def reserve_host(self, host: str, seconds: float) -> str | None:
        """Return a token; None if the host is reserved."""
        ...

    async def release_host(self, host: str, token: str) -> None:
        """Release the host; a stale token changes nothing."""
        ...


@dataclass(slots=True)
class LocalGpuReservations:
    """For one process."""

    clock: Callable[[], float] = time.monotonic
    _held: dict[str, tuple[str, float]] = field(default_factory=dict)

    async def reserve_host(self, host: str, seconds: float) -> str | None:
        now = self.clock()
        if host in self._held and self._held[host][1] > now:
            return None
        token = secrets.token_hex(8)
        self._held[host] = (token, now + seconds)
        return token

    async def release_host(self, host: str, token: str) -> None:
        if host in self._held and self._held[host][0] == token:
            del self._held[host]


# Whether a host's GPUs are in use, from two fresh passive checks. Unobserved counts as busy.

IDLE_CHECKS = ("smi", "procs")  # passive checks that show GPU use
MAX_IDLE_UTIL_PERCENT = 5  # upper bounds for an idle GPU: utilisation in per cent
MAX_IDLE_MIB = 1024  # memory in MiB (the driver reserves some)
UNUSABLE_GPU_ERRORS = frozenset({"driver_not_loaded", "no_devices"})  # nvidia-smi errors that leave no usable GPU


@dataclass(frozen=True, slots=True)
class GpuUse:
    """Use of a host's GPUs. `why` is "" if idle, else why a check may not run; `says` is the sentence."""

    why: Literal["", "busy", "not_known"] = ""
    says: str = ""


def classify_gpu_use(facts: Iterable[Fact]) -> GpuUse:
    """Classify fresh facts of IDLE_CHECKS. No reading is not idle."""
    fresh_facts = [fact for fact in facts if not fact.stale]
    if using := [fact for fact in fresh_facts if _shows_use(fact)]:
        return GpuUse("busy", f"{len({f.device for f in using})} of its GPUs are in use: {_format_use(using[0])}")
    if any(fact.key == "smi.error" and fact.value in UNUSABLE_GPU_ERRORS for fact in fresh_facts):
        return GpuUse()
    if not any(fact.key == "gpu.processes" and fact.status is Status.OK for fact in fresh_facts):
        reason = next((fact.line for fact in fresh_facts if fact.status.blind or fact.key == "smi.error"), "nvidia-smi was not asked")
        return GpuUse("not_known", f"whether its GPUs are in use cannot be seen: {reason}"[:300])
    return GpuUse()


def _shows_use(fact: Fact) -> bool:
    if fact.status is not Status.OK:
        return fact.key == "proc.gpu_memory" and fact.status is Status.ABSENT and bool(fact.attrs.get("pid"))
    if fact.key in ("gpu.util", "gpu.memory.used", "gpu.processes") and isinstance(fact.value, int):
        return fact.value > {"gpu.util": MAX_IDLE_UTIL_PERCENT, "gpu.memory.used": MAX_IDLE_MIB}.get(fact.key, 0)
    return fact.key == "proc.gpu_memory"


def _format_use(fact: Fact) -> str:
    unit = {"gpu.util": "%", "gpu.memory.used": "MiB used", "gpu.processes": "processes", "proc.gpu_memory": "MiB held by a process"}
    return f"{fact.device or 'a GPU'} {fact.value if fact.value is not None else ''} {unit.get(fact.key, '')}".strip()


# Permission to run checks that need GPUs for themselves.
#
# Without people's permission, every GPU must be idle in a fresh reading and no other check may hold the host. Unobserved
# counts as busy. The time limit also ends what a check started: the remote `timeout -k` signals its own process group
# only.

SPARE_SECONDS = 60.0


@asynccontextmanager
async def reserve_hosts(hosts: Iterable[str], check: Check, holds: GpuReservations) -> AsyncIterator[Mapping[str, GpuUse]]:
    """Reserve every free host for the check's longest run time and yield each host's use. Always releases."""
    uses: dict[str, GpuUse] = {}
    seconds = check.timeout * max(len(check.commands), 1) * (8 if check.together else 1) + SPARE_SECONDS
    async with AsyncExitStack() as stack:
        for host in sorted(hosts):
            token = await holds.reserve_host(host, seconds)
            if token is None:
                uses[host] = GpuUse("busy", "another exclusive check runs there")
            else:
                stack.push_async_callback(holds.release_host, host, token)
                uses[host] = GpuUse()
        yield uses


@dataclass(frozen=True, slots=True)
class Permit:
    """Each host's GPU use and the seconds spent on reading it."""

    uses: Mapping[str, GpuUse]
    seconds: Mapping[str, float]

    @property
    def free(self) -> tuple[str, ...]:
        return tuple(host for host, use in self.uses.items() if not use.why)


# runs a passive check on a host and returns its facts and its seconds
RunPassiveCheck = Callable[[str, str], Awaitable[tuple[Sequence[Fact], float]]]


@asynccontextmanager
async def reserve_idle_hosts(
    hosts: Iterable[str], check: Check, holds: GpuReservations, looked: RunPassiveCheck | None
) -> AsyncIterator[Permit]:
    """Reserve the hosts and read whether they are idle. `looked` is None with people's permission."""
    async with reserve_hosts(hosts, check, holds) as uses:
        spent: dict[str, float] = {}
        if looked:
            free = [host for host, use in uses.items() if not use.why]
            gpu_uses = await asyncio.gather(*(_read_gpu_use(host, looked) for host in free))
            uses = {**uses, **{host: use for host, (use, _) in zip(free, gpu_uses, strict=True)}}
            spent = {host: seconds for host, (_, seconds) in zip(free, gpu_uses, strict=True)}
        yield Permit(uses, spent)


async def _read_gpu_use(host: str, looked: RunPassiveCheck) -> tuple[GpuUse, float]:
    answers = await asyncio.gather(*(looked(host, name) for name in IDLE_CHECKS))
    return classify_gpu_use([fact for facts, _ in answers for fact in facts]), max(seconds for _, seconds in answers)
