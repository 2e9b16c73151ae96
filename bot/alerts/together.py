"""What bots post in one channel at the same time is taken in together: of a storm that Slack delivers message by message each is stored before it is
acknowledged, and a Redis is asked as often as there are causes."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from bot.alerts.posted import PostedAlerts

MOST_TOGETHER = 200
TakeIn = Callable[[str, Sequence[tuple[str, PostedAlerts]]], Awaitable[list[str]]]
"""Channel, and what was posted there, each at its time → the incidents that are told of it."""


@dataclass(slots=True)
class _Channel:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    waiting: list[tuple[str, PostedAlerts, "asyncio.Future[list[str]]"]] = field(default_factory=list)


@dataclass(slots=True)
class PostedTogether:
    """Whoever comes first takes in all that wait. Where that fails or is given up it fails for each of them, so that each is delivered again."""

    take_in: TakeIn
    _channels: dict[str, _Channel] = field(default_factory=dict)

    async def posted(self, channel: str, ts: str, said: PostedAlerts) -> list[str]:
        here = self._channels.setdefault(channel, _Channel())
        mine: asyncio.Future[list[str]] = asyncio.get_running_loop().create_future()
        here.waiting.append((ts, said, mine))
        try:
            async with here.lock:
                if not mine.done():
                    await self._take(channel, here)
        finally:
            here.waiting = [row for row in here.waiting if row[2] is not mine]
        return await mine

    async def _take(self, channel: str, here: _Channel) -> None:
        rows, here.waiting = here.waiting[:MOST_TOGETHER], here.waiting[MOST_TOGETHER:]
        try:
            told = await self.take_in(channel, [(ts, said) for ts, said, _ in rows])
        except BaseException:
            for _, _, waits in rows:
                _tell(waits, OSError("what came together was not stored"))
            raise
        for _, _, waits in rows:
            _tell(waits, told)


def _tell(waits: "asyncio.Future[list[str]]", what: list[str] | Exception) -> None:
    if waits.done():
        return
    if isinstance(what, Exception):
        waits.set_exception(what)
        waits.exception()  # whoever raises it already says why
    else:
        waits.set_result(what)
