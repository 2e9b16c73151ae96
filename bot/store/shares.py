"""What each customer has had of their share, in Redis: the last hour's mentions and looks, the incidents at which we are, today's dollars.

Reading, deciding and noting are one optimistic transaction: two processes never both give the last place.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.client import Pipeline
from redis.exceptions import WatchError

from bot.policy.shares import DAY, HOUR, Over, ShareUsed
from bot.store.keys import Names
from bot.store.model_costs import RedisBook
from bot.tasks import InOrder, awaited
from graph.model.reasoner import Spent
from graph.state import Origin
from tools.clock import Clock

KEEP_INCIDENTS = 30 * DAY
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

    async def looked(self, tenant: str, item: str, seconds: float) -> None:
        """Seconds of a look that ended now."""
        key, now = self._names.share(tenant, "looks"), self._clock.now()
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.zadd(key, {f"{seconds:.3f} {item} {now.timestamp():.3f}": now.timestamp()})
            pipe.zremrangebyscore(key, "-inf", (now - HOUR).timestamp())
            pipe.expire(key, HOUR)
            await pipe.execute()

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
        if no is not None and no.waits:
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
        return no

    async def _used(self, tenant: str, incident: str) -> tuple[list[bytes], ShareUsed]:
        """Incidents that have ended, and what is used: what this incident itself takes is no reason against it."""
        names, since = self._names, (self._clock.now() - HOUR).timestamp()
        mentions: Any = await self._redis.zrangebyscore(names.share(tenant, "mentions"), f"({since}", "+inf", withscores=True)
        looks: Any = await self._redis.zrangebyscore(names.share(tenant, "looks"), f"({since}", "+inf", withscores=True)
        begun: Any = await awaited(self._redis.smembers(names.share(tenant, "incidents")))
        ended = [one for one in begun if not await self._at_work(one.decode())]
        usd = await self._redis.get(names.share(tenant, f"usd:{_day(self._clock)}"))
        used = ShareUsed(
            incidents=len(set(begun) - set(ended) - {incident.encode()}),
            mentions=tuple(datetime.fromtimestamp(at, UTC) for _, at in mentions),
            looks=tuple((datetime.fromtimestamp(at, UTC), float(row.split(b" ", 1)[0])) for row, at in looks),
            usd=float(usd or 0),
        )
        return ended, used

    async def _at_work(self, incident: str) -> bool:
        return await awaited(self._redis.hget(self._names.of(incident), "lifecycle")) in AT_WORK


class TenantBook(RedisBook):
    """What incidents cost, and beside it what each customer's cost today. `most`: dollars that a customer may cost in a day."""

    def __init__(self, redis: Redis, clock: Clock, most: Callable[[str], float], names: Names | None = None) -> None:
        super().__init__(redis, names)
        self._clock, self._most = clock, most

    async def refuses(self, incident: str, next_usd: float) -> str:
        """Why a customer's next call is not made; empty where it may be, and for incidents of our own."""
        tenant = await self._tenant(incident)
        if not tenant:
            return ""
        most, spent = self._most(tenant), float(await self._redis.get(self._today(tenant)) or 0)
        return f"{tenant} has used its ${most:.2f} of today for the model" if spent + next_usd > most else ""

    async def add(self, incident: str, spent: Spent) -> Spent:
        if spent.usd and (tenant := await self._tenant(incident)):
            async with self._redis.pipeline(transaction=True) as pipe:
                pipe.incrbyfloat(self._today(tenant), spent.usd)
                pipe.expire(self._today(tenant), 2 * DAY)
                await pipe.execute()
        return await super().add(incident, spent)

    def _today(self, tenant: str) -> str:
        return self._names.share(tenant, f"usd:{_day(self._clock)}")

    async def _tenant(self, incident: str) -> str:
        raw = await awaited(self._redis.hget(self._names.of(incident), "origin"))
        return Origin.model_validate_json(raw).tenant if raw else ""


def _day(clock: Clock) -> str:
    return f"{clock.now():%Y-%m-%d}"
