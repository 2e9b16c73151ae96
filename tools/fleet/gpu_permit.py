"""Permission to run checks that need GPUs for themselves.

Without people's permission, every GPU must be idle in a fresh reading and no other check may hold the host. Unobserved
counts as busy. The time limit also ends what a check started: the remote `timeout -k` signals its own process group
only.
"""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Protocol

from tools.checks.check_types import Check
from tools.fact import Fact
from tools.fleet.gpu_use import IDLE_CHECKS, GpuUse, classify_gpu_use

SPARE_SECONDS = 60.0


class GpuReservations(Protocol):
    """Reservations of hosts: one holder a host. They expire after `seconds`, in case the holder dies."""

    async def reserve_host(self, host: str, seconds: float) -> str | None:
        """Return a token; None if the host is reserved."""
        ...

    async def release_host(self, host: str, token: str) -> None:
        """Release the host; a stale token changes nothing."""
        ...


@dataclass(slots=True)
class LocalGpuReservations:
    """Reservations within one process."""

    clock: Callable[[], float] = time.monotonic
    _reservations: dict[str, tuple[str, float]] = field(default_factory=dict)

    async def reserve_host(self, host: str, seconds: float) -> str | None:
        now = self.clock()
        if host in self._reservations and self._reservations[host][1] > now:
            return None
        token = secrets.token_hex(8)
        self._reservations[host] = (token, now + seconds)
        return token

    async def release_host(self, host: str, token: str) -> None:
        if host in self._reservations and self._reservations[host][0] == token:
            del self._reservations[host]


@asynccontextmanager
async def reserve_hosts(hosts: Iterable[str], check: Check, reservations: GpuReservations) -> AsyncIterator[Mapping[str, GpuUse]]:
    """Reserve every free host for the check's longest run time and yield each host's use. Always releases."""
    uses: dict[str, GpuUse] = {}
    seconds = check.timeout * max(len(check.commands), 1) * (8 if check.together else 1) + SPARE_SECONDS
    async with AsyncExitStack() as stack:
        for host in sorted(hosts):
            token = await reservations.reserve_host(host, seconds)
            if token is None:
                uses[host] = GpuUse("busy", "another exclusive check runs there")
            else:
                stack.push_async_callback(reservations.release_host, host, token)
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
    hosts: Iterable[str], check: Check, reservations: GpuReservations, run_passive: RunPassiveCheck | None
) -> AsyncIterator[Permit]:
    """Reserve the hosts and read whether they are idle. `run_passive` is None with people's permission."""
    async with reserve_hosts(hosts, check, reservations) as uses:
        spent: dict[str, float] = {}
        if run_passive:
            free = [host for host, use in uses.items() if not use.why]
            gpu_uses = await asyncio.gather(*(_read_gpu_use(host, run_passive) for host in free))
            uses = {**uses, **{host: use for host, (use, _) in zip(free, gpu_uses, strict=True)}}
            spent = {host: seconds for host, (_, seconds) in zip(free, gpu_uses, strict=True)}
        yield Permit(uses, spent)


async def _read_gpu_use(host: str, run_passive: RunPassiveCheck) -> tuple[GpuUse, float]:
    answers = await asyncio.gather(*(run_passive(host, name) for name in IDLE_CHECKS))
    return classify_gpu_use([fact for facts, _ in answers for fact in facts]), max(seconds for _, seconds in answers)
