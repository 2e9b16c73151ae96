"""Checks that need GPUs for themselves: when one may run, and what is said when it may not.

It runs by itself only where a look of this moment shows every GPU idle, and nobody else's check holds the host. What cannot be seen
counts as busy. Each ends with its time limit, and with it whatever it started: the remote `timeout -k` signals its own process group,
nothing else on the host is touched.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from tools.checks.check import Check
from tools.fact import Fact
from tools.fleet.gpu_use import IDLE_CHECKS, GpuUse, classify_gpu_use
from tools.fleet.reservations import GpuReservations

SPARE_SECONDS = 60.0


@asynccontextmanager
async def reserve_hosts(hosts: Iterable[str], check: Check, holds: GpuReservations) -> AsyncIterator[Mapping[str, GpuUse]]:
    """Hold every host that is free for as long as the check may take; of the others, why not. All are given back, whatever happens."""
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
    """Who may run a check now, and who may not and why. `seconds` were spent on finding out."""

    uses: Mapping[str, GpuUse]
    seconds: Mapping[str, float]

    @property
    def free(self) -> tuple[str, ...]:
        return tuple(host for host, use in self.uses.items() if not use.why)


RunPassiveCheck = Callable[[str, str], Awaitable[tuple[Sequence[Fact], float]]]
"""A passive check of a host, asked now: its facts and its seconds."""


@asynccontextmanager
async def reserve_idle_hosts(
    hosts: Iterable[str], check: Check, holds: GpuReservations, looked: RunPassiveCheck | None
) -> AsyncIterator[Permit]:
    """Hold the hosts and look whether they are idle; `looked` None where people have permitted it on GPUs in use."""
    async with reserve_hosts(hosts, check, holds) as uses:
        spent: dict[str, float] = {}
        if looked:
            free = [host for host, use in uses.items() if not use.why]
            seen = await asyncio.gather(*(_read_gpu_use(host, looked) for host in free))
            uses = {**uses, **{host: use for host, (use, _) in zip(free, seen, strict=True)}}
            spent = {host: seconds for host, (_, seconds) in zip(free, seen, strict=True)}
        yield Permit(uses, spent)


async def _read_gpu_use(host: str, looked: RunPassiveCheck) -> tuple[GpuUse, float]:
    answers = await asyncio.gather(*(looked(host, name) for name in IDLE_CHECKS))
    return classify_gpu_use([fact for facts, _ in answers for fact in facts]), max(seconds for _, seconds in answers)
