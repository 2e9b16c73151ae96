"""What happened in the workspace, in order. The page, the event stream to the bot and waiting tests all read this one list."""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import islice
from typing import TypeVar

from deploy.sandbox.slack.workspace.refusal import JSON

T = TypeVar("T")
KEPT = 20_000


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that happened. `user` set: only that person sees it. `channel` set: only its members do."""

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
        self._changes: deque[Change] = deque(maxlen=KEPT)
        self._waiting: set[asyncio.Future[None]] = set()

    def add(self, kind: str, data: JSON, channel: str = "", user: str = "") -> Change:
        self.seq += 1
        change = Change(self.seq, kind, data, channel, user)
        self._changes.append(change)
        for listener in self.listeners:
            listener(change)
        self.ring()
        return change

    def since(self, seq: int) -> list[Change]:
        """Everything after `seq` that is still kept; a reader that fell behind further should load the state anew."""
        missed = max(0, self.seq - seq)
        return list(islice(self._changes, max(0, len(self._changes) - missed), None))

    def ring(self) -> None:
        """Wake whoever waits: something they may be waiting for is different now."""
        waiting, self._waiting = self._waiting, set()
        for future in waiting:
            if not future.done():
                future.set_result(None)

    def close(self) -> None:
        self.closed = True
        self.ring()

    async def rung(self) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(future)
        try:
            await future
        finally:
            self._waiting.discard(future)

    async def until(self, predicate: Callable[[], T | None], timeout: float) -> T:
        """The first truthy answer of `predicate`, asked again after every change. TimeoutError when none comes."""
        async with asyncio.timeout(timeout):
            while not (value := predicate()):
                await self.rung()
        return value
