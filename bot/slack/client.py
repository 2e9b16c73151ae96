"""The Slack client: rate-limited, redacting all outgoing text, and never repeating a post after a lost answer.

A repeated `chat.postMessage` is a second message, so connection errors are not retried here: the poster searches the
thread before it posts again.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from aiohttp import ClientError
from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.web.async_client import AsyncWebClient
from slack_sdk.web.async_slack_response import AsyncSlackResponse

from bot.cards.blocks import Card
from bot.slack.rate_limits import RateLimits, SharedCallTurns
from kb.numbers import parse_seconds
from kb.redact import redact_data, redact_once

SlackClient = AsyncWebClient  # the type for code that only passes the client on

MAX_RETRY_AFTER_SECONDS = 3600.0
# What a Slack call may raise without a bug of ours.
SLACK_ERRORS = (SlackClientError, ClientError, TimeoutError, OSError)


# Ids and payloads of buttons and forms, which Slack returns unchanged or compares. None of them is displayed.
UNREDACTED_FIELDS = frozenset(
    {"action_id", "block_id", "callback_id", "channel", "external_id", "private_metadata", "token", "ts", "thread_ts", "user", "value"}
)


class PacedClient(AsyncWebClient):
    """Redacts every call, waits for its turn, and retries a 429 up to `tries` times."""

    def __init__(self, token: str, base_url: str, *, tries: int, timeout: int = 30, others: SharedCallTurns | None = None) -> None:
        super().__init__(token, base_url, timeout=timeout, retry_handlers=[])
        self._pace, self._tries = RateLimits(others=others), tries

    async def api_call(self, api_method: str, **how: Any) -> AsyncSlackResponse:
        how = {name: redact_data(part, UNREDACTED_FIELDS) if name in ("json", "params", "data") else part for name, part in how.items()}
        said = how.get("params") or how.get("json") or how.get("data") or {}
        gate = self._pace.get_gate(api_method, str(said.get("channel", "")) if isinstance(said, Mapping) else "")
        for left in range(self._tries, -1, -1):
            await gate.wait_turn()
            try:
                return await super().api_call(api_method, **how)
            except SlackApiError as error:
                if not (after := _get_retry_after(error)):
                    raise
                await gate.apply_retry_after(after)
                if not left:
                    raise
        raise AssertionError("unreachable")

    async def files_upload_v2(self, **how: Any) -> AsyncSlackResponse:
        """Redact text here: file bytes bypass `api_call`. Binary content is an image of ours."""
        if isinstance(how.get("content"), str):
            how["content"] = await asyncio.to_thread(redact_once, how["content"])
        return await super().files_upload_v2(**how)


def _get_retry_after(no: SlackApiError) -> float:
    if getattr(no.response, "status_code", 0) != 429:
        return 0.0
    after = (getattr(no.response, "headers", None) or {}).get("Retry-After", "1")
    return max(1.0, parse_seconds(after, MAX_RETRY_AFTER_SECONDS) or 1.0)


def build_slack_client(
    token: str, base_url: str = "https://slack.com/api/", *, tries: int = 3, others: SharedCallTurns | None = None
) -> AsyncWebClient:
    """Return a client. `tries`: retries after a 429. `others`: turns shared with other processes."""
    return PacedClient(token, base_url, tries=tries, others=others)


def build_message_args(card: Card) -> dict[str, Any]:
    """Return a card as arguments of chat.*, without link or mention parsing."""
    return {"blocks": list(card.blocks), "text": card.text, "parse": "none", "link_names": False}


async def post_message(client: AsyncWebClient, channel: str, thread_ts: str, card: Card, metadata: dict[str, Any] | None = None) -> str:
    words = build_message_args(card) | ({"metadata": metadata} if metadata else {})
    answer = await client.chat_postMessage(channel=channel, thread_ts=thread_ts or None, unfurl_links=False, unfurl_media=False, **words)
    return str(answer["ts"])


class Throttle:
    """A rate kept by waiting; one serves all cards, as Slack's tiers are per method and workspace."""

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

    async def wait_turn(self) -> None:
        """Wait for a place. Unused places accumulate up to `burst`."""
        now = self._seconds()
        self._free_at = max(self._free_at, now - self._burst * self._each) + self._each
        if self._free_at > now:
            await self._sleep(self._free_at - now)
