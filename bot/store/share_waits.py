"""What of customers waits for their share, in Redis: since when, why, and what our own people let in at once."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from redis.asyncio import Redis

from bot.policy.shares import Limit, Over, TenantWaits
from bot.store.keys import Names
from bot.tasks import awaited
from kb.numbers import seconds
from tools.clock import Clock

LATEST = 253_000_000_000.0
"""Seconds since 1970 of the last moment that a date can hold, roughly."""


class ShareWaits:
    """All customers on one Redis. An incident waits once, however much of it does."""

    def __init__(self, redis: Redis, clock: Clock, *, names: Names | None = None) -> None:
        self._redis, self._clock, self._names = redis, clock, names or Names()

    async def note(self, tenant: str, incident: str, why: Over) -> None:
        """It waits, from now on or as before."""
        until = why.until.timestamp() if why.until else ""
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.zadd(self._names.waits, {f"{incident} {tenant}": self._clock.now().timestamp()}, nx=True)
            pipe.hset(self._names.waits_why, tenant, f"{why.limit} {until}")
            await pipe.execute()

    async def begun(self, tenant: str, incident: str) -> None:
        """It waits no more."""
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.zrem(self._names.waits, f"{incident} {tenant}")
            pipe.srem(self._names.waits_let_in, incident)
            await pipe.execute()

    async def let_in(self, tenant: str, incident: str) -> bool:
        """Whatever limit stands against it counts no more for what waits of it now; False where nothing does."""
        if await self._redis.zscore(self._names.waits, f"{incident} {tenant}") is None:
            return False
        await awaited(self._redis.sadd(self._names.waits_let_in, incident))
        return True

    async def is_let_in(self, incident: str) -> bool:
        """Whether somebody let it in."""
        return bool(await awaited(self._redis.sismember(self._names.waits_let_in, incident)))

    async def now(self) -> list[TenantWaits]:
        """One row a customer, whoever waits longest first, of those who wait equally long by name. What has nothing left to wait with is forgotten."""
        found: Any = await self._redis.zrange(self._names.waits, 0, -1, withscores=True)
        rows = [(*_parted(member), float(at)) for member, at in found]
        left: dict[str, list[tuple[str, float, bool]]] = {}
        for (incident, tenant, at), (waiting, begun) in zip(rows, await self._standing([row[0] for row in rows]), strict=True):
            if waiting:
                left.setdefault(tenant, []).append((incident, at, not begun))
            else:
                await self.begun(tenant, incident)
        why = await awaited(self._redis.hgetall(self._names.waits_why)) if left else {}
        longest = sorted(left.items(), key=lambda row: (row[1][0][1], row[0]))
        return [_row(tenant, theirs, why.get(tenant.encode(), b"")) for tenant, theirs in longest]

    async def _standing(self, incidents: Sequence[str]) -> list[tuple[bool, bool]]:
        """Of each: whether anything waits, and whether anything of it was answered."""
        async with self._redis.pipeline(transaction=False) as pipe:
            for incident in incidents:
                pipe.llen(self._names.of(incident, "inbox"))
                pipe.exists(self._names.of(incident, "posted"))
            told = await pipe.execute()
        return [(bool(waiting), bool(posted)) for waiting, posted in zip(told[::2], told[1::2], strict=True)]


def _parted(member: bytes) -> tuple[str, str]:
    """(incident, tenant)."""
    incident, _, tenant = member.decode().partition(" ")
    return incident, tenant


def _row(tenant: str, rows: list[tuple[str, float, bool]], why: bytes) -> TenantWaits:
    limit, _, until = why.decode("utf-8", "replace").partition(" ")
    known = limit if limit in {*Limit} else Limit.INCIDENTS  # a damaged row says least
    ends = seconds(until, LATEST)
    over = Over(Limit(known), None if ends is None else datetime.fromtimestamp(ends, UTC))
    new = frozenset(incident for incident, _, is_new in rows if is_new)
    return TenantWaits(tenant, tuple(incident for incident, _, _ in rows), datetime.fromtimestamp(rows[0][1], UTC), over, new)
