"""A process that stores and answers one direct message and kills itself at a point: `python -m
tests.support.pane_process REDIS SLACK TOKEN CHANNEL TS POINT`. POINT is `before:` or `after:` and a Slack method.
"""

import asyncio
import os
import signal
import sys
from datetime import UTC, datetime
from typing import Any

from redis.asyncio import Redis
from slack_sdk.web.async_client import AsyncWebClient

from bot.app.answer_dispatcher import build_direct_messages, run_direct_answers
from bot.cards import blocks
from bot.cards.blocks import Card
from bot.incidents.cards.direct_messages import DirectRequest
from bot.incidents.direct_messages import DirectMessages
from bot.tasks import BackgroundTasks
from graph.state import Origin
from tests.support.clock import WallClock

ANSWER = blocks.build_card("Open incidents", [blocks.line_section("one incident")])
LEASE_SECONDS = 30.0


class DoomedClient(AsyncWebClient):
    """Kill this process before or after the first call of one method."""

    point = ""

    async def api_call(self, api_method: str, **words: Any) -> Any:
        self._die(f"before:{api_method}")
        answer = await super().api_call(api_method, **words)
        self._die(f"after:{api_method}")
        return answer

    def _die(self, point: str) -> None:
        if point == self.point:
            os.kill(os.getpid(), signal.SIGKILL)


async def answer_to(team: str, user: str, wish: DirectRequest) -> Card:
    return ANSWER


async def store(direct: DirectMessages, channel: str, ts: str) -> None:
    origin = Origin(kind="slack", team="T0RACK", channel=channel, thread_ts=ts, user="U0OLGA")
    await direct.store(origin, f"T0RACK.{channel}.{ts}", datetime.fromtimestamp(float(ts), UTC), "status")


async def answer(redis_url: str, slack: str, token: str, channel: str, ts: str, point: str) -> None:
    client = DoomedClient(token, slack)
    client.point = point
    redis = Redis.from_url(redis_url)
    direct = build_direct_messages(client, redis, WallClock(), BackgroundTasks())
    async with run_direct_answers(direct, answer_to, redis, WallClock(), LEASE_SECONDS):
        await store(direct, channel, ts)
        await direct.wakeups.wait_until_idle()


if __name__ == "__main__":
    asyncio.run(answer(*sys.argv[1:]))
