"""An event loop whose time leaps: while anything can be done it stands still, and when nothing can it is at once the next moment that
somebody waits for. Two hours of waiting cost nothing, and the whole closed loop, bot, Slack, cluster and people, lives by this one clock.

What runs outside of the loop (a process of the node kit, a thread) is waited for in real time, but not for ever: it may itself wait for ours.
"""

import asyncio
import contextlib
import selectors
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from datetime import datetime, timedelta
from typing import TypeVar, TypeVarTuple

T = TypeVar("T")
Args = TypeVarTuple("Args")
PATIENCE, GLANCE = 0.25, 0.02
"""Real seconds of silence after which what runs outside is taken to wait for our time; and how often it is looked for."""


class Leaping(asyncio.SelectorEventLoop):
    """`asyncio.Runner(loop_factory=Leaping)`. `time()` begins at 0."""

    def __init__(self) -> None:
        self._now, self._outside = 0.0, 0
        self.leaps = 0
        super().__init__(_Leaper(self))

    def time(self) -> float:
        """Seconds since it was made, by its own time."""
        return self._now

    @contextlib.contextmanager
    def outside(self) -> Iterator[None]:
        """Something goes on that the loop cannot see: time waits for it."""
        self._outside += 1
        try:
            yield
        finally:
            self._outside -= 1

    def run_in_executor(self, executor: Executor | None, func: Callable[[*Args], T], *args: *Args) -> "asyncio.Future[T]":
        """As ever; a thread is outside until it is through."""
        self._outside += 1
        future = super().run_in_executor(executor, func, *args)
        future.add_done_callback(self._back)
        return future

    def _back(self, _: object) -> None:
        self._outside -= 1

    def leap(self, seconds: float) -> None:
        """Nothing can be done for so long: it is then."""
        self._now += seconds
        self.leaps += 1

    @property
    def waits_outside(self) -> bool:
        return self._outside > 0


class _Leaper(selectors.DefaultSelector):
    """Where the loop would sleep, it leaps."""

    def __init__(self, loop: Leaping) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """What can be read or written now; after a leap nothing, and then timers are due."""
        found = super().select(0)
        if found or (timeout is not None and timeout <= 0):
            return found
        waited = 0.0
        while timeout is None or (self._loop.waits_outside and waited < PATIENCE):
            if found := super().select(GLANCE):
                return found
            waited += GLANCE
        self._loop.leap(timeout)
        return []


class LoopClock:
    """The bot's, Slack's and the cluster's clock: `began` was at the loop's time when this was made."""

    def __init__(self, began: datetime) -> None:
        loop = asyncio.get_running_loop()
        self._loop, self._zero, self.began = loop, loop.time(), began

    def now(self) -> datetime:
        """UTC."""
        return self.began + timedelta(seconds=self.seconds)

    def stamp(self) -> float:
        """The same as seconds since 1970."""
        return self.now().timestamp()

    @property
    def seconds(self) -> float:
        """Since it began."""
        return self._loop.time() - self._zero
