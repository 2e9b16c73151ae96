"""A message of a thread that is posted once, however often it is asked for.

Before a post its intent is recorded; whoever finds the intent without a result looks into the thread for the message, which carries
its own metadata, and posts only when it is not there.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from slack_sdk.web.async_client import AsyncWebClient

from bot.cards.blocks import Card
from bot.slack.client import post
from bot.slack.outgoing.posts import POSTING, Cards
from graph.state import Origin


class Once:
    """`cards` remembers which message is which."""

    def __init__(self, client: AsyncWebClient, cards: Cards) -> None:
        self._client = client
        self._cards = cards

    async def post(self, origin: Origin, incident: str, name: str, card: Card, metadata: dict[str, Any]) -> str:
        """Post unless it is posted; the message's ts."""
        ts = await self._cards.claim(incident, name)
        if ts == POSTING:
            ts = await self._find(origin, metadata)
        elif ts:
            return ts
        ts = ts or await post(self._client, origin.channel, origin.thread_ts, card, metadata)
        await self._cards.set(incident, name, ts)
        return ts

    async def _find(self, origin: Origin, metadata: Mapping[str, Any]) -> str:
        """The message of the thread with this metadata, if a crash came after posting it."""
        for message in await self.thread(origin):
            if message.get("metadata") == metadata:
                return str(message["ts"])
        return ""

    async def thread(self, origin: Origin) -> Sequence[Mapping[str, Any]]:
        """Every message of the incident's thread, oldest first."""
        found: list[Mapping[str, Any]] = []
        cursor = ""
        while True:
            answer = await self._client.conversations_replies(
                channel=origin.channel, ts=origin.thread_ts, limit=200, include_all_metadata=True, cursor=cursor or None
            )
            found += answer["messages"]
            cursor = (answer.get("response_metadata") or {}).get("next_cursor") or ""
            if not cursor:
                return found
