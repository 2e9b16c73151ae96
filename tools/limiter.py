"""Limits on concurrency: first come, first served; adaptive for the hosts of a request, and for SSH connections."""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

INITIAL_WIDTH = 32  # hosts
WIDEN_INTERVAL_SECONDS = 0.25  # waiting time after which one more host is admitted


class Limiter:
    """Runs `width()` tasks at once. Pair `acquire` with `release`; call `wake_waiters` after raising the limit."""

    def __init__(self, width: Callable[[], int]) -> None:
        self._width = width
        self._busy = 0
        self._queue: deque[asyncio.Future[None]] = deque()

    @property
    def has_waiters(self) -> bool:
        return bool(self._queue)

    @property
    def is_full(self) -> bool:
        """Whether a new task has to wait."""
        return self._busy >= self._width() or self.has_waiters

    async def acquire(self) -> None:
        if not self.is_full:
            self._busy += 1
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self.release()  # the slot was given just as the task was cancelled
            raise

    def release(self) -> None:
        """Free a slot and wake waiting tasks."""
        self._busy -= 1
        self.wake_waiters()

    def wake_waiters(self) -> None:
        """Give free slots to waiting tasks."""
        while self._queue and self._busy < self._width():
            waiter = self._queue.popleft()
            if not waiter.done():
                self._busy += 1
                waiter.set_result(None)


class Ramp:
    """Adaptive host concurrency: FIFO slots, from `first` up to `max_width`.

    Few hosts at first, so that the first of a thousand finish within seconds. Each finished host admits one more. A
    timer admits more while hosts are slow; if a processor is the limit, running hosts finish first.
    """

    def __init__(self, max_width: int, first: int = INITIAL_WIDTH, every: float = WIDEN_INTERVAL_SECONDS) -> None:
        self._max_width = max_width
        self._width = min(first, max_width)
        self._every = every
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
        self._width = min(self._max_width, self._width + 1)
        self._limiter.wake_waiters()

    def _schedule_widening(self) -> None:
        if self._timer is None and self._width < self._max_width:
            self._timer = asyncio.get_running_loop().call_later(self._every, self._widen_if_waiting)

    def _widen_if_waiting(self) -> None:
        self._timer = None
        self._widen()
        if self._limiter.has_waiters:
            self._schedule_widening()


@dataclass(slots=True)
class Attempt:
    """One connection or session being opened. The caller sets `dropped` if sshd dropped it."""

    epoch: int
    dropped: bool = False


class AdmissionControl:
    """Adaptive limit on connections or sessions being opened, like TCP congestion control: slots between 1 and `max_width`.

    sshd drops connections at random beyond MaxStartups and refuses sessions beyond MaxSessions. A drop halves the width,
    once for all concurrent attempts; a success raises it a little. All users of an sshd or bastion share it.

    `gain` is added per full width of successes: a fixed server limit is probed less often than a load-dependent one.
    """

    def __init__(self, max_width: int, gain: float = 1.0) -> None:
        self._max_width = float(max_width)
        self._width = float(max_width)
        self._gain = gain
        self._epoch = 0
        self._limiter = Limiter(lambda: self.width)

    @property
    def width(self) -> int:
        return max(1, int(self._width))

    @contextlib.asynccontextmanager
    async def slot(self) -> AsyncIterator[Attempt]:
        """Hold a slot; adapt the width to the outcome at exit."""
        await self._limiter.acquire()
        attempt = Attempt(self._epoch)
        try:
            yield attempt
        except BaseException:
            self._finish_attempt(attempt, opened=False)
            raise
        self._finish_attempt(attempt, opened=not attempt.dropped)

    def _finish_attempt(self, attempt: Attempt, *, opened: bool) -> None:
        if opened:
            self._width = min(self._max_width, self._width + self._gain / self._width)
        elif attempt.dropped and attempt.epoch == self._epoch:
            self._width = max(1.0, self._width / 2)
            self._epoch += 1
        self._limiter.release()
