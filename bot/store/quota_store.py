"""What each customer has had of their share, in Redis: the last hour's mentions, and the incidents at which we are.

Reading, deciding and noting are one optimistic transaction: two processes never both give the last place.
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
ACTIVE_LIFECYCLES = frozenset({b"open", b"waiting", b"watching"})
"""States of an incident in which it is ours to go on with; what is handed off or closed is not."""
QuotaDecision = Callable[[QuotaUsage], ExceededLimit | None]


class QuotaStore:
    """All customers on one Redis."""

    def __init__(self, redis: Redis, clock: Clock, *, names: RedisKeys | None = None) -> None:
        self._redis, self._clock, self._names = redis, clock, names or RedisKeys()
        self._in_order = KeyedLocks()

    async def begin_item(self, tenant: str, incident: str, item: str, decide: QuotaDecision) -> ExceededLimit | None:
        """Note that an item begins unless `decide` lets it wait; what was noted before goes on without being asked again."""
        async with self._in_order.acquire(tenant):  # of this process one at a time; of several the transaction decides
            while True:
                async with self._redis.pipeline(transaction=True) as pipe:
                    try:
                        return await self._begin_in_transaction(pipe, tenant, incident, item, decide)
                    except WatchError:
                        continue

    async def release_incident(self, tenant: str, incident: str) -> None:
        """An incident counts no more until an item of theirs begins in it."""
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
        no = decide(used)
        if no is not None:
            return no
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
        """Incidents that have ended, and what is used: what this incident itself takes is no reason against it."""
        names, since = self._names, (self._clock.now() - HOUR).timestamp()
        mentions: Any = await self._redis.zrangebyscore(names.quota_key(tenant, "mentions"), f"({since}", "+inf", withscores=True)
        begun: Any = await to_coroutine(self._redis.smembers(names.quota_key(tenant, "incidents")))
        ended = [one for one in begun if not await self._is_active(one.decode())]
        used = QuotaUsage(
            incidents=len(set(begun) - set(ended) - {incident.encode()}),
            mentions=tuple(datetime.fromtimestamp(at, UTC) for _, at in mentions),
        )
        return ended, used

    async def _is_active(self, incident: str) -> bool:
        return await to_coroutine(self._redis.hget(self._names.incident_key(incident), "lifecycle")) in ACTIVE_LIFECYCLES
