"""Replay guard: a signed message takes effect once, and may be tried again after a failure."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from enum import StrEnum

from redis.asyncio import Redis

from bot.store.keys import RedisKeys

PROCESSING_TIMEOUT = timedelta(seconds=60)  # after this, a message whose process died may be tried again


class ReplayState(StrEnum):
    """First, in progress, or done."""

    FIRST = "first"
    GOES_ON = "begun"
    BEFORE = "stored"


class ReplayGuard:
    """Signatures seen, remembered for `lasts`."""

    def __init__(self, redis: Redis, lasts: timedelta, keys: RedisKeys | None = None) -> None:
        self._redis = redis
        self._lasts = lasts
        self._keys = keys or RedisKeys()

    @asynccontextmanager
    async def guard_message(self, room: str, sign: str) -> AsyncIterator[ReplayState]:
        """Yield FIRST to exactly one caller. An exception in its block allows the message again."""
        key = self._keys.replay_key(room, sign)
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
