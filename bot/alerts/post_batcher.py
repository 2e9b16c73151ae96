"""Store the posts of alerting bots in batches, one channel at a time.

In a storm Redis is asked once for each cause instead of once for each post, so that every post is stored before Slack
is acknowledged.
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
    alerts: PostedAlerts
    incidents: "asyncio.Future[list[str]]"  # incidents with news, once the post is stored


@dataclass(slots=True)
class _ChannelQueue:
    pending: dict[str, _PendingPost] = field(default_factory=dict)  # by ts, so that a redelivered post is stored once
    worker: "asyncio.Task[None] | None" = None


@dataclass(slots=True)
class PostedAlertBatcher:
    """Stores batches in the background.

    A listener that times out only stops waiting; the redelivery finds the post stored. A failed batch fails for each of
    its posts, so that Slack delivers each again.
    """

    handle_batch: BatchHandler
    _channels: dict[str, _ChannelQueue] = field(default_factory=dict)

    async def submit_post(self, channel: str, ts: str, alerts: PostedAlerts) -> list[str]:
        """Return the incidents with news once the post is stored. Raise OSError if it was not."""
        queue = self._channels.setdefault(channel, _ChannelQueue())
        post = queue.pending.setdefault(ts, _PendingPost(alerts, asyncio.get_running_loop().create_future()))
        if queue.worker is None or queue.worker.done():
            queue.worker = asyncio.create_task(self._process_queue(channel, queue))
        return await asyncio.shield(post.incidents)

    async def _process_queue(self, channel: str, queue: _ChannelQueue) -> None:
        while batch := dict(islice(queue.pending.items(), MAX_BATCH_POSTS)):
            failure: Exception | None = None
            incidents: list[str] = []
            try:
                incidents = await self.handle_batch(channel, [(ts, post.alerts) for ts, post in batch.items()])
            except Exception as error:  # every listener reports the error, and Slack delivers again
                failure = error
            for ts, post in batch.items():
                del queue.pending[ts]
                _resolve_future(post.incidents, incidents, failure)


def _resolve_future(future: "asyncio.Future[list[str]]", incidents: list[str], failure: Exception | None) -> None:
    if failure is None:
        future.set_result(incidents)
        return
    error = OSError("what came together was not stored")
    error.__cause__ = failure
    future.set_exception(error)
    future.exception()  # mark as retrieved: asyncio logs an exception that no waiter read
