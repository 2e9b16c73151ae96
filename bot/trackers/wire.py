"""The one place that calls a tracker: an HTTP request out, a bounded answer back, or why there is none."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from bot.cards.text import MOST_URL, WEB
from bot.inbound.pieces import AS_IT_IS, whole
from bot.trackers.tracker import TrackerAway, TrackerGone, TrackerLong, TrackerRefused
from kb.redact import cleaned_start, visible
from tools.clock import Clock

SECONDS, MOST_ANSWER, MOST_WORDS = 20.0, 1 << 20, 300
AGAIN = frozenset({408, 425, 429})
SECONDARY = 60.0
"""Seconds that a caller waits who is over a limit and is not told for how long."""
MOST_WAIT = 6 * 3600.0


@dataclass(frozen=True, slots=True)
class WireAnswer:
    """An answer, whichever it is; `data` is None where it is no JSON."""

    status: int
    headers: Mapping[str, str]
    data: Any


@dataclass(frozen=True, slots=True)
class TrackerWire:
    """A tracker by its address. `words`: as people call it; `mends`: what to do about a status; `why`: their own words in an answer."""

    words: str
    base: str
    clock: Clock
    headers: Mapping[str, str]
    mends: Mapping[int, str]
    why: Callable[[Any], str]
    seconds: float = field(default=SECONDS)

    async def ask(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        gone: bool = False,
    ) -> WireAnswer:
        """An answer that is none of trouble. Raises TrackerAway and TrackerRefused; `gone`: and TrackerGone for what is not there any more."""
        answer = await self._answer(method, path, params, None if body is None else json.dumps(body).encode(), headers or {})
        if gone and answer.status in (404, 410):
            raise TrackerGone(f"{self.words} answers {answer.status}: it is not there any more, or not for us")
        return self._judged(method, answer)

    async def send(self, body: bytes, headers: Mapping[str, str]) -> WireAnswer:
        """The same of these very bytes, to the address itself."""
        return self._judged("POST", await self._answer("POST", "", None, body, headers))

    def _judged(self, method: str, answer: WireAnswer) -> WireAnswer:
        if answer.status < 300 or answer.status == 304:
            return answer
        raise self._trouble(method, answer)

    async def _answer(
        self, method: str, path: str, params: Mapping[str, str] | None, body: bytes | None, headers: Mapping[str, str]
    ) -> WireAnswer:
        """The answer, whatever it is. Raises TrackerAway where there is none."""
        json_body = {"Content-Type": "application/json"} if body is not None else {}
        try:
            async with (
                aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=self.seconds), auto_decompress=False) as session,
                session.request(
                    method,
                    f"{self.base}{path}",
                    params=params,
                    data=body,
                    headers={**AS_IT_IS, "Accept": "application/json", "User-Agent": "RackMedic", **json_body, **self.headers, **headers},
                    allow_redirects=False,
                ) as answer,
            ):
                said = await whole(answer.content.iter_any(), MOST_ANSWER)
                if said is None:
                    raise TrackerLong(f"{self.words} answers more than {MOST_ANSWER >> 20} MiB", maybe=method != "GET")
                return WireAnswer(answer.status, {name.lower(): _written(value) for name, value in answer.headers.items()}, _json(said))
        except aiohttp.ClientConnectorError as why:
            raise TrackerAway(f"{self.words} cannot be reached: {str(why)[:160]}") from why
        except (aiohttp.ClientError, TimeoutError, OSError) as why:
            raise TrackerAway(f"{self.words} does not answer: {str(why)[:160] or type(why).__name__}", maybe=method != "GET") from why

    def _trouble(self, method: str, answer: WireAnswer) -> TrackerAway | TrackerRefused:
        said = words_of(self.why(answer.data)) if answer.data is not None else ""
        why = f"{self.words} answers {answer.status}{f': {said}' if said else ''}"
        if _limited(answer):
            return TrackerAway(why, wait_of(answer.headers, self.clock.now()))
        if answer.status in AGAIN or answer.status >= 500:
            return TrackerAway(why, wait_of(answer.headers, self.clock.now(), least=0.0), maybe=method != "GET" and answer.status >= 500)
        mend = self.mends.get(answer.status) or (self.mends.get(301, "") if answer.status < 400 else "")
        return TrackerRefused(f"{why}. {mend}".strip() if mend else why)


def _limited(answer: WireAnswer) -> bool:
    """Over a limit: said with 429, or with 403 and what that product says beside it."""
    over = "retry-after" in answer.headers or answer.headers.get("x-ratelimit-remaining") == "0"
    secondary = isinstance(answer.data, dict) and "rate limit" in str(answer.data.get("message", ""))[:400].lower()
    return answer.status == 429 or (answer.status == 403 and (over or secondary))


def wait_of(headers: Mapping[str, str], now: datetime, least: float = SECONDARY) -> float:
    """For how many seconds to leave them alone: what they say, in seconds or as a time; else `least`."""
    after = headers.get("retry-after", "")
    if after.isascii() and after.isdigit() and len(after) < 8:
        return min(float(after), MOST_WAIT)
    try:
        return min(max((parsedate_to_datetime(after[:60]).astimezone(UTC) - now).total_seconds(), 0.0), MOST_WAIT)
    except (ValueError, TypeError, OverflowError):
        pass  # no time either: another header may say it
    return _reset(headers, now) or least


def _reset(headers: Mapping[str, str], now: datetime) -> float:
    """Until a limit is over that is used up, as GitHub says it (a moment), PagerDuty (seconds) or Jira (a time); 0 where nobody says it."""
    seconds, moment = headers.get("ratelimit-reset", ""), headers.get("x-ratelimit-reset", "")
    if headers.get("ratelimit-remaining") == "0" and seconds.isascii() and seconds.isdigit() and len(seconds) < 8:
        return min(max(float(seconds), 1.0), MOST_WAIT)
    if headers.get("x-ratelimit-remaining") != "0":
        return 0.0
    if moment.isascii() and moment.isdigit() and len(moment) < 12:
        return min(max(float(moment) - now.timestamp(), 1.0), MOST_WAIT)
    try:
        return min(max((datetime.fromisoformat(moment[:40]).astimezone(UTC) - now).total_seconds(), 1.0), MOST_WAIT)
    except (ValueError, OverflowError):
        return 0.0


def words_of(text: str, most: int = MOST_WORDS) -> str:
    """What they said, as it may be shown: one line, bounded, without secrets."""
    return " ".join(visible(cleaned_start(text, 2 * most)).split())[:most]


def safe_url(url: object, base: str, below: str = "") -> str:
    """An address of theirs that may be linked, or empty: on the very host that we asked, on that of whose API it is, or below `below`."""
    if not isinstance(url, str) or len(url) > MOST_URL or not WEB.fullmatch(url):
        return ""
    ours, theirs = _site(base), _site(url)
    known = theirs == ours or theirs == (ours[0], ours[1].removeprefix("api."))
    return url if known or (below and theirs[0] == "https" and theirs[1].endswith(f".{below}")) else ""


def _site(url: str) -> tuple[str, str]:
    """Scheme and host with its port; the host of what is no address is nobody's."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return url, ""
    return parts.scheme, parts.netloc.lower()


def text_at(data: Any, *way: str) -> str:
    """A text inside an answer; empty where the answer has another shape."""
    for step in way:
        data = data.get(step) if isinstance(data, dict) else None
    return _written(data) if isinstance(data, str) else str(data) if isinstance(data, int) and not isinstance(data, bool) else ""


def _written(text: str) -> str:
    """As it can be kept: half of a letter is none."""
    return text.encode("utf-8", "replace").decode()


def _json(said: bytes) -> Any:
    try:
        return json.loads(said)
    except (ValueError, RecursionError):
        return None
