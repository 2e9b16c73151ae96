"""What each customer has had of their share, in Redis: the last hour's mentions, and the incidents at which we are.

Reading, deciding and noting are one optimistic transaction: two processes never both give the last place.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.client import Pipeline
from redis.exceptions import WatchError

from bot.policy.shares import HOUR, Over, ShareUsed
from bot.store.keys import Names
from bot.tasks import InOrder, awaited
from tools.clock import Clock

KEEP_INCIDENTS = timedelta(days=30)
AT_WORK = frozenset({b"open", b"waiting", b"watching"})
"""States of an incident in which it is ours to go on with; what is handed off or closed is not."""
Decide = Callable[[ShareUsed], Over | None]


class RedisShares:
    """All customers on one Redis."""

    def __init__(self, redis: Redis, clock: Clock, *, names: Names | None = None) -> None:
        self._redis, self._clock, self._names = redis, clock, names or Names()
        self._in_order = InOrder()

    async def begin(self, tenant: str, incident: str, item: str, decide: Decide) -> Over | None:
        """Note that an item begins unless `decide` lets it wait; what was noted before goes on without being asked again."""
        async with self._in_order.of(tenant):  # of this process one at a time; of several the transaction decides
            while True:
                async with self._redis.pipeline(transaction=True) as pipe:
                    try:
                        return await self._begun(pipe, tenant, incident, item, decide)
                    except WatchError:
                        continue

    async def rests(self, tenant: str, incident: str) -> None:
        """An incident counts no more until an item of theirs begins in it."""
        await awaited(self._redis.srem(self._names.share(tenant, "incidents"), incident))

    async def _begun(self, pipe: Pipeline, tenant: str, incident: str, item: str, decide: Decide) -> Over | None:
        names, now = self._names, self._clock.now()
        mentions, incidents = names.share(tenant, "mentions"), names.share(tenant, "incidents")
        await pipe.watch(mentions, incidents)
        if await pipe.zscore(mentions, item) is not None:
            return None
        ended, used = await self._used(tenant, incident)
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
        pipe.expire(incidents, KEEP_INCIDENTS)
        await pipe.execute()
        return None

    async def _used(self, tenant: str, incident: str) -> tuple[list[bytes], ShareUsed]:
        """Incidents that have ended, and what is used: what this incident itself takes is no reason against it."""
        names, since = self._names, (self._clock.now() - HOUR).timestamp()
        mentions: Any = await self._redis.zrangebyscore(names.share(tenant, "mentions"), f"({since}", "+inf", withscores=True)
        begun: Any = await awaited(self._redis.smembers(names.share(tenant, "incidents")))
        ended = [one for one in begun if not await self._at_work(one.decode())]
        used = ShareUsed(
            incidents=len(set(begun) - set(ended) - {incident.encode()}),
            mentions=tuple(datetime.fromtimestamp(at, UTC) for _, at in mentions),
        )
        return ended, used

    async def _at_work(self, incident: str) -> bool:
        return await awaited(self._redis.hget(self._names.of(incident), "lifecycle")) in AT_WORK
