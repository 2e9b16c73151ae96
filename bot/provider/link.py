"""Connection of a tenant's site to the provider: outbound only, HTTPS, signed."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol
from uuid import uuid4

import aiohttp

from bot.inbound import IDENTITY_ENCODING_HEADERS, build_signed_headers, read_limited_body
from bot.provider.wire_messages import (
    BadMessage,
    StatesAnswer,
    TicketAnswer,
    build_states_message,
    parse_states_answer,
    parse_ticket_answer,
)
from kb.redact import redact_start
from tools.clock import Clock

TIMEOUT_SECONDS = 20.0
MAX_ANSWER_BYTES = 64 << 10
RETRY_STATUSES = frozenset({408, 409, 425, 429})  # the message is sent again, newly signed


class LinkUnavailable(Exception):
    """The intake does not answer, or not now: it is tried again. `after`: not before so many seconds."""

    def __init__(self, why: str, after: float = 0.0) -> None:
        super().__init__(why)
        self.after = after


class LinkRefused(Exception):
    """The intake will not have it, however often it is sent."""


class ProviderLink(Protocol):
    async def send_ticket(self, id_: str, body: bytes) -> TicketAnswer:
        """Send a ticket. Raises LinkUnavailable, LinkRefused."""
        ...

    async def fetch_states(self, after: Mapping[str, int]) -> StatesAnswer:
        """Return states, and messages after a number per ticket. Raises LinkUnavailable, LinkRefused."""
        ...


@dataclass(frozen=True, slots=True)
class HttpProviderLink:
    url: str
    key: bytes
    clock: Clock

    async def send_ticket(self, id_: str, body: bytes) -> TicketAnswer:
        try:
            return parse_ticket_answer(await self._post_message(id_, body))
        except BadMessage as error:
            raise LinkUnavailable(str(error)) from error

    async def fetch_states(self, after: Mapping[str, int]) -> StatesAnswer:
        try:
            answer = await self._post_message(f"ask_{uuid4().hex}", build_states_message(after, self.clock.now()))
            return await asyncio.to_thread(parse_states_answer, answer)
        except BadMessage as error:
            raise LinkUnavailable(str(error)) from error

    async def _post_message(self, id_: str, body: bytes) -> bytes:
        headers = {
            **build_signed_headers(self.key, id_, self.clock.now(), body),
            **IDENTITY_ENCODING_HEADERS,
            "Content-Type": "application/json",
        }
        try:
            async with (
                aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=TIMEOUT_SECONDS), auto_decompress=False) as session,
                session.post(self.url, data=body, headers=headers, allow_redirects=False) as answer,
            ):
                answer_body = await read_limited_body(answer.content.iter_any(), MAX_ANSWER_BYTES)
                if answer_body is None:
                    raise LinkUnavailable(f"the intake answers more than {MAX_ANSWER_BYTES >> 10} KiB")
                return _check_response(answer.status, answer.headers.get("Retry-After", ""), answer_body)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise LinkUnavailable(f"the intake cannot be reached: {str(error)[:160] or type(error).__name__}") from error


def _check_response(status: int, after: str, said: bytes) -> bytes:
    if status == 200:
        return said
    problem = f"the intake answers {status}{_format_error(said)}"
    if status in RETRY_STATUSES or status >= 500:
        raise LinkUnavailable(problem, float(after) if after.isascii() and after.isdigit() and len(after) < 6 else 0.0)
    raise LinkRefused(problem)


def _format_error(said: bytes) -> str:
    try:
        error_text = json.loads(said)["error"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""
    return f": {redact_start(error_text, 300)}" if isinstance(error_text, str) else ""
