"""Wake-ups: telling some process that an incident has work. The inbox holds the truth, so losing one costs a sweep and nothing else.

Between processes they travel as taskiq tasks on a Redis stream; inside one process as asyncio tasks.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from typing import Any, Protocol

import structlog
from redis.asyncio import Redis
from redis.exceptions import RedisError
from taskiq import AsyncTaskiqDecoratedTask
from taskiq.receiver import Receiver
from taskiq_redis import RedisStreamBroker

from bot.store.keys import WAKEUPS
from bot.tasks import end

log = structlog.get_logger()
Advance = Callable[[str], Awaitable[None]]
BLOCK_MS = 1000
AWAY_PAUSE = 1.0
STOP_WITHIN = 5.0
"""Seconds that running wake-ups may take to end once we stop; the desk has been drained by then."""


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
    """Reads the stream without acknowledging (a lost wake-up is the sweeper's), waits before it asks a lost Redis again, makes its
    group anew on a Redis that lost it, and ends when told: a cancelled read may come back as if nothing had happened."""

    stopping = False

    async def listen(self) -> AsyncGenerator[bytes, None]:  # type: ignore[override]  # the receiver takes bare bytes, the parent never gives them
        async with Redis(connection_pool=self.connection_pool) as redis:
            while not self.stopping:
                for data in await self._read(redis):
                    yield data

    async def shutdown(self) -> None:
        async with Redis(connection_pool=self.connection_pool) as redis:
            with contextlib.suppress(RedisError, OSError):
                await redis.xgroup_delconsumer(self.queue_name, self.consumer_group_name, self.consumer_name)
        await super().shutdown()

    async def _read(self, redis: Redis) -> list[bytes]:
        try:
            rows: Any = await redis.xreadgroup(
                self.consumer_group_name, self.consumer_name, {self.queue_name: ">"}, count=self.count, block=self.block, noack=True
            )
        except (RedisError, OSError) as e:
            log.warning("wakeups.redis_away", error=str(e))
            await asyncio.sleep(AWAY_PAUSE)
            await self._regroup()
            return []
        return [fields[b"data"] for _, messages in rows for _, fields in messages]

    async def _regroup(self) -> None:
        try:
            await self._declare_consumer_group()
        except (RedisError, OSError) as e:
            log.debug("wakeups.no_group_yet", error=str(e))


class StreamWakeups:
    """Between processes. `receive=False` is a front end that only sends."""

    def __init__(self, url: str, advance: Advance, *, receive: bool = True, stream: str = WAKEUPS, at_once: int = 32) -> None:
        self._broker = _Broker(url, queue_name=stream, consumer_group_name="workers", maxlen=10_000, xread_block=BLOCK_MS, xread_count=1)
        self._task: AsyncTaskiqDecoratedTask[[str], Coroutine[Any, Any, None]]
        self._task = self._broker.register_task(_caller(advance), task_name="advance")
        self._receive = receive
        self._at_once = at_once
        self._finish = asyncio.Event()
        self._receiver: asyncio.Task[None] | None = None

    async def start(self) -> None:
        await self._broker.startup()
        if self._receive:
            self._broker.is_worker_process = True
            receiver = Receiver(self._broker, run_startup=False, max_async_tasks=self._at_once, wait_tasks_timeout=STOP_WITHIN)
            self._receiver = asyncio.create_task(receiver.listen(self._finish))

    async def wake(self, incident: str) -> None:
        try:
            await self._task.kiq(incident)
        except Exception as e:
            log.warning("wakeup.lost", incident=incident, error=str(e))

    async def aclose(self) -> None:
        """Stop receiving. What runs is the desk's to drain, before or after."""
        self._broker.stopping = True
        self._finish.set()
        if self._receiver is not None:
            await asyncio.wait({self._receiver}, timeout=STOP_WITHIN + 1)
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
