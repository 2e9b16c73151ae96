"""Wiring of direct messages: an inbox and dispatcher with the guarantees of incidents."""

import contextlib
import secrets

from redis.asyncio import Redis

from bot.app.answer_dispatcher import ANSWER_RETENTION, run_answer_dispatcher
from bot.incidents.direct_messages import DirectMessages
from bot.incidents.dispatch.inbox import Inbox
from bot.incidents.dispatch.lease import Leases
from bot.incidents.dispatch.wakeups import LocalWakeups
from bot.incidents.publishing.direct_answers import AnswerRenderer, DirectAnswers
from bot.slack.client import SlackClient
from bot.slack.posted_messages import PostedCards
from bot.store.keys import DIRECT_MESSAGE_KEYS
from bot.tasks import BackgroundTasks
from tools.clock import Clock


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
