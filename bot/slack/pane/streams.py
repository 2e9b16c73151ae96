"""An answer as one message: posted whole, or streamed a few blocks at a time where it is long and Slack streams.

Rules it keeps: each call carries a bounded part of a card that was made whole before, so nothing is written for a stream that a message would
not say; and after the first refusal of streaming every answer of this process is a plain message.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import structlog
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from bot.cards.blocks import Block, Card
from bot.slack.client import post, said
from bot.slack.pane.unanswered import DirectQuestion, Unanswered

log = structlog.get_logger()
AT_ONCE: Final = 8
"""Blocks of one call; an answer of no more is not worth a stream."""
BUSY: Final = frozenset({"ratelimited", "rate_limited", "service_unavailable", "fatal_error", "internal_error", "request_timeout"})
"""Slack cannot just now; anything else that it says to a stream it would say to the next one too."""


@dataclass
class StreamedAnswers:
    """`say` answers a question. `on`: try to stream."""

    client: AsyncWebClient
    open: Unanswered
    on: bool = True

    async def say(self, asked: DirectQuestion, card: Card, title: str) -> None:
        """Post the card, or stream it under `title`, which is ours and never data. Raises what posting raises."""
        if not (self.on and title and len(card.blocks) > AT_ONCE) or not await self._streamed(asked, card, title):
            await post(self.client, asked.channel, asked.thread_ts, card, asked.mark)

    async def _streamed(self, asked: DirectQuestion, card: Card, title: str) -> bool:
        """False where Slack refuses to begin."""
        first, *rest = parts(card.blocks)
        place = {"channel": asked.channel, "thread_ts": asked.thread_ts}
        who = {"recipient_user_id": asked.user, "recipient_team_id": asked.team}
        try:
            begun = await self.client.chat_startStream(**place, **who, chunks=[{"type": "markdown_text", "text": f"**{title}**"}, first])
        except SlackApiError as no:
            self._refused(no)
            return False
        ts = str(begun["ts"])
        await self.open.streams(asked, ts)
        try:
            for part in rest:
                await self.client.chat_appendStream(channel=asked.channel, ts=ts, chunks=[part])
            await self.client.chat_stopStream(channel=asked.channel, ts=ts, metadata=asked.mark)
        except SlackApiError as no:
            self._refused(no)
            await self._whole(asked, ts, card)
        return True

    async def _whole(self, asked: DirectQuestion, ts: str, card: Card) -> None:
        """What was begun becomes the whole card by an edit, unless another process has taken us for dead and ended it."""
        if not await self.open.is_open(asked):
            return
        try:
            await self.client.chat_stopStream(channel=asked.channel, ts=ts)
        except SlackApiError as over:  # Slack edits no message that grows; one that it has ended itself may be edited
            log.info("streams.over_already", asked=asked.key, error=over.response["error"])
        await self.client.chat_update(channel=asked.channel, ts=ts, metadata=asked.mark, **said(card))

    def _refused(self, no: SlackApiError) -> None:
        error = str(no.response["error"])
        ended = error == "message_not_in_streaming_state"
        self.on = self.on and (ended or error in BUSY)
        log.warning("streams.refused", error=error, remembered=not self.on)


def parts(blocks: Sequence[Block]) -> list[dict[str, Any]]:
    """The blocks as chunks of a stream."""
    return [{"type": "blocks", "blocks": list(blocks[n : n + AT_ONCE])} for n in range(0, len(blocks), AT_ONCE)]
