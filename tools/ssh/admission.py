"""How much may be under way at once through one door: learnt, as TCP learns a link's width.

A door is a bastion or an sshd where connections are opened (sshd drops them at random past MaxStartups), and a connection where sessions are
(sshd refuses them past MaxSessions). Every drop halves the number, once for all that were under way together; every success widens it a
little. All who go through a door share what was learnt.
"""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

from tools.limiter import Limiter


@dataclass(slots=True)
class Attempt:
    """One connection or session being opened; `dropped` is set by whoever opens it when sshd dropped it."""

    epoch: int
    dropped: bool = False


class AdmissionControl:
    """Additive increase, multiplicative decrease, between 1 and `most`. First come, first served.

    `gain`: what a whole width of successes adds to it. A bound that never moves is tried less often than one that follows the load.
    """

    def __init__(self, most: int, gain: float = 1.0) -> None:
        self._most, self._width, self._gain = float(most), float(most), gain
        self._epoch = 0
        self._limiter = Limiter(lambda: self.width)

    @property
    def width(self) -> int:
        """How many may be under way now."""
        return max(1, int(self._width))

    @contextlib.asynccontextmanager
    async def slot(self) -> AsyncIterator[Attempt]:
        """Wait for a turn; what happened to the connection is learnt at the end."""
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
