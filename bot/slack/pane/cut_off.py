"""Answers whose process died over them: found by whichever process sweeps, and ended once, with a line that says so."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import structlog
from redis.exceptions import RedisError
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from bot.cards.personal.suggestions import CUT_OFF
from bot.slack.client import SLACK_TROUBLE, post
from bot.slack.pane.unanswered import DirectQuestion, Unanswered

log = structlog.get_logger()
EVERY = 15.0
QUIET = timedelta(seconds=30)
"""Without a sign of life for so long, whoever was answering is dead."""
GIVE_UP = timedelta(minutes=10)
"""So long after a question Slack has ended its stream by itself, and nobody waits for the line any more."""
PAGE, MOST_PAGES = 200, 5


@dataclass(frozen=True, slots=True)
class CutOff:
    """`run` for as long as the process works; any number may."""

    client: AsyncWebClient
    open: Unanswered
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep

    async def sweep(self) -> int:
        """End what dead processes left; how many."""
        left = await self.open.quiet(QUIET)
        for asked in left:
            try:
                await self._end(asked)
            except SLACK_TROUBLE as trouble:
                late = self.open.age(asked) > GIVE_UP
                log.warning("cut_off.not_ended", asked=asked.key, error=str(trouble)[:200], given_up=late)
                if late:
                    await self.open.done(asked)
        return len(left)

    async def run(self) -> None:
        """Sweep until cancelled."""
        while True:
            try:
                await self.sweep()
            except RedisError as why:
                log.warning("cut_off.store_away", error=str(why))
            except Exception:
                log.exception("cut_off.sweep_failed")  # the next look is the net under this one
            await self.pause(EVERY)

    async def _end(self, asked: DirectQuestion) -> None:
        async with self.open.alone(asked) as alone:
            if not alone or not await self.open.is_open(asked):
                return
            said = await self._said(asked)
            if not any(message.get("metadata") == asked.mark for message in said) and not await self._stopped(asked, said):
                await post(self.client, asked.channel, asked.thread_ts, CUT_OFF, asked.mark)
            await self.open.done(asked)

    async def _stopped(self, asked: DirectQuestion, said: Sequence[Mapping[str, Any]]) -> bool:
        """Whether the stream of its answer was still growing, and is ended now. Where the process died before it could note which message
        that is, it is one of ours since the question that neither is a whole answer nor another one's stream."""
        known = await self.open.stream_of(asked)
        others = await self.open.streams_now()
        unknown = [str(row["ts"]) for row in said if row.get("bot_id") and not row.get("metadata") and row["ts"] not in others]
        for ts in [known] if known else unknown:
            try:
                await self.client.chat_stopStream(channel=asked.channel, ts=ts, blocks=list(CUT_OFF.blocks), metadata=asked.mark)
            except SlackApiError as over:
                log.info("cut_off.no_stream", asked=asked.key, ts=ts, error=over.response["error"])
            else:
                return True
        return False

    async def _said(self, asked: DirectQuestion) -> list[Mapping[str, Any]]:
        """What stands in the thread since the question."""
        found: list[Mapping[str, Any]] = []
        cursor = ""
        for _ in range(MOST_PAGES):
            answer = await self.client.conversations_replies(
                channel=asked.channel, ts=asked.thread_ts, oldest=asked.ts, limit=PAGE, include_all_metadata=True, cursor=cursor or None
            )
            found += [row for row in answer["messages"] if float(row["ts"]) > float(asked.ts)]
            cursor = str((answer.get("response_metadata") or {}).get("next_cursor") or "")
            if not cursor:
                break
        return found
