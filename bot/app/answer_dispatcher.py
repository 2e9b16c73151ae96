"""Wiring of what answers outside turns: the answer outbox and direct messages."""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Mapping
from datetime import timedelta

from redis.asyncio import Redis

from bot.incidents.direct_messages import DirectMessages
from bot.incidents.dispatch.dispatcher import REPORT_OBSERVER, Dispatcher, TurnLimits, TurnObserver
from bot.incidents.dispatch.inbox import Inbox
from bot.incidents.dispatch.lease import Leases
from bot.incidents.dispatch.sweeper import Sweeper
from bot.incidents.dispatch.wakeups import LocalWakeups
from bot.incidents.publishing.answer_only_runner import AnswerOnlyRunner
from bot.incidents.publishing.answer_outbox import AnswerOutbox, OutboxPublisher
from bot.incidents.publishing.direct_answers import AnswerRenderer, DirectAnswers
from bot.slack.client import SlackClient
from bot.slack.people import People
from bot.slack.posted_messages import PostedCards
from bot.store.keys import DIRECT_MESSAGE_KEYS, OUTBOX_KEYS
from bot.tasks import BackgroundTasks, cancel_tasks
from tools.clock import Clock
from tools.inventory.inventory import ChannelRow

# Dispatchers that only post answers: the outbox, and the runner shared with direct messages.

ANSWER_RETENTION = timedelta(days=1)  # how long a thread is remembered after its last answer
ANSWER_LIMITS = TurnLimits(posts=1000, keep_closed=ANSWER_RETENTION)  # `posts` is high: an answer expires by time instead


def build_outbox(redis: Redis, clock: Clock, bound: Mapping[str, ChannelRow]) -> AnswerOutbox:
    return AnswerOutbox(Inbox(redis, clock, names=OUTBOX_KEYS, new_id=lambda: f"out-{secrets.token_hex(6)}"), LocalWakeups(), clock, bound)


def run_outbox(
    outbox: AnswerOutbox, client: SlackClient, people: People, redis: Redis, lease_seconds: float
) -> contextlib.AbstractAsyncContextManager[None]:
    posts = OutboxPublisher(PostedCards(redis, names=OUTBOX_KEYS, keep_closed=ANSWER_RETENTION), client, outbox, people)
    leases = Leases(redis, outbox.clock, seconds=lease_seconds, names=OUTBOX_KEYS)
    return run_answer_dispatcher(posts, posts.publish_report, outbox.inbox, outbox.wakeups, leases, outbox.clock)


@contextlib.asynccontextmanager
async def run_answer_dispatcher(
    turns: AnswerOnlyRunner, post: TurnObserver, inbox: Inbox, wakeups: LocalWakeups, leases: Leases, clock: Clock
) -> AsyncIterator[None]:
    """Post answers: this process's at once, those of a dead process at a sweep."""
    desk = Dispatcher(inbox, leases, turns, {REPORT_OBSERVER: post}, clock=clock, timers=lambda *_: {}, limits=ANSWER_LIMITS)
    await wakeups.start(desk.process_incident)
    sweeping = asyncio.create_task(Sweeper(inbox, wakeups).run())
    try:
        yield
    finally:
        await cancel_tasks(sweeping)
        await desk.drain()
        await wakeups.aclose()


# Wiring of direct messages: an inbox and dispatcher with the guarantees of incidents.


def new_conversation_id() -> str:
    return f"dm-{secrets.token_hex(6)}"


def build_direct_messages(client: SlackClient, redis: Redis, clock: Clock, tasks: BackgroundTasks) -> DirectMessages:
    return DirectMessages(client, Inbox(redis, clock, names=DIRECT_MESSAGE_KEYS, new_id=new_conversation_id), LocalWakeups(), tasks)


def run_direct_answers(
    direct: DirectMessages, answer_to: AnswerRenderer, redis: Redis, clock: Clock, lease_seconds: float
) -> contextlib.AbstractAsyncContextManager[None]:
    answers = DirectAnswers(PostedCards(redis, names=DIRECT_MESSAGE_KEYS, keep_closed=ANSWER_RETENTION), direct, answer_to, clock)
    leases = Leases(redis, clock, seconds=lease_seconds, names=DIRECT_MESSAGE_KEYS)
    return run_answer_dispatcher(answers, answers.publish_report, direct.inbox, direct.wakeups, leases, clock)
