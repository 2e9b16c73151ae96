"""HTTP client of trackers, with bounded answers."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from bot.cards.text import MAX_URL_CHARS, WEB_URL_PATTERN
from bot.inbound import IDENTITY_ENCODING_HEADERS, read_limited_body
from bot.trackers.tracker import TrackerAnswerTooLong, TrackerRefused, TrackerTicketGone, TrackerUnavailable
from kb.redact import redact_start, show_invisible
from tools.clock import Clock

TIMEOUT_SECONDS = 20.0
MAX_ANSWER_BYTES = 1 << 20
MAX_ERROR_CHARS = 300
RETRY_STATUSES = frozenset({408, 425, 429})
DEFAULT_RETRY_SECONDS = 60.0  # wait after a rate limit without a stated delay
MAX_RETRY_SECONDS = 6 * 3600.0


@dataclass(frozen=True, slots=True)
class TrackerResponse:
    """`data` is None if it is not JSON."""

    status: int
    headers: Mapping[str, str]
    data: Any


@dataclass(frozen=True, slots=True)
class TrackerHttpClient:
    """`words`: display name; `mends`: fix hints by status; `why`: extracts an error text."""

    words: str
    base: str
    clock: Clock
    headers: Mapping[str, str]
    mends: Mapping[int, str]
    why: Callable[[Any], str]
    seconds: float = field(default=TIMEOUT_SECONDS)

    async def send_request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        gone: bool = False,
    ) -> TrackerResponse:
        """Return a successful answer. Raises TrackerUnavailable, TrackerRefused.

        With `gone`, 404 and 410 raise TrackerTicketGone.
        """
        answer = await self._fetch_response(method, path, params, None if body is None else json.dumps(body).encode(), headers or {})
        if gone and answer.status in (404, 410):
            raise TrackerTicketGone(f"{self.words} answers {answer.status}: it is gone, or we may not read it")
        return self._check_response(method, answer)

    async def send_signed_body(self, body: bytes, headers: Mapping[str, str]) -> TrackerResponse:
        """Post these exact bytes. Raises as `send_request`."""
        return self._check_response("POST", await self._fetch_response("POST", "", None, body, headers))

    def _check_response(self, method: str, answer: TrackerResponse) -> TrackerResponse:
        if answer.status < 300 or answer.status == 304:
            return answer
        raise self._build_error(method, answer)

    async def _fetch_response(
        self, method: str, path: str, params: Mapping[str, str] | None, body: bytes | None, headers: Mapping[str, str]
    ) -> TrackerResponse:
        """Return any answer. Raises TrackerUnavailable."""
        json_body = {"Content-Type": "application/json"} if body is not None else {}
        try:
            async with (
                aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=self.seconds), auto_decompress=False) as session,
                session.request(
                    method,
                    f"{self.base}{path}",
                    params=params,
                    data=body,
                    headers={
                        **IDENTITY_ENCODING_HEADERS,
                        "Accept": "application/json",
                        "User-Agent": "RackMedic",
                        **json_body,
                        **self.headers,
                        **headers,
                    },
                    allow_redirects=False,
                ) as answer,
            ):
                answer_body = await read_limited_body(answer.content.iter_any(), MAX_ANSWER_BYTES)
                if answer_body is None:
                    raise TrackerAnswerTooLong(f"{self.words} answers more than {MAX_ANSWER_BYTES >> 20} MiB", maybe=method != "GET")
                return TrackerResponse(
                    answer.status,
                    {name.lower(): _replace_surrogates(value) for name, value in answer.headers.items()},
                    _parse_json(answer_body),
                )
        except aiohttp.ClientConnectorError as error:
            raise TrackerUnavailable(f"{self.words} cannot be reached: {str(error)[:160]}") from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise TrackerUnavailable(
                f"{self.words} does not answer: {str(error)[:160] or type(error).__name__}", maybe=method != "GET"
            ) from error

    def _build_error(self, method: str, answer: TrackerResponse) -> TrackerUnavailable | TrackerRefused:
        error_text = clean_remote_text(self.why(answer.data)) if answer.data is not None else ""
        message = f"{self.words} answers {answer.status}{f': {error_text}' if error_text else ''}"
        if _is_rate_limited(answer):
            return TrackerUnavailable(message, parse_retry_after(answer.headers, self.clock.now()))
        if answer.status in RETRY_STATUSES or answer.status >= 500:
            return TrackerUnavailable(
                message, parse_retry_after(answer.headers, self.clock.now(), least=0.0), maybe=method != "GET" and answer.status >= 500
            )
        mend = self.mends.get(answer.status) or (self.mends.get(301, "") if answer.status < 400 else "")
        return TrackerRefused(f"{message}. {mend}".strip() if mend else message)


def _is_rate_limited(answer: TrackerResponse) -> bool:
    """Match 429, or 403 with a product's rate-limit signs."""
    over = "retry-after" in answer.headers or answer.headers.get("x-ratelimit-remaining") == "0"
    secondary = isinstance(answer.data, dict) and "rate limit" in str(answer.data.get("message", ""))[:400].lower()
    return answer.status == 429 or (answer.status == 403 and (over or secondary))


