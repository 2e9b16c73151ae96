"""On-call lookup from a Slack user group, a JSON file or a URL.

Format: `{"users": ["U0ANTON"], "until": "2026-11-23T08:00:00Z"}`; `until` is optional. With an invalid or expired
answer no one counts as on call.
"""

import asyncio
import json
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final, Protocol

import aiohttp

from bot.policy.approvals import OnCallSource
from bot.refusal import Refusal
from graph.context import OnCallStatus
from tools.clock import Clock

MAX_RESPONSE_BYTES: Final = 64 * 1024
MAX_USERS: Final = 50
FETCH_TIMEOUT_SECONDS: Final = 5.0
CACHE_SECONDS: Final = 60.0  # an answer is reused, so that not every click fetches the schedule
_USER_ID_PATTERN = re.compile(r"[UW][A-Z0-9]{1,30}")
UrlFetcher = Callable[[str], Awaitable[bytes]]


class OnCallUnknown(Refusal):
    """It could not be seen who is on call."""


class UserGroups(Protocol):
    async def list_members(self, group: str) -> frozenset[str]: ...


async def fetch_url(url: str) -> bytes:
    """Return a bounded body, without redirects. Raises OnCallUnknown."""
    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=FETCH_TIMEOUT_SECONDS)) as http,
            http.get(url, allow_redirects=False, headers={"Accept": "application/json"}) as answer,
        ):
            if answer.status != 200:
                raise OnCallUnknown(f"the schedule answers {answer.status}")
            return await _read_bounded(answer.content)
    except (aiohttp.ClientError, TimeoutError, OSError) as why:
        raise OnCallUnknown(f"the schedule cannot be reached: {type(why).__name__}") from why


async def _read_bounded(content: aiohttp.StreamReader) -> bytes:
    found = bytearray()
    async for part in content.iter_chunked(8192):
        found += part
        if len(found) > MAX_RESPONSE_BYTES:
            break
    return bytes(found)


def read_bounded_file(path: Path) -> bytes:
    """Return at most MAX_RESPONSE_BYTES + 1 bytes. Raises OnCallUnknown."""
    try:
        with path.expanduser().open("rb") as file:
            return file.read(MAX_RESPONSE_BYTES + 1)
    except OSError as why:
        raise OnCallUnknown(f"{path} cannot be read: {why.strerror}") from why


def parse_on_call(text: bytes, now: datetime) -> frozenset[str]:
    """Return the user ids. Raises OnCallUnknown if malformed or expired."""
    if len(text) > MAX_RESPONSE_BYTES:
        raise OnCallUnknown("it is too long to be who is on call")
    try:
        row = json.loads(text)
    except (ValueError, RecursionError) as why:
        raise OnCallUnknown("it is no JSON") from why
    users = row.get("users") if isinstance(row, dict) else None
    if (
        not isinstance(users, list)
        or len(users) > MAX_USERS
        or not all(isinstance(user, str) and _USER_ID_PATTERN.fullmatch(user) for user in users)
    ):
        raise OnCallUnknown('it must be {"users": ["U…"]}, with Slack\'s user ids')
    if "until" in row and not _is_still_valid(row["until"], now):
        raise OnCallUnknown("it is over by now, or does not say until when with a time zone")
    return frozenset(users)


def _is_still_valid(until: object, now: datetime) -> bool:
    try:
        at = datetime.fromisoformat(until) if isinstance(until, str) else None
    except ValueError:
        return False
    return at is not None and at.tzinfo is not None and now < at


@dataclass(slots=True)
class OnCallSchedules:
    """All on-call sources. Answers are cached for CACHE_SECONDS, failures are not."""

    sources: Mapping[str, OnCallSource]
    groups: UserGroups
    clock: Clock
    fetch: UrlFetcher = fetch_url
    seconds: Callable[[], float] = time.monotonic
    _known: dict[str, tuple[float, bytes]] = field(default_factory=dict)

    async def list_on_call(self, name: str) -> frozenset[str]:
        """Return Slack user ids. Raises OnCallUnknown if the source cannot be read."""
        source = self.sources.get(name)
        if source is None:
            raise OnCallUnknown(f"there is no source {name!r}")
        if source.user_group:
            return await self.groups.list_members(source.user_group)
        return parse_on_call(await self._load_text(name, source), self.clock.now())

    async def _load_text(self, name: str, source: OnCallSource) -> bytes:
        known = self._known.get(name)
        if known is not None and known[0] + CACHE_SECONDS > self.seconds():
            return known[1]
        text = await self.fetch(source.webhook) if source.webhook else await asyncio.to_thread(read_bounded_file, Path(source.file or ""))
        parse_on_call(text, self.clock.now())
        self._known[name] = (self.seconds(), text)
        return text


@dataclass(frozen=True, slots=True)
class OnCallLookup:
    """Returns who is on call by each source, with names. A source that cannot be read says why."""

    schedules: OnCallSchedules
    get_name: Callable[[str], Awaitable[str]]

    async def __call__(self) -> Sequence[OnCallStatus]:
        return [await self._read_source(name) for name in self.schedules.sources]

    async def _read_source(self, name: str) -> OnCallStatus:
        try:
            users = await self.schedules.list_on_call(name)
        except Refusal as why:
            return OnCallStatus(name, could_not=str(why))
        return OnCallStatus(name, tuple([await self.get_name(user) or user for user in sorted(users)]))
