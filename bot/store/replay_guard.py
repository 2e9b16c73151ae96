"""Replay guard: a signed message takes effect once, and may be tried again after a failure."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from enum import StrEnum

from redis.asyncio import Redis

from bot.store.keys import RedisKeys

PROCESSING_TIMEOUT = timedelta(seconds=60)  # after this, a message whose process died may be tried again


class ReplayState(StrEnum):
    FIRST = "first"
    IN_PROGRESS = "begun"
    DONE = "stored"


class ReplayGuard:
    """Remembers the signatures of messages for `ttl`."""

    def __init__(self, redis: Redis, ttl: timedelta, keys: RedisKeys | None = None) -> None:
        self._redis = redis
        self._ttl = ttl
        self._keys = keys or RedisKeys()

    @asynccontextmanager
    async def guard_message(self, sender_kind: str, signature: str) -> AsyncIterator[ReplayState]:
        """Yield FIRST to exactly one caller. An exception in its block allows the message again."""
        key = self._keys.replay_key(sender_kind, signature)
        if not await self._redis.set(key, ReplayState.IN_PROGRESS, nx=True, ex=PROCESSING_TIMEOUT):
            state = await self._redis.get(key)
            yield ReplayState.DONE if state == ReplayState.DONE.encode() else ReplayState.IN_PROGRESS
            return
        try:
            yield ReplayState.FIRST
        except BaseException:
            await self._redis.delete(key)
            raise
        await self._redis.set(key, ReplayState.DONE, ex=self._ttl)
