"""One host's connection. All who need it opened share one attempt and how that ended, so a dead host costs one wait, not one a command."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

import asyncssh

from tools.ssh.admission import AdmissionControl

Connection = asyncssh.SSHClientConnection


@dataclass(slots=True)
class HostConnection:
    """A connection that may have to be opened, and the slots of its sessions."""

    sessions: AdmissionControl
    opening: asyncio.Task[Connection] | None = None
    connection: Connection | None = None

    async def get_connection(self, dial: Callable[[], Coroutine[Any, Any, Connection]]) -> Connection:
        """The connection as it is, or as `dial` makes it."""
        if self.connection is not None and not self.connection.is_closed():
            return self.connection
        if self.opening is None or self.opening.done():
            self.opening = asyncio.create_task(dial())
            self.opening.add_done_callback(self._record_opened)
        return await asyncio.shield(self.opening)

    async def cancel_opening(self) -> None:
        """Open nothing more."""
        if self.opening is not None:
            self.opening.cancel()
            await asyncio.gather(self.opening, return_exceptions=True)

    def _record_opened(self, task: asyncio.Task[Connection]) -> None:
        if not task.cancelled() and task.exception() is None:
            self.connection = task.result()
