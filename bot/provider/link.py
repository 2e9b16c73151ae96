"""From a customer's site to the intake of their provider: outwards only, over HTTPS, signed. The one place that calls it."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol
from uuid import uuid4

import aiohttp

from bot.inbound.pieces import AS_IT_IS, whole
from bot.inbound.webhook import signed_headers
from bot.provider.messages import BadMessage, StatesAnswer, TicketAnswer, read_states_answer, read_ticket_answer, states_message
from kb.redact import cleaned_start
from tools.clock import Clock

SECONDS, MOST_ANSWER = 20.0, 64 << 10
AGAIN = frozenset({408, 409, 425, 429})
"""Answers after which the same message is sent again, newly signed."""


class LinkAway(Exception):
    """The intake does not answer, or not now: it is tried again. `after`: not before so many seconds."""

    def __init__(self, why: str, after: float = 0.0) -> None:
        super().__init__(why)
        self.after = after


class LinkRefused(Exception):
    """The intake will not have it, however often it is sent."""


class ProviderLink(Protocol):
    """The provider, as the sender needs them."""

    async def tell(self, id_: str, body: bytes) -> TicketAnswer:
        """Send a ticket. Raises LinkAway and LinkRefused."""
        ...

    async def states(self, after: Mapping[str, int]) -> StatesAnswer:
        """How far tickets are, and what was said of each after so many words of people. Raises LinkAway and LinkRefused."""
        ...


@dataclass(frozen=True, slots=True)
class HttpLink:
    """The intake by its address and our key."""

    url: str
    key: bytes
    clock: Clock

    async def tell(self, id_: str, body: bytes) -> TicketAnswer:
        try:
            return read_ticket_answer(await self._post(id_, body))
        except BadMessage as why:
            raise LinkAway(str(why)) from why

    async def states(self, after: Mapping[str, int]) -> StatesAnswer:
        try:
            answer = await self._post(f"ask_{uuid4().hex}", states_message(after, self.clock.now()))
            return await asyncio.to_thread(read_states_answer, answer)
        except BadMessage as why:
            raise LinkAway(str(why)) from why

    async def _post(self, id_: str, body: bytes) -> bytes:
        headers = {**signed_headers(self.key, id_, self.clock.now(), body), **AS_IT_IS, "Content-Type": "application/json"}
        try:
            async with (
                aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=SECONDS), auto_decompress=False) as session,
                session.post(self.url, data=body, headers=headers, allow_redirects=False) as answer,
            ):
                said = await whole(answer.content.iter_any(), MOST_ANSWER)
                if said is None:
                    raise LinkAway(f"the intake answers more than {MOST_ANSWER >> 10} KiB")
                return _judged(answer.status, answer.headers.get("Retry-After", ""), said)
        except (aiohttp.ClientError, TimeoutError, OSError) as why:
            raise LinkAway(f"the intake cannot be reached: {str(why)[:160] or type(why).__name__}") from why


def _judged(status: int, after: str, said: bytes) -> bytes:
    if status == 200:
        return said
    why = f"the intake answers {status}{_why(said)}"
    if status in AGAIN or status >= 500:
        raise LinkAway(why, float(after) if after.isascii() and after.isdigit() and len(after) < 6 else 0.0)
    raise LinkRefused(why)


def _why(said: bytes) -> str:
    try:
        told = json.loads(said)["error"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""
    return f": {cleaned_start(told, 300)}" if isinstance(told, str) else ""
