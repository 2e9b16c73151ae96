"""Asyncio tasks that end for certain, stay referenced and log failures; periodic sweeps that survive errors."""

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
    """Cancel the tasks until they are done, ignoring how they ended.

    Once is not enough: on Python 3.11 a cancellation is swallowed if an answer from Redis arrives at that moment (seen
    with redis-py and fakeredis), and the task continues.
    """
    pending = {task for task in tasks if not task.done()}
    while pending:
        for task in pending:
            task.cancel()
        _, pending = await asyncio.wait(pending, timeout=RECANCEL_SECONDS)
    await asyncio.gather(*tasks, return_exceptions=True)


async def to_coroutine(answer: Any) -> Any:
    """Wrap an awaitable: tasks take only coroutines, and redis-py types its answers as maybe awaitable."""
    return await answer


async def run_periodically(
    name: str,
    sweep: Callable[[], Awaitable[object]],
    every_seconds: float,
    *,
    expected: tuple[type[Exception], ...] = (RedisError,),
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Call `sweep` now and `every_seconds` after each call ended, until cancelled.

    Log an `expected` error as a warning and any other with its traceback. The loop continues after both.
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
    """Tasks beside a request, all ended with the process."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[Any]] = set()

    def spawn_task(self, name: str, work: Awaitable[Any]) -> None:
        """Run `work` in the background and log its failure."""
        task = asyncio.create_task(to_coroutine(work), name=name)
        self._running.add(task)
        task.add_done_callback(self._handle_task_end)

    async def wait_until_idle(self) -> None:
        while self._running:
            await asyncio.wait(set(self._running))

    async def aclose(self, grace: float = 5.0) -> None:
        """Wait up to `grace` seconds, then cancel the rest."""
        if self._running:
            await asyncio.wait(set(self._running), timeout=grace)
        await cancel_tasks(*self._running)

    def _handle_task_end(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("background.failed", task=task.get_name(), exc_info=error)


class KeyedLocks:
    """One lock per key: work on one key runs in arrival order within this process."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def acquire(self, thing: str) -> AsyncIterator[None]:
        lock = self._locks.get(thing) or asyncio.Lock()
        self._locks[thing] = lock
        async with lock:
            yield
