"""Whether another organisation reads a channel, as Slack said it last: one answer for every process, also for one that was just started."""

from typing import TYPE_CHECKING, NamedTuple

from bot.store.keys import RedisKeys

if TYPE_CHECKING:
    from redis.asyncio import Redis

ANSWER_TTL_SECONDS = 60
"""Seconds for which an answer of Slack's serves, counted from when it came."""
EVENT_TTL_SECONDS = 120
"""Seconds for which an event outweighs answers: longer than any process remembers what it was told before; from then on each asks Slack."""
BECAME_SHARED_MARK, SHARED_MARK, NOT_SHARED_MARK = b"turned", b"shared", b"ours"


class ChannelSharing(NamedTuple):
    """What is known of a channel. `age`: seconds since Slack said it."""

    shared: bool
    age: float


class ChannelSharingCache:
    """Written by whoever hears of it, read by all."""

    def __init__(self, redis: "Redis") -> None:
        self._redis, self._names = redis, RedisKeys()

    async def mark_shared(self, channel: str) -> None:
        """An event says that it is shared from now on: no answer that is under way counts against it."""
        await self._redis.set(self._names.channel_sharing_key(channel), BECAME_SHARED_MARK, ex=EVENT_TTL_SECONDS)

    async def forget_channel(self, channel: str) -> None:
        """It is shared no more, with one organisation at least: whoever wants to know asks Slack."""
        await self._redis.delete(self._names.channel_sharing_key(channel))

    async def save_answer(self, channel: str, *, shared: bool) -> None:
        """Slack answered. What an event said meanwhile stands."""
        await self._redis.set(
            self._names.channel_sharing_key(channel), SHARED_MARK if shared else NOT_SHARED_MARK, ex=ANSWER_TTL_SECONDS, nx=True
        )

    async def get_sharing(self, channel: str) -> ChannelSharing | None:
        """What somebody heard lately; None where it has to be asked."""
        key = self._names.channel_sharing_key(channel)
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.get(key)
            pipe.pttl(key)
            word, left = await pipe.execute()
        if word not in (BECAME_SHARED_MARK, SHARED_MARK, NOT_SHARED_MARK):
            return None
        return ChannelSharing(word != NOT_SHARED_MARK, 0.0 if word == BECAME_SHARED_MARK else max(0.0, ANSWER_TTL_SECONDS - left / 1000))