def parse_retry_after(headers: Mapping[str, str], now: datetime, least: float = DEFAULT_RETRY_SECONDS) -> float:
    """Return seconds to wait, from the headers or `least`."""
    after = headers.get("retry-after", "")
    if after.isascii() and after.isdigit() and len(after) < 8:
        return min(float(after), MAX_RETRY_SECONDS)
    try:
        return min(max((parsedate_to_datetime(after[:60]).astimezone(UTC) - now).total_seconds(), 0.0), MAX_RETRY_SECONDS)
    except (ValueError, TypeError, OverflowError):
        pass  # not a time either: try other headers
    return _parse_rate_limit_reset(headers, now) or least


def _parse_rate_limit_reset(headers: Mapping[str, str], now: datetime) -> float:
    """Return seconds until reset: GitHub sends an epoch, PagerDuty seconds, Jira a time. Else 0."""
    seconds, moment = headers.get("ratelimit-reset", ""), headers.get("x-ratelimit-reset", "")
    if headers.get("ratelimit-remaining") == "0" and seconds.isascii() and seconds.isdigit() and len(seconds) < 8:
        return min(max(float(seconds), 1.0), MAX_RETRY_SECONDS)
    if headers.get("x-ratelimit-remaining") != "0":
        return 0.0
    if moment.isascii() and moment.isdigit() and len(moment) < 12:
        return min(max(float(moment) - now.timestamp(), 1.0), MAX_RETRY_SECONDS)
    try:
        return min(max((datetime.fromisoformat(moment[:40]).astimezone(UTC) - now).total_seconds(), 1.0), MAX_RETRY_SECONDS)
    except (ValueError, OverflowError):
        return 0.0


def clean_remote_text(text: str, max_chars: int = MAX_ERROR_CHARS) -> str:
    """Return the text as one redacted line of at most `max_chars`."""
    return " ".join(show_invisible(redact_start(text, 2 * max_chars)).split())[:max_chars]


def filter_remote_url(url: object, base: str, below: str = "") -> str:
    """Return a URL on the tracker's host or below domain `below`, else empty."""
    if not isinstance(url, str) or len(url) > MAX_URL_CHARS or not WEB_URL_PATTERN.fullmatch(url):
        return ""
    own_origin, other_origin = _split_origin(base), _split_origin(url)
    is_known_origin = other_origin == own_origin or other_origin == (own_origin[0], own_origin[1].removeprefix("api."))
    return url if is_known_origin or (below and other_origin[0] == "https" and other_origin[1].endswith(f".{below}")) else ""


def _split_origin(url: str) -> tuple[str, str]:
    """Return (scheme, host); the host of an invalid address is empty."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return url, ""
    return parts.scheme, parts.netloc.lower()


def get_text_at(data: Any, *way: str) -> str:
    """Return a text inside an answer, else empty."""
    for step in way:
        data = data.get(step) if isinstance(data, dict) else None
    if isinstance(data, str):
        return _replace_surrogates(data)
    return str(data) if isinstance(data, int) and not isinstance(data, bool) else ""


def _replace_surrogates(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _parse_json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None
