"""The Slack client as we want it: patient with rate limits, never repeating a post whose answer was lost, and slow enough for edits.

A repeated `chat.postMessage` is a second message, so connection errors are not retried here: the desk comes back to an unposted
report, and the board looks for it in the thread before posting again.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import ClientError
from slack_sdk.errors import SlackClientError
from slack_sdk.http_retry.builtin_async_handlers import AsyncRateLimitErrorRetryHandler
from slack_sdk.web.async_client import AsyncWebClient

from bot.cards.blocks import Card

SlackClient = AsyncWebClient
"""What `slack_client` makes, for those who only pass it on."""

SLACK_TROUBLE = (SlackClientError, ClientError, TimeoutError, OSError)
"""What a call to Slack may raise without it being our bug."""


def slack_client(token: str, base_url: str = "https://slack.com/api/", *, tries: int = 3) -> AsyncWebClient:
    """A client for the bot token; `tries` more after a 429, each when Slack says."""
    return AsyncWebClient(token, base_url, timeout=30, retry_handlers=[AsyncRateLimitErrorRetryHandler(max_retry_count=tries)])


def said(card: Card) -> dict[str, Any]:
    """A card as arguments of chat.*: nothing unfurls, nothing turns into a mention."""
    return {"blocks": list(card.blocks), "text": card.text, "parse": "none", "link_names": False}


async def post(client: AsyncWebClient, channel: str, thread_ts: str, card: Card, metadata: dict[str, Any] | None = None) -> str:
    """A new message in a thread; its ts."""
    words = said(card) | ({"metadata": metadata} if metadata else {})
    answer = await client.chat_postMessage(channel=channel, thread_ts=thread_ts or None, unfurl_links=False, unfurl_media=False, **words)
    return str(answer["ts"])


class Throttle:
    """A rate kept by waiting: `await throttle.turn()` returns when the next call is allowed.

    Slack's tiers are per method and workspace, so one throttle serves all cards.
    """

    def __init__(
        self,
        per_minute: float,
        burst: int,
        *,
        seconds: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._each = 60 / per_minute
        self._burst = burst
        self._seconds = seconds
        self._sleep = sleep
        self._free_at = seconds() - burst * self._each

    async def turn(self) -> None:
        """Wait for a place; places that nobody took are kept up to `burst`."""
        now = self._seconds()
        self._free_at = max(self._free_at, now - self._burst * self._each) + self._each
        if self._free_at > now:
            await self._sleep(self._free_at - now)
