"""Whether another organisation can read a channel, as all processes know it."""

from typing import NamedTuple

from redis.asyncio import Redis

from bot.store.keys import RedisKeys

ANSWER_TTL_SECONDS = 60  # how long an answer of Slack's API is valid
# How long an event overrides answers of Slack's API: longer than any process caches an older answer. After that, each
# process asks Slack.
EVENT_TTL_SECONDS = 120
BECAME_SHARED_MARK = b"turned"
SHARED_MARK = b"shared"
NOT_SHARED_MARK = b"ours"


class ChannelSharing(NamedTuple):
    """`age`: seconds since Slack said it."""

    shared: bool
    age: float


class ChannelSharingCache:
    """Written on Slack's events and answers, read by every process."""

    def __init__(self, redis: "Redis") -> None:
        self._redis = redis
        self._keys = RedisKeys()

    async def mark_shared(self, channel: str) -> None:
        """Record a channel_shared event. It overrides API answers still in flight."""
        await self._redis.set(self._keys.channel_sharing_key(channel), BECAME_SHARED_MARK, ex=EVENT_TTL_SECONDS)

    async def forget_channel(self, channel: str) -> None:
        """Forget the channel after a channel_unshared event: other organisations may remain, so the next reader asks
        Slack.
        """
        await self._redis.delete(self._keys.channel_sharing_key(channel))

    async def save_answer(self, channel: str, *, shared: bool) -> None:
        """Save an answer of Slack's API, unless a value is already stored."""
        await self._redis.set(
            self._keys.channel_sharing_key(channel), SHARED_MARK if shared else NOT_SHARED_MARK, ex=ANSWER_TTL_SECONDS, nx=True
        )

    async def get_sharing(self, channel: str) -> ChannelSharing | None:
        """Return the cached value, or None where Slack must be asked."""
        key = self._keys.channel_sharing_key(channel)
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.get(key)
            pipe.pttl(key)
            word, ttl = await pipe.execute()
        if word not in (BECAME_SHARED_MARK, SHARED_MARK, NOT_SHARED_MARK):
            return None
        return ChannelSharing(word != NOT_SHARED_MARK, 0.0 if word == BECAME_SHARED_MARK else max(0.0, ANSWER_TTL_SECONDS - ttl / 1000))
