"""An event loop with virtual time: time stands still while anything can run, then jumps to the next timer. Bot, Slack,
cluster and people share it. Work outside the loop (a kit process, a thread) is awaited in real time, but not
forever, as it may itself wait for virtual time.
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
# real seconds of silence after which outside work is taken to wait for virtual time; polling interval
PATIENCE, GLANCE = 0.25, 0.02


class Leaping(asyncio.SelectorEventLoop):
    """`asyncio.Runner(loop_factory=Leaping)`. `time()` starts at 0."""

    def __init__(self) -> None:
        self._now, self._outside = 0.0, 0
        self.leaps = 0
        super().__init__(_Leaper(self))

    def time(self) -> float:
        return self._now

    @contextlib.contextmanager
    def outside(self) -> Iterator[None]:
        """Hold time while work runs that the loop cannot see."""
        self._outside += 1
        try:
            yield
        finally:
            self._outside -= 1

    def run_in_executor(self, executor: Executor | None, func: Callable[[*Args], T], *args: *Args) -> "asyncio.Future[T]":
        """Hold time until the thread has ended."""
        self._outside += 1
        future = super().run_in_executor(executor, func, *args)
        future.add_done_callback(self._back)
        return future

    def _back(self, _: object) -> None:
        self._outside -= 1

    def leap(self, seconds: float) -> None:
        """Advance time."""
        self._now += seconds
        self.leaps += 1

    @property
    def waits_outside(self) -> bool:
        return self._outside > 0


class _Leaper(selectors.DefaultSelector):
    """A selector that advances time instead of sleeping."""

    def __init__(self, loop: Leaping) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
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
    """The clock of bot, Slack and cluster, starting at `began`."""

    def __init__(self, began: datetime) -> None:
        loop = asyncio.get_running_loop()
        self._loop, self._zero, self.began = loop, loop.time(), began

    def now(self) -> datetime:
        return self.began + timedelta(seconds=self.seconds)

    def stamp(self) -> float:
        return self.now().timestamp()

    @property
    def seconds(self) -> float:
        return self._loop.time() - self._zero
