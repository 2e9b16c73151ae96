"""Incidents that wait because their tenant is over its quota: since when, why, and which of them an operator let in."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from redis.asyncio import Redis

from bot.policy.quotas import ExceededLimit, QuotaLimit, WaitingTenant
from bot.store.keys import RedisKeys
from bot.tasks import to_coroutine
from kb.numbers import parse_seconds
from tools.clock import Clock

MAX_TIMESTAMP_SECONDS = 253_000_000_000.0  # since 1970; about the last moment that a datetime can hold


@dataclass(frozen=True, slots=True)
class _WaitingIncident:
    incident: str
    since: float  # seconds since 1970
    is_new: bool  # none of its messages was answered


class QuotaWaitingList:
    """Lists each waiting incident once, even if several of its items wait."""

    def __init__(self, redis: Redis, clock: Clock, *, keys: RedisKeys | None = None) -> None:
        self._redis = redis
        self._clock = clock
        self._keys = keys or RedisKeys()

    async def add_incident(self, tenant: str, incident: str, limit: ExceededLimit) -> None:
        """Add an incident. An incident that waits already keeps its place."""
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
        """Let a waiting incident pass its tenant's limits. Return False if it does not wait."""
        if await self._redis.zscore(self._keys.waits, f"{incident} {tenant}") is None:
            return False
        await to_coroutine(self._redis.sadd(self._keys.waits_let_in, incident))
        return True

    async def is_let_in(self, incident: str) -> bool:
        return bool(await to_coroutine(self._redis.sismember(self._keys.waits_let_in, incident)))

    async def prune_waiting_tenants(self) -> list[WaitingTenant]:
        """Return the waiting tenants, longest wait first, then by name. Remove incidents with an empty inbox."""
        scored_members: Any = await self._redis.zrange(self._keys.waits, 0, -1, withscores=True)
        entries = [(*_parse_member(member), float(at)) for member, at in scored_members]
        states = await self._get_incident_states([incident for incident, _, _ in entries])
        by_tenant: dict[str, list[_WaitingIncident]] = {}
        for (incident, tenant, at), (has_items, was_answered) in zip(entries, states, strict=True):
            if has_items:
                by_tenant.setdefault(tenant, []).append(_WaitingIncident(incident, at, is_new=not was_answered))
            else:
                await self.remove_incident(tenant, incident)
        if not by_tenant:
            return []
        reasons = await to_coroutine(self._redis.hgetall(self._keys.waits_why))
        longest_first = sorted(by_tenant, key=lambda tenant: (by_tenant[tenant][0].since, tenant))
        return [_build_waiting_tenant(tenant, by_tenant[tenant], reasons.get(tenant.encode(), b"")) for tenant in longest_first]

    async def _get_incident_states(self, incidents: Sequence[str]) -> list[tuple[bool, bool]]:
        """Return for each incident whether items wait in its inbox, and whether any was answered."""
        async with self._redis.pipeline(transaction=False) as pipe:
            for incident in incidents:
                pipe.llen(self._keys.incident_key(incident, "inbox"))
                pipe.exists(self._keys.incident_key(incident, "posted"))
            replies = await pipe.execute()
        return [(bool(waiting), bool(posted)) for waiting, posted in zip(replies[::2], replies[1::2], strict=True)]


def _parse_member(member: bytes) -> tuple[str, str]:
    incident, _, tenant = member.decode().partition(" ")
    return incident, tenant


def _build_waiting_tenant(tenant: str, waiting: list[_WaitingIncident], reason: bytes) -> WaitingTenant:
    name, _, until = reason.decode("utf-8", "replace").partition(" ")
    limit = name if name in {*QuotaLimit} else QuotaLimit.INCIDENTS  # the reason is damaged
    seconds = parse_seconds(until, MAX_TIMESTAMP_SECONDS)
    exceeded = ExceededLimit(QuotaLimit(limit), None if seconds is None else datetime.fromtimestamp(seconds, UTC))
    incidents = tuple(entry.incident for entry in waiting)
    new_incidents = frozenset(entry.incident for entry in waiting if entry.is_new)
    return WaitingTenant(tenant, incidents, datetime.fromtimestamp(waiting[0].since, UTC), exceeded, new_incidents)
