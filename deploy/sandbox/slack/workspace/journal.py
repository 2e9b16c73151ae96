"""The ordered changes of the workspace. The page, the event delivery and waiting tests read this list."""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import islice
from typing import TypeVar

from deploy.sandbox.slack.workspace.refusal import JSON

T = TypeVar("T")
MAX_CHANGES = 20_000


@dataclass(frozen=True, slots=True)
class Change:
    """One change. `user` set: visible to that person only. `channel` set: visible to its members only."""

    seq: int
    kind: str
    data: JSON
    channel: str = ""
    user: str = ""

    def wire(self) -> JSON:
        return asdict(self)


class WorkspaceJournal:
    def __init__(self) -> None:
        self.seq = 0
        self.closed = False
        self.listeners: list[Callable[[Change], None]] = []
        self._changes: deque[Change] = deque(maxlen=MAX_CHANGES)
        self._waiting: set[asyncio.Future[None]] = set()

    def add(self, kind: str, data: JSON, channel: str = "", user: str = "") -> Change:
        self.seq += 1
        change = Change(self.seq, kind, data, channel, user)
        self._changes.append(change)
        for listener in self.listeners:
            listener(change)
        self.wake_waiters()
        return change

    def list_changes_after(self, seq: int) -> list[Change]:
        """Return the kept changes after `seq`; a reader that fell further behind should reload the state."""
        missed = max(0, self.seq - seq)
        return list(islice(self._changes, max(0, len(self._changes) - missed), None))

    def wake_waiters(self) -> None:
        """Wake all waiters."""
        waiting, self._waiting = self._waiting, set()
        for future in waiting:
            if not future.done():
                future.set_result(None)

    def close(self) -> None:
        self.closed = True
        self.wake_waiters()

    async def wait_for_change(self) -> None:
        """Wait until `wake_waiters` is called."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(future)
        try:
            await future
        finally:
            self._waiting.discard(future)

    async def wait_until(self, predicate: Callable[[], T | None], timeout: float) -> T:
        """Return the first truthy value of `predicate()`, retried after every change. Raises TimeoutError if it takes longer."""
        async with asyncio.timeout(timeout):
            while not (value := predicate()):
                await self.wait_for_change()
        return value
