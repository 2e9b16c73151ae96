"""What was sent to us is heard once: a message with the same sign has no second effect, while one that was begun and not stored may come again."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from enum import StrEnum

from redis.asyncio import Redis

from bot.store.keys import RedisKeys

PROCESSING_TIMEOUT = timedelta(seconds=60)
"""A process that dies over a message leaves it to the next try."""


class ReplayState(StrEnum):
    """Whether a message may have its effect."""

    FIRST = "first"
    GOES_ON = "begun"
    BEFORE = "stored"


class ReplayGuard:
    """Signs of what was heard, for as long as it could be sent again (`lasts`)."""

    def __init__(self, redis: Redis, lasts: timedelta, names: RedisKeys | None = None) -> None:
        self._redis = redis
        self._lasts = lasts
        self._names = names or RedisKeys()

    @asynccontextmanager
    async def guard_message(self, room: str, sign: str) -> AsyncIterator[ReplayState]:
        """Left without an exception it was heard. FIRST is told to one of all who ask; whoever fails gives it back."""
        key = self._names.replay_key(room, sign)
        if not await self._redis.set(key, ReplayState.GOES_ON, nx=True, ex=PROCESSING_TIMEOUT):
            before = await self._redis.get(key)
            yield ReplayState.BEFORE if before == ReplayState.BEFORE.encode() else ReplayState.GOES_ON
            return
        try:
            yield ReplayState.FIRST
        except BaseException:
            await self._redis.delete(key)
            raise
        await self._redis.set(key, ReplayState.BEFORE, ex=self._lasts)
