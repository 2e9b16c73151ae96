"""Kill -9 at every Slack call of an answer to a direct message, on a real Redis: the question is answered exactly once."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from redis.asyncio import Redis
from slack_sdk.web.async_client import AsyncWebClient

from bot.app.answer_dispatcher import build_direct_messages, run_direct_answers
from bot.incidents.dispatch.inbox import Inbox
from bot.store.keys import DIRECT_MESSAGE_KEYS
from bot.tasks import BackgroundTasks
from deploy.sandbox.slack import SlackSandbox
from tests.support.clock import WallClock
from tests.support.pane_process import ANSWER, LEASE_SECONDS, answer_to, store
from tests.support.redis_server import RealServer
from tools.ledger.redis_replies import decode_text

pytest_plugins = ("tests.support.fixtures_redis",)
KILLED = -9


class LaterClock:
    """A clock past the killed process's lease."""

    def now(self) -> datetime:
        return WallClock().now() + timedelta(seconds=LEASE_SECONDS + 1)


@pytest.fixture
async def slack() -> AsyncIterator[SlackSandbox]:
    async with SlackSandbox() as slack:
        yield slack


@pytest.mark.parametrize("point", ["before:assistant.threads.setStatus", "before:chat.postMessage", "after:chat.postMessage"])
async def test_a_direct_message_whose_process_is_killed_is_answered_once(
    slack: SlackSandbox, real_redis: Redis, redis_server: RealServer, point: str
) -> None:
    channel = slack.dm("olga").id
    ts = await slack.say("olga", channel, "status")
    words = ("-m", "tests.support.pane_process", redis_server.url, slack.api_url, slack.bot_token, channel, ts, point)
    process = await asyncio.create_subprocess_exec(sys.executable, *words, cwd=Path(__file__).parents[2])
    assert await process.wait() == KILLED
    [conversation] = await Inbox(real_redis, WallClock(), names=DIRECT_MESSAGE_KEYS).list_open_incidents()
    await real_redis.delete(DIRECT_MESSAGE_KEYS.lease_key(conversation))  # as its expiry would

    async with AsyncExitStack() as stack:
        survivors = [
            build_direct_messages(AsyncWebClient(slack.bot_token, slack.api_url), real_redis, WallClock(), BackgroundTasks())
            for _ in range(3)
        ]
        for survivor in survivors:
            await stack.enter_async_context(run_direct_answers(survivor, answer_to, real_redis, LaterClock(), LEASE_SECONDS))
        await store(survivors[0], channel, ts)  # Slack redelivers unacknowledged events
        await asyncio.gather(*(survivor.wakeups.wake(conversation) for survivor in survivors))
        await asyncio.gather(*(survivor.wakeups.wait_until_idle() for survivor in survivors))
    assert answers(slack, channel, ts) == [ANSWER.text]
    assert slack.pane("olga", ts)["status"] == ""
    assert await real_redis.zcard(DIRECT_MESSAGE_KEYS.open) == await real_redis.zcard(DIRECT_MESSAGE_KEYS.due) == 0
    lasting = [decode_text(key) for key in await real_redis.keys("rm:direct:*") if await real_redis.ttl(key) == -1]
    assert lasting == [DIRECT_MESSAGE_KEYS.fence]


def answers(slack: SlackSandbox, channel: str, ts: str) -> list[str]:
    return [row["text"] for row in slack.thread(channel, ts) if row.get("bot_id")]
