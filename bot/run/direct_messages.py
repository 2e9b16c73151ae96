"""Direct messages put together: an inbox and a desk of their own, over the same store and with the same guarantees as incidents."""

import contextlib
import secrets

from redis.asyncio import Redis

from bot.desk.inbox import Inbox
from bot.desk.lease import Leases
from bot.desk.wakeups import LocalWakeups
from bot.run.answers import KEEP, answer_desk
from bot.slack.client import SlackClient
from bot.slack.direct_messages import DirectMessages
from bot.slack.outgoing.direct_answers import AnswerTo, DirectAnswers
from bot.slack.outgoing.posts import PostedCards
from bot.store.keys import DIRECT
from bot.tasks import Background
from tools.clock import Clock


def new_conversation_id() -> str:
    return f"dm-{secrets.token_hex(6)}"


def direct_messages(client: SlackClient, redis: Redis, clock: Clock, tasks: Background) -> DirectMessages:
    """Return what the listeners store direct messages with. They are answered inside `answering`."""
    return DirectMessages(client, Inbox(redis, clock, names=DIRECT, new_id=new_conversation_id), LocalWakeups(), tasks)


def answering(
    direct: DirectMessages, answer_to: AnswerTo, redis: Redis, clock: Clock, lease_seconds: float
) -> contextlib.AbstractAsyncContextManager[None]:
    """Answer direct messages while it is open."""
    answers = DirectAnswers(PostedCards(redis, names=DIRECT, keep_closed=KEEP), direct, answer_to, clock)
    return answer_desk(answers, direct.inbox, direct.wakeups, Leases(redis, clock, seconds=lease_seconds, names=DIRECT), clock)
