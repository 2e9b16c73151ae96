"""Adaptive limit on connections or sessions being opened, like TCP congestion control.

sshd drops connections at random beyond MaxStartups and refuses sessions beyond MaxSessions. A drop halves the width,
once for all concurrent attempts; a success raises it a little. All users of an sshd or bastion share it.
"""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

from tools.limiter import Limiter


@dataclass(slots=True)
class Attempt:
    """One opening; its opener sets `dropped` if sshd dropped it."""

    epoch: int
    dropped: bool = False


class AdmissionControl:
    """FIFO slots between 1 and `most`: additive increase, multiplicative decrease.

    `gain` is added per full width of successes: a fixed server limit is probed less often than a load-dependent one.
    """

    def __init__(self, most: int, gain: float = 1.0) -> None:
        self._most, self._width, self._gain = float(most), float(most), gain
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
            self._width = min(self._most, self._width + self._gain / self._width)
        elif attempt.dropped and attempt.epoch == self._epoch:
            self._width = max(1.0, self._width / 2)
            self._epoch += 1
        self._limiter.release()
