"""Direct messages put together: an inbox and a desk of their own, over the same store and with the same guarantees as incidents."""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator
from datetime import timedelta

from redis.asyncio import Redis

from bot.desk.desk import Desk, TurnLimits
from bot.desk.inbox import Inbox
from bot.desk.lease import Leases
from bot.desk.sweeper import Sweeper
from bot.desk.wakeups import LocalWakeups
from bot.slack.client import SlackClient
from bot.slack.direct_messages import DirectMessages
from bot.slack.outgoing.direct_answers import AnswerTo, DirectAnswers
from bot.slack.outgoing.posts import PostedCards
from bot.store.keys import DIRECT
from bot.tasks import Background, end
from tools.clock import Clock

KEEP = timedelta(days=1)  # how long a conversation is known after its last answer
LIMITS = TurnLimits(posts=1000, keep_closed=KEEP)  # `bot.slack.outgoing.direct_answers` gives up by the clock


def new_conversation_id() -> str:
    return f"dm-{secrets.token_hex(6)}"


def direct_messages(client: SlackClient, redis: Redis, clock: Clock, tasks: Background) -> DirectMessages:
    """Return what the listeners store direct messages with. They are answered inside `answering`."""
    return DirectMessages(client, Inbox(redis, clock, names=DIRECT, new_id=new_conversation_id), LocalWakeups(), tasks)


@contextlib.asynccontextmanager
async def answering(direct: DirectMessages, answer_to: AnswerTo, redis: Redis, clock: Clock, lease_seconds: float) -> AsyncIterator[None]:
    """Answer direct messages: those that this process stores at once, those of a dead process at a sweep."""
    cards = PostedCards(redis, names=DIRECT, keep_closed=KEEP)
    answers = DirectAnswers(direct, cards, answer_to, clock)
    leases = Leases(redis, clock, seconds=lease_seconds, names=DIRECT)
    desk = Desk(direct.inbox, leases, answers, answers, clock=clock, timers=lambda *_: {}, limits=LIMITS)
    await direct.wakeups.start(desk.advance)
    sweeping = asyncio.create_task(Sweeper(direct.inbox, direct.wakeups).run())
    try:
        yield
    finally:
        await end(sweeping)
        await desk.drain()
        await direct.wakeups.aclose()
