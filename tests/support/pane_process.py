"""A process that answers one question of the pane and is killed on the way:
`python -m tests.support.pane_process REDIS SLACK TOKEN CHANNEL TS POINT ROWS`. POINT is `before:` or `after:` and a method of Slack's."""

import asyncio
import os
import signal
import sys
from typing import Any

from redis.asyncio import Redis
from slack_sdk.web.async_client import AsyncWebClient

from bot.cards import blocks
from bot.slack.pane.pane import DirectAnswer, Pane
from bot.slack.pane.streams import StreamedAnswers
from bot.slack.pane.unanswered import DirectQuestion, Unanswered
from bot.tasks import Background
from tests.support.clock import WallClock


class DoomedClient(AsyncWebClient):
    """Kills this process before or after its first call of one method."""

    point = ""

    async def api_call(self, api_method: str, **words: Any) -> Any:
        self._die(f"before:{api_method}")
        answer = await super().api_call(api_method, **words)
        self._die(f"after:{api_method}")
        return answer

    def _die(self, point: str) -> None:
        if point == self.point:
            os.kill(os.getpid(), signal.SIGKILL)


async def answer(redis: str, slack: str, token: str, channel: str, ts: str, point: str, rows: str) -> None:
    client = DoomedClient(token, slack)
    client.point = point
    open_ = Unanswered(Redis.from_url(redis), WallClock())
    tasks = Background()
    asked = DirectQuestion("T0RACK", channel, ts, ts, "U0OLGA")

    async def make() -> DirectAnswer:
        card = blocks.card("Open incidents", [blocks.say(f"row {n}") for n in range(int(rows))])
        return DirectAnswer(card, "Open incidents")

    if await open_.claim(asked):
        await Pane(client, open_, StreamedAnswers(client, open_), tasks).answer(asked, "is reading what is open…", make)
        await tasks.idle()


if __name__ == "__main__":
    asyncio.run(answer(*sys.argv[1:]))
