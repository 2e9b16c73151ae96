"""Questions of the pane that are being answered, kept in Redis before anything is begun, so that every process knows what a dead one left.

Rule it keeps: a question is claimed once, however often and to how many processes Slack delivers it.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any, Final

import structlog
from redis.asyncio import Redis
from redis.exceptions import LockError, RedisError

from bot.store.keys import Names
from bot.tasks import awaited, end
from tools.clock import Clock
from tools.ledger.reach import text_of

log = structlog.get_logger()
LIFE: Final = timedelta(hours=1)
"""How long a question is known again, and the longest that anything of it is kept. Slack delivers for a few minutes."""
BEAT: Final = 8.0
"""Seconds between two signs of life."""
ENDING: Final = timedelta(seconds=60)
"""How long one process may take to end what another left."""

CLAIM = """
if not redis.call('SET', KEYS[1], '1', 'NX', 'EX', ARGV[3]) then return 0 end
redis.call('ZADD', KEYS[2], ARGV[2], ARGV[1])
redis.call('EXPIRE', KEYS[2], ARGV[3])
return 1
"""
"""KEYS whether it was heard, the open questions. ARGV the question, now, seconds to live."""


@dataclass(frozen=True, slots=True)
class DirectQuestion:
    """A question: by ids of Slack's alone. `thread_ts` is the thread that its answer belongs to."""

    team: str
    channel: str
    thread_ts: str
    ts: str
    user: str

    @property
    def key(self) -> str:
        return f"{self.team}.{self.channel}.{self.ts}"

    @property
    def threaded(self) -> bool:
        """It was asked in a thread that somebody began before."""
        return self.thread_ts != self.ts

    @property
    def mark(self) -> dict[str, Any]:
        """The metadata of its answer, once that is whole."""
        return {"event_type": "rackmedic_answer", "event_payload": {"asked": self.key}}


class Unanswered:
    """The open questions, each with its last sign of life, and which message of Slack's is the stream of which answer."""

    def __init__(
        self, redis: Redis, clock: Clock, *, names: Names | None = None, pause: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> None:
        self._redis, self._clock, self._names, self._pause = redis, clock, names or Names(), pause
        self._claim = redis.register_script(CLAIM)

    async def claim(self, asked: DirectQuestion) -> bool:
        """Whether it is ours to answer; from here on somebody will."""
        keys = [self._names.pane_heard(asked.key), self._names.pane_open]
        return bool(await self._claim(keys=keys, args=[_member(asked), self._now(), int(LIFE.total_seconds())]))

    async def give_back(self, asked: DirectQuestion) -> None:
        """Nothing was said: when Slack delivers it again it is new."""
        await self._redis.delete(self._names.pane_heard(asked.key))
        await self.done(asked)

    async def done(self, asked: DirectQuestion) -> None:
        """It is answered."""
        await self._redis.zrem(self._names.pane_open, _member(asked))
        await awaited(self._redis.hdel(self._names.pane_streams, asked.key))

    async def is_open(self, asked: DirectQuestion) -> bool:
        return await self._redis.zscore(self._names.pane_open, _member(asked)) is not None

    async def streams(self, asked: DirectQuestion, ts: str) -> None:
        """This message is its answer, and grows."""
        await awaited(self._redis.hset(self._names.pane_streams, asked.key, ts))
        await self._redis.expire(self._names.pane_streams, LIFE)

    async def stream_of(self, asked: DirectQuestion) -> str:
        return text_of(await awaited(self._redis.hget(self._names.pane_streams, asked.key)))

    async def streams_now(self) -> Collection[str]:
        """Every message that is known to grow."""
        return {text_of(ts) for ts in await awaited(self._redis.hvals(self._names.pane_streams))}

    async def quiet(self, since: timedelta) -> list[DirectQuestion]:
        """Those of which nothing was heard for so long: whoever was answering is dead."""
        before = (self._clock.now() - since).timestamp()
        rows = await self._redis.zrangebyscore(self._names.pane_open, "-inf", before)
        return [DirectQuestion(**json.loads(text_of(row))) for row in rows]

    def age(self, asked: DirectQuestion) -> timedelta:
        """How long ago it was asked."""
        return timedelta(seconds=self._clock.now().timestamp() - float(asked.ts))

    @asynccontextmanager
    async def kept(self, asked: DirectQuestion) -> AsyncIterator[None]:
        """Signs of life until the block is left."""
        beating = asyncio.create_task(self._beat(asked))
        try:
            yield
        finally:
            await end(beating)

    @asynccontextmanager
    async def alone(self, asked: DirectQuestion) -> AsyncIterator[bool]:
        """True for the one that ends it; whoever dies over that leaves it to another."""
        lock = self._redis.lock(self._names.pane_ending(asked.key), timeout=ENDING.total_seconds())
        held = await lock.acquire(blocking=False)
        try:
            yield held
        finally:
            if held:
                with suppress(LockError):  # it took longer than it may: by now the lock may be another's
                    await lock.release()

    async def _beat(self, asked: DirectQuestion) -> None:
        while True:
            try:
                await self._redis.zadd(self._names.pane_open, {_member(asked): self._now()}, xx=True)
            except RedisError as away:
                log.warning("unanswered.no_sign_of_life", asked=asked.key, error=str(away))
            await self._pause(BEAT)

    def _now(self) -> float:
        return self._clock.now().timestamp()


def _member(asked: DirectQuestion) -> str:
    return json.dumps(asdict(asked), sort_keys=True)
