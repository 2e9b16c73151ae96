"""Batch bots' posts per channel, so that in a storm each post is stored before it is acknowledged.

Redis is asked once per cause instead of once per message.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice

from bot.alerts.posted_alerts import PostedAlerts

MAX_BATCH_POSTS = 200
# (channel, posts by ts) → incidents with news
BatchHandler = Callable[[str, Sequence[tuple[str, PostedAlerts]]], Awaitable[list[str]]]


@dataclass(frozen=True, slots=True)
class _PendingPost:
    posted: PostedAlerts
    told: "asyncio.Future[list[str]]"


@dataclass(slots=True)
class _ChannelQueue:
    # By ts, so that a redelivered message is the same row.
    waiting: dict[str, _PendingPost] = field(default_factory=dict)
    taking: "asyncio.Task[None] | None" = None


@dataclass(slots=True)
class PostedAlertBatcher:
    """Stores batches in the background.

    A listener that times out only stops waiting; the redelivery finds the post stored. A failed batch fails for each of
    its posts, so that Slack delivers each again.
    """

    take_in: BatchHandler
    _channels: dict[str, _ChannelQueue] = field(default_factory=dict)

    async def submit_post(self, channel: str, ts: str, posted: PostedAlerts) -> list[str]:
        """Return the incidents with news once the post is stored. Raise OSError if it was not."""
        queue = self._channels.setdefault(channel, _ChannelQueue())
        row = queue.waiting.setdefault(ts, _PendingPost(posted, asyncio.get_running_loop().create_future()))
        if queue.taking is None or queue.taking.done():
            queue.taking = asyncio.create_task(self._process_queue(channel, queue))
        return await asyncio.shield(row.told)

    async def _process_queue(self, channel: str, here: _ChannelQueue) -> None:
        while rows := dict(islice(here.waiting.items(), MAX_BATCH_POSTS)):
            failed, handled = None, list[str]()
            try:
                handled = await self.take_in(channel, [(ts, row.posted) for ts, row in rows.items()])
            except Exception as error:  # every listener reports the error, and Slack delivers again
                failed = error
            for ts, row in rows.items():
                del here.waiting[ts]
                _resolve_future(row.told, handled, failed)


def _resolve_future(waits: "asyncio.Future[list[str]]", told: list[str], failed: Exception | None) -> None:
    if failed is None:
        waits.set_result(told)
        return
    error = OSError("what came together was not stored")
    error.__cause__ = failed
    waits.set_exception(error)
    waits.exception()  # mark as retrieved: asyncio logs an exception that no waiter read
