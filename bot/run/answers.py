"""Desks that only answer, put together: the outbox of short answers, and the frame that it shares with direct messages."""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Mapping
from datetime import timedelta
from typing import Protocol

from redis.asyncio import Redis

from bot.desk.desk import Board, Desk, TurnLimits, Turns
from bot.desk.inbox import Inbox
from bot.desk.lease import Leases
from bot.desk.sweeper import Sweeper
from bot.desk.wakeups import LocalWakeups
from bot.slack.client import SlackClient
from bot.slack.outbox import Outbox
from bot.slack.outgoing.outbox import OutboxPosts
from bot.slack.outgoing.posts import PostedCards
from bot.slack.people import People
from bot.store.keys import OUTBOX
from bot.tasks import end
from tools.clock import Clock
from tools.inventory.hosts import ChannelRow

KEEP = timedelta(days=1)  # how long a thread is known after its last answer
LIMITS = TurnLimits(posts=1000, keep_closed=KEEP)  # who answers gives up by the clock


class AnswerPosts(Turns, Board, Protocol):
    """Turns that look at nothing, and the board on which their answers are posted."""


def slack_outbox(redis: Redis, clock: Clock, bound: Mapping[str, ChannelRow]) -> Outbox:
    """Return what answers are stored with. They are posted inside `posting`."""
    return Outbox(Inbox(redis, clock, names=OUTBOX, new_id=lambda: f"out-{secrets.token_hex(6)}"), LocalWakeups(), clock, bound)


def posting(
    outbox: Outbox, client: SlackClient, people: People, redis: Redis, lease_seconds: float
) -> contextlib.AbstractAsyncContextManager[None]:
    """Empty the outbox while it is open."""
    posts = OutboxPosts(PostedCards(redis, names=OUTBOX, keep_closed=KEEP), client, outbox, people)
    leases = Leases(redis, outbox.clock, seconds=lease_seconds, names=OUTBOX)
    return answer_desk(posts, outbox.inbox, outbox.wakeups, leases, outbox.clock)


@contextlib.asynccontextmanager
async def answer_desk(posts: AnswerPosts, inbox: Inbox, wakeups: LocalWakeups, leases: Leases, clock: Clock) -> AsyncIterator[None]:
    """Post answers: those that this process stores at once, those of a dead process at a sweep."""
    desk = Desk(inbox, leases, posts, posts, clock=clock, timers=lambda *_: {}, limits=LIMITS)
    await wakeups.start(desk.advance)
    sweeping = asyncio.create_task(Sweeper(inbox, wakeups).run())
    try:
        yield
    finally:
        await end(sweeping)
        await desk.drain()
        await wakeups.aclose()
