"""Wake-ups tell a process that an incident has work. The inbox holds the truth, so a lost one only waits for the
sweeper.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol

import structlog
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from taskiq import AsyncTaskiqDecoratedTask
from taskiq.acks import AcknowledgeType
from taskiq.receiver import Receiver
from taskiq_redis import RedisStreamBroker

from bot.store.keys import WAKEUP_STREAM_KEY
from bot.tasks import cancel_tasks

log = structlog.get_logger()
WakeHandler = Callable[[str], Awaitable[None]]
CONSUMER_GROUP = "workers"
MAX_STREAM_LENGTH = 10_000  # older wake-ups are left to the sweeper
BLOCK_MS = 1000
RECONNECT_PAUSE_SECONDS = 1.0
# After this a dead receiver's wake-up goes to another worker; about when the sweeper sends one anyway.
UNACKNOWLEDGED_MS = 15_000
DISCONNECT_INTERVAL_SECONDS = 0.1  # taskiq restarts its listening once on a broken connection
STOP_TIMEOUT_SECONDS = 5.0  # for running wake-ups at stop; the dispatcher is drained by then


class Wakeups(Protocol):
    async def wake(self, incident: str) -> None:
        """Have a process call `advance(incident)` soon. Never raises."""
        ...

    async def start(self, advance: WakeHandler) -> None:
        """Start receiving. Earlier wake-ups may be lost."""
        ...

    async def aclose(self) -> None: ...


class LocalWakeups:
    """Wake-ups inside one process, as asyncio tasks."""

    def __init__(self) -> None:
        self._advance: WakeHandler | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._waiting: set[str] = set()

    async def start(self, advance: WakeHandler) -> None:
        self._advance = advance

    async def wake(self, incident: str) -> None:
        if self._advance is None or incident in self._waiting:
            return  # a handler that has not begun will see the new item
        self._waiting.add(incident)
        task = asyncio.create_task(self._run_handler(incident, self._advance))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def wait_until_idle(self) -> None:
        while self._tasks:
            await asyncio.wait(set(self._tasks))

    async def aclose(self) -> None:
        await cancel_tasks(*self._tasks)

    async def _run_handler(self, incident: str, advance: WakeHandler) -> None:
        self._waiting.discard(incident)
        try:
            await advance(incident)
        except Exception:
            log.exception("wakeup.failed", incident=incident)


class StreamWakeups:
    """Wake-ups between processes, as taskiq tasks on a Redis stream. `name` is unique per worker and stable over
    restarts.

    taskiq acknowledges on receipt. If a receiver dies before that, its wake-up goes to another worker. An outage ends
    the listening, which is restarted here.
    """

    def __init__(
        self,
        url: str,
        *,
        name: str = "",
        receive: bool = True,
        stream: str = WAKEUP_STREAM_KEY,
        at_once: int = 32,
        unacknowledged_ms: int = UNACKNOWLEDGED_MS,
    ) -> None:
        self._broker = RedisStreamBroker(
            url,
            queue_name=stream,
            consumer_group_name=CONSUMER_GROUP,
            consumer_name=name or None,
            maxlen=MAX_STREAM_LENGTH,
            xread_block=BLOCK_MS,
            xread_count=1,
            idle_timeout=unacknowledged_ms,
            unacknowledged_lock_timeout=unacknowledged_ms / 1000,
            retry=Retry(NoBackoff(), 1),  # a connection from before an outage must not cost a wake-up
        )
        self._broker.is_worker_process = receive
        self._task: AsyncTaskiqDecoratedTask[[str], Coroutine[Any, Any, None]]
        self._task = self._broker.register_task(self._build_task(), task_name="advance")
        self._at_once = at_once
        self._advance: WakeHandler | None = None
        self._stopping, self._finish = asyncio.Event(), asyncio.Event()
        self._listening: asyncio.Task[None] | None = None

    async def start(self, advance: WakeHandler) -> None:
        self._advance = advance
        await self._broker.startup()
        if self._broker.is_worker_process:
            self._listening = asyncio.create_task(self._listen())

    async def wake(self, incident: str) -> None:
        try:
            await self._task.kiq(incident)
        except Exception as error:
            log.warning("wakeup.lost", incident=incident, error=str(error))

    async def aclose(self) -> None:
        """Stop receiving; the dispatcher drains what runs."""
        self._stopping.set()
        if self._listening is not None:
            await self._disconnect(self._listening)
        await self._broker.shutdown()

    def _build_task(self) -> Callable[[str], Coroutine[Any, Any, None]]:
        async def advance(incident: str) -> None:  # taskiq takes functions only: it renames them
            if self._advance is not None:
                await self._advance(incident)

        return advance

    async def _listen(self) -> None:
        """Restart after an outage; Redis may have lost the consumer group."""
        while not self._stopping.is_set():
            try:
                await self._broker.startup()
                await self._build_receiver().listen(self._finish)
            except Exception as error:
                if not self._stopping.is_set():
                    log.warning("wakeups.cut_off", error=_format_root_error(error))
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._stopping.wait(), RECONNECT_PAUSE_SECONDS)

    def _build_receiver(self) -> Receiver:
        received = AcknowledgeType.WHEN_RECEIVED
        return Receiver(
            self._broker, run_startup=False, max_async_tasks=self._at_once, wait_tasks_timeout=STOP_TIMEOUT_SECONDS, ack_type=received
        )

    async def _disconnect(self, listening: asyncio.Task[None]) -> None:
        """Close the receiver's connections, so that its read fails.

        `_finish` would cancel the read, and Python 3.11 may lose that (see `bot.tasks.cancel_tasks`; measured: 11 of
        150 stops).
        """
        full = asyncio.get_running_loop().call_later(
            STOP_TIMEOUT_SECONDS, self._finish.set
        )  # it does not read while all its slots are taken
        while not listening.done():
            await self._broker.connection_pool.disconnect()
            await asyncio.wait({listening}, timeout=DISCONNECT_INTERVAL_SECONDS)
        full.cancel()


def _format_root_error(error: BaseException) -> str:
    return _format_root_error(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else str(error)


def build_wakeups(url: str | None, *, alone: bool, receive: bool = True, name: str = "", stream: str = WAKEUP_STREAM_KEY) -> Wakeups:
    """Return local wake-ups where this process is the only one on its Redis (`alone`), else a stream."""
    if url is None or alone:
        return LocalWakeups()
    return StreamWakeups(url, name=name, receive=receive, stream=stream)
