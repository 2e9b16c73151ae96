"""Whether another organisation reads a channel, as Slack said it last: one answer for every process, also for one that was just started."""

from typing import TYPE_CHECKING, NamedTuple

from bot.store.keys import Names

if TYPE_CHECKING:
    from redis.asyncio import Redis

ANSWERED = 60
"""Seconds for which an answer of Slack's serves, counted from when it came."""
LASTS = 120
"""Seconds for which an event outweighs answers: longer than any process remembers what it was told before; from then on each asks Slack."""
TURNED, SHARED, OURS = b"turned", b"shared", b"ours"


class SharedAnswer(NamedTuple):
    """What is known of a channel. `age`: seconds since Slack said it."""

    shared: bool
    age: float


class SharedMarks:
    """Written by whoever hears of it, read by all."""

    def __init__(self, redis: "Redis") -> None:
        self._redis, self._names = redis, Names()

    async def set(self, channel: str) -> None:
        """An event says that it is shared from now on: no answer that is under way counts against it."""
        await self._redis.set(self._names.shared(channel), TURNED, ex=LASTS)

    async def drop(self, channel: str) -> None:
        """It is shared no more, with one organisation at least: whoever wants to know asks Slack."""
        await self._redis.delete(self._names.shared(channel))

    async def told(self, channel: str, *, shared: bool) -> None:
        """Slack answered. What an event said meanwhile stands."""
        await self._redis.set(self._names.shared(channel), SHARED if shared else OURS, ex=ANSWERED, nx=True)

    async def known(self, channel: str) -> SharedAnswer | None:
        """What somebody heard lately; None where it has to be asked."""
        key = self._names.shared(channel)
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.get(key)
            pipe.pttl(key)
            word, left = await pipe.execute()
        if word not in (TURNED, SHARED, OURS):
            return None
        return SharedAnswer(word != OURS, 0.0 if word == TURNED else max(0.0, ANSWERED - left / 1000))
