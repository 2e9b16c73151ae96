"""Quotas in Redis: each tenant's usage, and the incidents of tenants over their quota."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.client import Pipeline
from redis.exceptions import WatchError

from bot.policy.quotas import HOUR, ExceededLimit, QuotaLimit, QuotaUsage, WaitingTenant
from bot.store.keys import RedisKeys
from bot.tasks import KeyedLocks, to_coroutine
from kb.numbers import parse_seconds
from tools.clock import Clock

# Quota usage per tenant: mentions of the last hour, and active incidents.
#
# One optimistic transaction reads, decides and records, so two processes never both grant the last place.

INCIDENT_RETENTION = timedelta(days=30)
# Lifecycles in which RackMedic works on the incident; `handed_off` and `closed` are not
ACTIVE_LIFECYCLES = frozenset({b"open", b"waiting", b"watching"})
QuotaDecision = Callable[[QuotaUsage], ExceededLimit | None]


class QuotaStore:
    """Usage of all tenants, on one Redis."""

    def __init__(self, redis: Redis, clock: Clock, *, names: RedisKeys | None = None) -> None:
        self._redis, self._clock, self._names = redis, clock, names or RedisKeys()
        self._in_order = KeyedLocks()

    async def begin_item(self, tenant: str, incident: str, item: str, decide: QuotaDecision) -> ExceededLimit | None:
        """Record that an item begins, unless `decide` returns a limit. An item recorded before passes."""
        async with self._in_order.acquire(tenant):  # serialises this process; between processes the transaction decides
            while True:
                async with self._redis.pipeline(transaction=True) as pipe:
                    try:
                        return await self._begin_in_transaction(pipe, tenant, incident, item, decide)
                    except WatchError:
                        continue

    async def release_incident(self, tenant: str, incident: str) -> None:
        """Stop counting an incident until its next item begins."""
        await to_coroutine(self._redis.srem(self._names.quota_key(tenant, "incidents"), incident))

    async def _begin_in_transaction(
        self, pipe: Pipeline, tenant: str, incident: str, item: str, decide: QuotaDecision
    ) -> ExceededLimit | None:
        names, now = self._names, self._clock.now()
        mentions, incidents = names.quota_key(tenant, "mentions"), names.quota_key(tenant, "incidents")
        await pipe.watch(mentions, incidents)
        if await pipe.zscore(mentions, item) is not None:
            return None
        ended, used = await self._measure_usage(tenant, incident)
        refusal = decide(used)
        if refusal is not None:
            return refusal
        pipe.multi()  # type: ignore[no-untyped-call]  # redis-py types all of a pipeline but this
        pipe.zadd(mentions, {item: now.timestamp()})
        pipe.zremrangebyscore(mentions, "-inf", (now - HOUR).timestamp())
        pipe.expire(mentions, HOUR)
        if ended:
            pipe.srem(incidents, *ended)
        pipe.sadd(incidents, incident)
        pipe.expire(incidents, INCIDENT_RETENTION)
        await pipe.execute()
        return None

    async def _measure_usage(self, tenant: str, incident: str) -> tuple[list[bytes], QuotaUsage]:
        """Return the ended incidents, and the usage without this incident."""
        names, since = self._names, (self._clock.now() - HOUR).timestamp()
        mentions: Any = await self._redis.zrangebyscore(names.quota_key(tenant, "mentions"), f"({since}", "+inf", withscores=True)
        begun_incidents: Any = await to_coroutine(self._redis.smembers(names.quota_key(tenant, "incidents")))
        ended = [one for one in begun_incidents if not await self._is_active(one.decode())]
        used = QuotaUsage(
            incidents=len(set(begun_incidents) - set(ended) - {incident.encode()}),
            mentions=tuple(datetime.fromtimestamp(at, UTC) for _, at in mentions),
        )
        return ended, used

    async def _is_active(self, incident: str) -> bool:
        return await to_coroutine(self._redis.hget(self._names.incident_key(incident), "lifecycle")) in ACTIVE_LIFECYCLES


# Incidents of tenants over their quota: since when, why, and which an operator let in.

MAX_TIMESTAMP_SECONDS = 253_000_000_000.0  # since 1970; about the last moment that a datetime can hold


class QuotaWaitingList:
    """Each incident is listed once, however many of its items wait."""

    def __init__(self, redis: Redis, clock: Clock, *, names: RedisKeys | None = None) -> None:
        self._redis, self._clock, self._names = redis, clock, names or RedisKeys()

    async def add_incident(self, tenant: str, incident: str, why: ExceededLimit) -> None:
        """Add an incident, or keep its place."""
        until = why.until.timestamp() if why.until else ""
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.zadd(self._names.waits, {f"{incident} {tenant}": self._clock.now().timestamp()}, nx=True)
            pipe.hset(self._names.waits_why, tenant, f"{why.limit} {until}")
            await pipe.execute()

    async def remove_incident(self, tenant: str, incident: str) -> None:
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.zrem(self._names.waits, f"{incident} {tenant}")
            pipe.srem(self._names.waits_let_in, incident)
            await pipe.execute()

    async def let_in_incident(self, tenant: str, incident: str) -> bool:
        """Let a waiting incident pass its tenant's limits; return False where it does not wait."""
        if await self._redis.zscore(self._names.waits, f"{incident} {tenant}") is None:
            return False
        await to_coroutine(self._redis.sadd(self._names.waits_let_in, incident))
        return True

    async def is_let_in(self, incident: str) -> bool:
        return bool(await to_coroutine(self._redis.sismember(self._names.waits_let_in, incident)))

    async def prune_waiting_tenants(self) -> list[WaitingTenant]:
        """Return one row per tenant, longest wait first, ties by name. Remove incidents with an empty inbox."""
        waiting_rows: Any = await self._redis.zrange(self._names.waits, 0, -1, withscores=True)
        rows = [(*_parse_member(member), float(at)) for member, at in waiting_rows]
        rows_by_tenant: dict[str, list[tuple[str, float, bool]]] = {}
        for (incident, tenant, at), (waiting, is_begun) in zip(
            rows, await self._get_incident_states([row[0] for row in rows]), strict=True
        ):
            if waiting:
                rows_by_tenant.setdefault(tenant, []).append((incident, at, not is_begun))
            else:
                await self.remove_incident(tenant, incident)
        reason_by_tenant = await to_coroutine(self._redis.hgetall(self._names.waits_why)) if rows_by_tenant else {}
        longest = sorted(rows_by_tenant.items(), key=lambda row: (row[1][0][1], row[0]))
        return [_build_waiting_tenant(tenant, tenant_rows, reason_by_tenant.get(tenant.encode(), b"")) for tenant, tenant_rows in longest]

    async def _get_incident_states(self, incidents: Sequence[str]) -> list[tuple[bool, bool]]:
        """Return for each incident (items wait, any was answered)."""
        async with self._redis.pipeline(transaction=False) as pipe:
            for incident in incidents:
                pipe.llen(self._names.incident_key(incident, "inbox"))
                pipe.exists(self._names.incident_key(incident, "posted"))
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
