"""Incidents of tenants over their quota: since when, why, and which an operator let in."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from redis.asyncio import Redis

from bot.policy.quotas import ExceededLimit, QuotaLimit, WaitingTenant
from bot.store.keys import RedisKeys
from bot.tasks import to_coroutine
from kb.numbers import parse_seconds
from tools.clock import Clock

MAX_TIMESTAMP_SECONDS = 253_000_000_000.0  # since 1970; about the last moment that a datetime can hold


class QuotaWaitingList:
    """Each incident is listed once, however many of its items wait."""

    def __init__(self, redis: Redis, clock: Clock, *, keys: RedisKeys | None = None) -> None:
        self._redis = redis
        self._clock = clock
        self._keys = keys or RedisKeys()

    async def add_incident(self, tenant: str, incident: str, limit: ExceededLimit) -> None:
        """Add an incident, or keep its place."""
        until = limit.until.timestamp() if limit.until else ""
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.zadd(self._keys.waits, {f"{incident} {tenant}": self._clock.now().timestamp()}, nx=True)
            pipe.hset(self._keys.waits_why, tenant, f"{limit.limit} {until}")
            await pipe.execute()

    async def remove_incident(self, tenant: str, incident: str) -> None:
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.zrem(self._keys.waits, f"{incident} {tenant}")
            pipe.srem(self._keys.waits_let_in, incident)
            await pipe.execute()

    async def let_in_incident(self, tenant: str, incident: str) -> bool:
        """Let a waiting incident pass its tenant's limits; return False where it does not wait."""
        if await self._redis.zscore(self._keys.waits, f"{incident} {tenant}") is None:
            return False
        await to_coroutine(self._redis.sadd(self._keys.waits_let_in, incident))
        return True

    async def is_let_in(self, incident: str) -> bool:
        return bool(await to_coroutine(self._redis.sismember(self._keys.waits_let_in, incident)))

    async def prune_waiting_tenants(self) -> list[WaitingTenant]:
        """Return one row per tenant, longest wait first, ties by name. Remove incidents with an empty inbox."""
        waiting_rows: Any = await self._redis.zrange(self._keys.waits, 0, -1, withscores=True)
        rows = [(*_parse_member(member), float(at)) for member, at in waiting_rows]
        rows_by_tenant: dict[str, list[tuple[str, float, bool]]] = {}
        for (incident, tenant, at), (waiting, is_begun) in zip(
            rows, await self._get_incident_states([row[0] for row in rows]), strict=True
        ):
            if waiting:
                rows_by_tenant.setdefault(tenant, []).append((incident, at, not is_begun))
            else:
                await self.remove_incident(tenant, incident)
        reason_by_tenant = await to_coroutine(self._redis.hgetall(self._keys.waits_why)) if rows_by_tenant else {}
        longest = sorted(rows_by_tenant.items(), key=lambda row: (row[1][0][1], row[0]))
        return [_build_waiting_tenant(tenant, tenant_rows, reason_by_tenant.get(tenant.encode(), b"")) for tenant, tenant_rows in longest]

    async def _get_incident_states(self, incidents: Sequence[str]) -> list[tuple[bool, bool]]:
        """Return for each incident (items wait, any was answered)."""
        async with self._redis.pipeline(transaction=False) as pipe:
            for incident in incidents:
                pipe.llen(self._keys.incident_key(incident, "inbox"))
                pipe.exists(self._keys.incident_key(incident, "posted"))
            replies = await pipe.execute()
        return [(bool(waiting), bool(is_posted)) for waiting, is_posted in zip(replies[::2], replies[1::2], strict=True)]


def _parse_member(member: bytes) -> tuple[str, str]:
    incident, _, tenant = member.decode().partition(" ")
    return incident, tenant


def _build_waiting_tenant(tenant: str, rows: list[tuple[str, float, bool]], why: bytes) -> WaitingTenant:
    limit, _, until = why.decode("utf-8", "replace").partition(" ")
    quota_limit = limit if limit in {*QuotaLimit} else QuotaLimit.INCIDENTS  # default of a damaged row
    ends = parse_seconds(until, MAX_TIMESTAMP_SECONDS)
    over = ExceededLimit(QuotaLimit(quota_limit), None if ends is None else datetime.fromtimestamp(ends, UTC))
    new = frozenset(incident for incident, _, is_new in rows if is_new)
    return WaitingTenant(tenant, tuple(incident for incident, _, _ in rows), datetime.fromtimestamp(rows[0][1], UTC), over, new)
