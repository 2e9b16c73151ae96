"""What bots post in one channel at the same time is taken in together: of a storm that Slack delivers message by message each is stored before it is
acknowledged, and a Redis is asked as often as there are causes."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice

from bot.alerts.posted_alerts import PostedAlerts

MAX_BATCH_POSTS = 200
BatchHandler = Callable[[str, Sequence[tuple[str, PostedAlerts]]], Awaitable[list[str]]]
"""Channel, and what was posted there, each at its time → the incidents that are told of it."""


@dataclass(frozen=True, slots=True)
class _PendingPost:
    said: PostedAlerts
    told: "asyncio.Future[list[str]]"


@dataclass(slots=True)
class _ChannelQueue:
    waiting: dict[str, _PendingPost] = field(default_factory=dict)
    """By the message's time: what is delivered again while it waits is the same row."""
    taking: "asyncio.Task[None] | None" = None


@dataclass(slots=True)
class PostedAlertBatcher:
    """The taking in goes on by itself: a listener whose time is over gives up its wait and nothing else, and the redelivery finds it done. Where
    it fails it fails for each that was in it, so that each is delivered again."""

    take_in: BatchHandler
    _channels: dict[str, _ChannelQueue] = field(default_factory=dict)

    async def submit_post(self, channel: str, ts: str, said: PostedAlerts) -> list[str]:
        """The incidents that are told of it, once it is stored. Raises OSError where it was not."""
        here = self._channels.setdefault(channel, _ChannelQueue())
        row = here.waiting.setdefault(ts, _PendingPost(said, asyncio.get_running_loop().create_future()))
        if here.taking is None or here.taking.done():
            here.taking = asyncio.create_task(self._process_queue(channel, here))
        return await asyncio.shield(row.told)

    async def _process_queue(self, channel: str, here: _ChannelQueue) -> None:
        while rows := dict(islice(here.waiting.items(), MAX_BATCH_POSTS)):
            failed, told = None, list[str]()
            try:
                told = await self.take_in(channel, [(ts, row.said) for ts, row in rows.items()])
            except Exception as why:  # whatever it was, each listener says it and is asked again
                failed = why
            for ts, row in rows.items():
                del here.waiting[ts]
                _resolve_future(row.told, told, failed)


def _resolve_future(waits: "asyncio.Future[list[str]]", told: list[str], failed: Exception | None) -> None:
    if failed is None:
        waits.set_result(told)
        return
    error = OSError("what came together was not stored")
    error.__cause__ = failed
    waits.set_exception(error)
    waits.exception()  # where nobody waits any more nobody has to have seen it
