"""Wake-ups: telling some process that an incident has work. The inbox holds the truth, so losing one costs a sweep and nothing else.

Between processes they travel as taskiq tasks on a Redis stream; inside one process as asyncio tasks.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from typing import Any, Protocol

import structlog
from redis.exceptions import RedisError
from taskiq import AckableMessage, AsyncTaskiqDecoratedTask
from taskiq.api import run_receiver_task
from taskiq_redis import RedisStreamBroker

from bot.tasks import end

log = structlog.get_logger()
Advance = Callable[[str], Awaitable[None]]


class Wakeups(Protocol):
    async def wake(self, incident: str) -> None:
        """Soon, somewhere, `advance(incident)`. Never raises: a lost wake-up is the sweeper's."""
        ...

    async def start(self) -> None: ...

    async def aclose(self) -> None: ...


class LocalWakeups:
    """In this process."""

    def __init__(self, advance: Advance) -> None:
        self._advance = advance
        self._tasks: set[asyncio.Task[None]] = set()
        self._waiting: set[str] = set()

    async def start(self) -> None:
        """Nothing to start."""

    async def wake(self, incident: str) -> None:
        if incident in self._waiting:
            return  # one that has not begun yet will see the new item too
        self._waiting.add(incident)
        task = asyncio.create_task(self._run(incident))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def idle(self) -> None:
        """Return when nothing is running."""
        while self._tasks:
            await asyncio.wait(set(self._tasks))

    async def aclose(self) -> None:
        await end(*self._tasks)

    async def _run(self, incident: str) -> None:
        self._waiting.discard(incident)
        try:
            await self._advance(incident)
        except Exception:
            log.exception("wakeup.failed", incident=incident)


class _Broker(RedisStreamBroker):
    """Waits before it asks a lost Redis again, and makes its group anew on a Redis that lost it."""

    async def listen(self) -> AsyncGenerator[AckableMessage, None]:
        while True:
            try:
                async for message in super().listen():
                    yield message
            except (RedisError, OSError) as e:
                log.warning("wakeups.redis_away", error=str(e))
                await asyncio.sleep(1)
                await self._regroup()

    async def _regroup(self) -> None:
        try:
            await self._declare_consumer_group()
        except (RedisError, OSError) as e:
            log.debug("wakeups.no_group_yet", error=str(e))


class StreamWakeups:
    """Between processes. `receive=False` is a front end that only sends."""

    def __init__(self, url: str, advance: Advance, *, receive: bool = True, stream: str = "rm:wakeups", at_once: int = 32) -> None:
        self._broker = _Broker(
            url,
            queue_name=stream,
            consumer_group_name="workers",
            maxlen=10_000,
            unacknowledged_lock_timeout=60.0,
            xread_block=1000,
        )
        self._task: AsyncTaskiqDecoratedTask[[str], Coroutine[Any, Any, None]] = self._broker.register_task(
            _caller(advance), task_name="advance"
        )
        self._receive = receive
        self._at_once = at_once
        self._receiver: asyncio.Task[None] | None = None

    async def start(self) -> None:
        await self._broker.startup()
        if self._receive:
            self._receiver = asyncio.create_task(run_receiver_task(self._broker, max_async_tasks=self._at_once))

    async def wake(self, incident: str) -> None:
        try:
            await self._task.kiq(incident)
        except Exception as e:
            log.warning("wakeup.lost", incident=incident, error=str(e))

    async def aclose(self) -> None:
        if self._receiver is not None:
            await end(self._receiver)
        await self._broker.shutdown()


def _caller(advance: Advance) -> Callable[[str], Coroutine[Any, Any, None]]:
    async def call(incident: str) -> None:
        await advance(incident)

    return call


def wakeups_for(url: str | None, advance: Advance, *, alone: bool, receive: bool = True) -> Wakeups:
    """`alone`: this process is the only one on its Redis (embedded), so nothing has to travel."""
    if url is None or alone:
        return LocalWakeups(advance)
    return StreamWakeups(url, advance, receive=receive)
