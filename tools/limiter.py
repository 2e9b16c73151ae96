"""A line of those who wait until there is room: first come, first served. How wide the room is, is its owner's to say."""

import asyncio
from collections import deque
from collections.abc import Callable


class Limiter:
    """`width()` may be busy at once. Whoever entered leaves; whoever widens the room wakes those who wait."""

    def __init__(self, width: Callable[[], int]) -> None:
        self._width = width
        self._busy = 0
        self._line: deque[asyncio.Future[None]] = deque()

    @property
    def has_waiters(self) -> bool:
        """Whether somebody waits."""
        return bool(self._line)

    @property
    def is_full(self) -> bool:
        """Whether who comes now has to wait."""
        return self._busy >= self._width() or self.has_waiters

    async def acquire(self) -> None:
        """Wait for a turn."""
        if not self.is_full:
            self._busy += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._line.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.release()  # the turn was given just when nobody wanted it any more
            raise

    def release(self) -> None:
        """A turn is over."""
        self._busy -= 1
        self.wake_waiters()

    def wake_waiters(self) -> None:
        """Give turns to those who wait, as far as there is room."""
        while self._line and self._busy < self._width():
            turn = self._line.popleft()
            if not turn.done():
                self._busy += 1
                turn.set_result(None)
