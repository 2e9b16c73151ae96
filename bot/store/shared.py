"""Channels of which Slack said moments ago that another organisation reads them, for every process that still remembers them otherwise."""

from typing import TYPE_CHECKING

from bot.store.keys import Names

if TYPE_CHECKING:
    from redis.asyncio import Redis

LASTS = 120
"""Seconds: longer than any process remembers what it was told before (`bot.slack.people`); from then on each asks Slack."""


class SharedMarks:
    """Written by whoever hears of it, read by all."""

    def __init__(self, redis: "Redis") -> None:
        self._redis, self._names = redis, Names()

    async def set(self, channel: str) -> None:
        """It is shared from now on."""
        await self._redis.set(self._names.shared(channel), 1, ex=LASTS)

    async def drop(self, channel: str) -> None:
        """It is shared no more."""
        await self._redis.delete(self._names.shared(channel))

    async def has(self, channel: str) -> bool:
        """Whether it turned shared in the last moments."""
        return bool(await self._redis.exists(self._names.shared(channel)))
