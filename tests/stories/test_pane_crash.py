"""Kill -9 at every call of an answer in the pane, on a real Redis: whoever sweeps ends it once, and a whole answer is left as it is."""

import asyncio
import sys
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from redis.asyncio import Redis
from slack_sdk.web.async_client import AsyncWebClient

from bot.cards.personal.suggestions import CUT_OFF
from bot.slack.pane.cut_off import QUIET, CutOff
from bot.slack.pane.unanswered import Unanswered
from deploy.sandbox.slack import SlackSandbox
from tests.support.clock import WallClock
from tests.support.redis_server import RealServer

pytest_plugins = ("tests.support.fixtures_redis",)
KILLED = -9
LONG, SHORT = "20", "2"


class Later:
    """The clock of those who look when the dead one has been quiet for long enough."""

    def now(self) -> datetime:
        return WallClock().now() + QUIET + timedelta(seconds=1)


@pytest.fixture
async def slack() -> AsyncIterator[SlackSandbox]:
    async with SlackSandbox() as slack:
        yield slack


@pytest.mark.parametrize(
    ("point", "rows", "whole"),
    [
        ("before:assistant.threads.setStatus", LONG, False),
        ("before:chat.startStream", LONG, False),
        ("after:chat.startStream", LONG, False),
        ("before:chat.appendStream", LONG, False),
        ("after:chat.appendStream", LONG, False),
        ("before:chat.stopStream", LONG, False),
        ("after:chat.stopStream", LONG, True),
        ("before:chat.postMessage", SHORT, False),
        ("after:chat.postMessage", SHORT, True),
    ],
)
async def test_an_answer_whose_process_is_killed_is_ended_once(
    slack: SlackSandbox, real_redis: Redis, redis_server: RealServer, point: str, rows: str, whole: bool
) -> None:
    channel = slack.dm("olga").id
    ts = await slack.say("olga", channel, "status")
    words = ("-m", "tests.support.pane_process", redis_server.url, slack.api_url, slack.bot_token, channel, ts, point, rows)
    process = await asyncio.create_subprocess_exec(sys.executable, *words, cwd=Path(__file__).parents[2])
    assert await process.wait() == KILLED

    client, open_ = AsyncWebClient(slack.bot_token, slack.api_url), Unanswered(real_redis, Later())
    sweepers = [CutOff(client, open_) for _ in range(3)]
    await asyncio.gather(*(sweeper.sweep() for sweeper in sweepers))
    assert await sweepers[0].sweep() == 0
    [message] = [row for row in slack.thread(channel, ts) if row.get("bot_id")]
    assert message.get("streaming_state", "completed") == "completed"
    assert ("stopped before I had answered" in str(message)) is not whole
    assert whole or CUT_OFF.blocks[0]["text"] == message["blocks"][-1]["text"]
    assert slack.pane("olga", ts)["status"] == ""
    assert [key for key in await real_redis.keys("rm:pane:*") if b"heard" not in key] == []
