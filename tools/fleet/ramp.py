"""Adaptive host concurrency: few hosts at first, so that the first of a thousand finish within seconds, then more.

Each finished host admits one more. A timer admits more while hosts are slow; if a processor is the limit, running hosts
finish first.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from tools.limiter import Limiter

INITIAL_WIDTH = 32
WIDEN_INTERVAL_SECONDS = 0.25  # waiting time after which one more host is admitted


class Ramp:
    """FIFO slots, from `first` up to `most`; each finished host adds one."""

    def __init__(self, most: int, first: int = INITIAL_WIDTH, every: float = WIDEN_INTERVAL_SECONDS) -> None:
        self._most, self._width, self._every = most, min(first, most), every
        self._limiter = Limiter(lambda: self._width)
        self._timer: asyncio.TimerHandle | None = None

    @property
    def width(self) -> int:
        return self._width

    @contextlib.asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
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
