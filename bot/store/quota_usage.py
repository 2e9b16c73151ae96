"""Quota usage per tenant: mentions of the last hour, and active incidents.

One optimistic transaction reads, decides and records, so two processes never both grant the last place.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.client import Pipeline
from redis.exceptions import WatchError

from bot.policy.quotas import HOUR, ExceededLimit, QuotaUsage
from bot.store.keys import RedisKeys
from bot.tasks import KeyedLocks, to_coroutine
from tools.clock import Clock

INCIDENT_RETENTION = timedelta(days=30)
# Lifecycles in which RackMedic works on the incident; `handed_off` and `closed` are not
ACTIVE_LIFECYCLES = frozenset({b"open", b"waiting", b"watching"})
QuotaDecision = Callable[[QuotaUsage], ExceededLimit | None]


class QuotaStore:
    """Usage of all tenants, on one Redis."""

    def __init__(self, redis: Redis, clock: Clock, *, keys: RedisKeys | None = None) -> None:
        self._redis = redis
        self._clock = clock
        self._keys = keys or RedisKeys()
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
        await to_coroutine(self._redis.srem(self._keys.quota_key(tenant, "incidents"), incident))

    async def _begin_in_transaction(
        self, pipe: Pipeline, tenant: str, incident: str, item: str, decide: QuotaDecision
    ) -> ExceededLimit | None:
        names, now = self._keys, self._clock.now()
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
        names, since = self._keys, (self._clock.now() - HOUR).timestamp()
        mentions: Any = await self._redis.zrangebyscore(names.quota_key(tenant, "mentions"), f"({since}", "+inf", withscores=True)
        begun_incidents: Any = await to_coroutine(self._redis.smembers(names.quota_key(tenant, "incidents")))
        ended = [begun_incident for begun_incident in begun_incidents if not await self._is_active(begun_incident.decode())]
        used = QuotaUsage(
            incidents=len(set(begun_incidents) - set(ended) - {incident.encode()}),
            mentions=tuple(datetime.fromtimestamp(at, UTC) for _, at in mentions),
        )
        return ended, used

    async def _is_active(self, incident: str) -> bool:
        return await to_coroutine(self._redis.hget(self._keys.incident_key(incident), "lifecycle")) in ACTIVE_LIFECYCLES
