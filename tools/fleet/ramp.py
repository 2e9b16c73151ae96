"""How many hosts are asked at once: few at first, so that the first of a thousand are whole in seconds, then as many as end in the time.

Hosts that are slow to answer leave us idle, and more are asked beside them; where our own processor or theirs is the limit, hosts that
are under way end before more are begun.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from tools.limiter import Limiter

INITIAL_WIDTH = 32
WIDEN_INTERVAL_SECONDS = 0.25
"""Seconds of waiting after which one more is let in beside those under way."""


class Ramp:
    """First come, first served, between `first` and `most` at once: each that ends makes room for one more than before."""

    def __init__(self, most: int, first: int = INITIAL_WIDTH, every: float = WIDEN_INTERVAL_SECONDS) -> None:
        self._most, self._width, self._every = most, min(first, most), every
        self._limiter = Limiter(lambda: self._width)
        self._timer: asyncio.TimerHandle | None = None

    @property
    def width(self) -> int:
        """How many may be under way now."""
        return self._width

    @contextlib.asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Wait for a turn, and have it."""
        if self._limiter.is_full:
            self._schedule_widening()
        await self._limiter.acquire()
        try:
            yield
        finally:
            self._limiter.release()
            self._widen()

    def _widen(self) -> None:
        self._width = min(self._most, self._width + 1)
        self._limiter.wake_waiters()

    def _schedule_widening(self) -> None:
        if self._timer is None and self._width < self._most:
            self._timer = asyncio.get_running_loop().call_later(self._every, self._widen_if_waiting)

    def _widen_if_waiting(self) -> None:
        self._timer = None
        self._widen()
        if self._limiter.has_waiters:
            self._schedule_widening()
