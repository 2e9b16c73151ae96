"""Concurrency limiter: first come, first served."""

import asyncio
from collections import deque
from collections.abc import Callable


class Limiter:
    """Runs `width()` tasks at once. Pair `acquire` with `release`; call `wake_waiters` after raising the limit."""

    def __init__(self, width: Callable[[], int]) -> None:
        self._width = width
        self._busy = 0
        self._line: deque[asyncio.Future[None]] = deque()

    @property
    def has_waiters(self) -> bool:
        return bool(self._line)

    @property
    def is_full(self) -> bool:
        """Whether a new task has to wait."""
        return self._busy >= self._width() or self.has_waiters

    async def acquire(self) -> None:
        if not self.is_full:
            self._busy += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._line.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.release()  # the slot was given just as the task was cancelled
            raise

    def release(self) -> None:
        """Free a slot and wake waiting tasks."""
        self._busy -= 1
        self.wake_waiters()

    def wake_waiters(self) -> None:
        """Give free slots to waiting tasks."""
        while self._line and self._busy < self._width():
            turn = self._line.popleft()
            if not turn.done():
                self._busy += 1
                turn.set_result(None)
