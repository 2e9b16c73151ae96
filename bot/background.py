"""Our own register of background tasks: none is lost to the garbage collector, each failure is logged, all end with us."""

import asyncio
from collections.abc import Awaitable
from typing import Any

import structlog

from bot.tasks import end

log = structlog.get_logger()


class Background:
    """What runs beside a request: posting a refusal, waking, painting."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[Any]] = set()

    def spawn(self, name: str, work: Awaitable[Any]) -> None:
        """Run `work`; nobody waits for it, and its failure is written down."""
        task = asyncio.create_task(_wait(work), name=name)
        self._running.add(task)
        task.add_done_callback(self._ended)

    async def idle(self) -> None:
        """Return when nothing runs."""
        while self._running:
            await asyncio.wait(set(self._running))

    async def aclose(self, grace: float = 5.0) -> None:
        """Let what runs end, then cut off what takes longer."""
        if self._running:
            await asyncio.wait(set(self._running), timeout=grace)
        await end(*self._running)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("background.failed", task=task.get_name(), exc_info=error)


async def _wait(work: Awaitable[Any]) -> Any:
    return await work
