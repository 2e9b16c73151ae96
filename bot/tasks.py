"""Asyncio tasks: ended for certain, none lost to the garbage collector, each failure logged; periodic sweeps that survive their errors."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any
from weakref import WeakValueDictionary

import structlog
from redis.exceptions import RedisError

log = structlog.get_logger()
RECANCEL_SECONDS = 0.5


async def cancel_tasks(*tasks: asyncio.Task[Any]) -> None:
    """Cancel the tasks until they are done, and forget how they ended.

    Once is not enough: on Python 3.11 a cancellation that meets an answer just arriving from Redis is swallowed
    (seen with redis-py and fakeredis), and the task goes on."""
    left = {task for task in tasks if not task.done()}
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=RECANCEL_SECONDS)
    await asyncio.gather(*tasks, return_exceptions=True)


async def to_coroutine(answer: Any) -> Any:
    """The answer, as a coroutine: tasks take nothing else, and redis-py types its answers as maybe awaitable, which ours always are."""
    return await answer


async def run_periodically(
    name: str,
    sweep: Callable[[], Awaitable[object]],
    every_seconds: float,
    *,
    expected: tuple[type[Exception], ...] = (RedisError,),
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Call `sweep` now, and again `every_seconds` after each call ended, until cancelled.

    An `expected` error (by default Redis is away) is logged as a warning. Any other error is a bug and is logged with its traceback. The loop goes
    on after both: the next sweep finds what this one did not do.
    """
    while True:
        try:
            await sweep()
        except expected as error:
            log.warning("sweep.put_off", sweep=name, error=str(error)[:200])
        except Exception:
            log.exception("sweep.failed", sweep=name)
        await pause(every_seconds)


class BackgroundTasks:
    """What runs beside a request: posting a refusal, waking, painting. All of it ends with us."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[Any]] = set()

    def spawn_task(self, name: str, work: Awaitable[Any]) -> None:
        """Run `work`; nobody waits for it, and its failure is written down."""
        task = asyncio.create_task(to_coroutine(work), name=name)
        self._running.add(task)
        task.add_done_callback(self._handle_task_end)

    async def wait_until_idle(self) -> None:
        """Return when nothing runs."""
        while self._running:
            await asyncio.wait(set(self._running))

    async def aclose(self, grace: float = 5.0) -> None:
        """Let what runs end, then cut off what takes longer."""
        if self._running:
            await asyncio.wait(set(self._running), timeout=grace)
        await cancel_tasks(*self._running)

    def _handle_task_end(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("background.failed", task=task.get_name(), exc_info=error)


class KeyedLocks:
    """What is about the same thing is done in the order in which it came, within this process."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def acquire(self, thing: str) -> AsyncIterator[None]:
        lock = self._locks.get(thing) or asyncio.Lock()
        self._locks[thing] = lock
        async with lock:
            yield
