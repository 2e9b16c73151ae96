"""Adaptive limit on connections or sessions being opened, like TCP congestion control.

sshd drops new connections at random beyond MaxStartups and refuses sessions beyond MaxSessions. A drop halves the
width, once for all
attempts under way together; each success raises it a little. All users of one sshd or bastion share a limit.
"""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

from tools.limiter import Limiter


@dataclass(slots=True)
class Attempt:
    """A connection or session being opened. The opener sets `dropped` if sshd dropped it."""

    epoch: int
    dropped: bool = False


class AdmissionControl:
    """FIFO slots with additive increase and multiplicative decrease, between 1 and `most`.

    `gain` is what one full width of successes adds. A fixed server limit is probed less often than a load-dependent
    one.
    """

    def __init__(self, most: int, gain: float = 1.0) -> None:
        self._most, self._width, self._gain = float(most), float(most), gain
        self._epoch = 0
        self._limiter = Limiter(lambda: self.width)

    @property
    def width(self) -> int:
        """The current number of slots."""
        return max(1, int(self._width))

    @contextlib.asynccontextmanager
    async def slot(self) -> AsyncIterator[Attempt]:
        """Wait for a slot; adapt the width to the attempt's outcome at exit."""
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
            self._width = min(self._most, self._width + self._gain / self._width)
        elif attempt.dropped and attempt.epoch == self._epoch:
            self._width = max(1.0, self._width / 2)
            self._epoch += 1
        self._limiter.release()
