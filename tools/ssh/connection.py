"""One host's connection. Callers share one attempt and its outcome: a dead host costs one wait, not one per command."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

import asyncssh

from tools.limiter import AdmissionControl

Connection = asyncssh.SSHClientConnection


@dataclass(slots=True)
class HostConnection:
    """A connection, opened on demand, and its session slots."""

    sessions: AdmissionControl
    opening: asyncio.Task[Connection] | None = None
    connection: Connection | None = None

    async def get_connection(self, dial: Callable[[], Coroutine[Any, Any, Connection]]) -> Connection:
        """Return the open connection, or open one with `dial`."""
        if self.connection is not None and not self.connection.is_closed():
            return self.connection
        if self.opening is None or self.opening.done():
            self.opening = asyncio.create_task(dial())
            self.opening.add_done_callback(self._record_opened)
        return await asyncio.shield(self.opening)

    async def cancel_opening(self) -> None:
        if self.opening is not None:
            self.opening.cancel()
            await asyncio.gather(self.opening, return_exceptions=True)

    def _record_opened(self, task: asyncio.Task[Connection]) -> None:
        if not task.cancelled() and task.exception() is None:
            self.connection = task.result()
