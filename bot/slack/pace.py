"""A rate kept by waiting: so many a minute, a few at once. Slack's tiers are per method and workspace, so one pace serves all cards."""

import asyncio
import time
from collections.abc import Awaitable, Callable


class Pace:
    """`await pace.turn()` returns when the next call is allowed."""

    def __init__(
        self,
        per_minute: float,
        burst: int,
        *,
        seconds: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._each = 60 / per_minute
        self._burst = burst
        self._seconds = seconds
        self._sleep = sleep
        self._free_at = seconds() - burst * self._each

    async def turn(self) -> None:
        """Wait for a place; places that nobody took are kept up to `burst`."""
        now = self._seconds()
        self._free_at = max(self._free_at, now - self._burst * self._each) + self._each
        if self._free_at > now:
            await self._sleep(self._free_at - now)
