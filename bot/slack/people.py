"""Facts about users and channels from Slack, cached for a minute, or for seconds where a decision depends on them.

An unknown answer is not guessed: `SlackAnswerMissing` refuses.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar, cast

from redis.exceptions import RedisError
from slack_sdk.web.async_client import AsyncWebClient

from bot.policy import channels as policy
from bot.policy.channels import Person
from bot.refusal import Refusal
from bot.slack.client import SLACK_ERRORS
from bot.store.slack_state import ANSWER_TTL_SECONDS, ChannelSharing, ChannelSharingCache

T = TypeVar("T")
CACHE_SECONDS = float(ANSWER_TTL_SECONDS)
# How long an answer serves decisions: a revoked approver can still approve for this long (SECURITY.md).
DECISION_CACHE_SECONDS = 10.0
MAX_CACHED_ANSWERS = 5000


class SlackAnswerMissing(Refusal):
    """Slack did not say who this is or who can read along."""

    def __init__(self) -> None:
        super().__init__("Slack did not tell me who can see this, so I did nothing. Please try again in a minute.")


class People:
    """Concurrent callers share one request.

    `seconds`: a monotonic clock. `fresh`: how many seconds an answer serves decisions. `marks`: channel sharing of all
    processes.
    """

    def __init__(
        self,
        client: AsyncWebClient,
        *,
        seconds: Callable[[], float] = time.monotonic,
        fresh: float = DECISION_CACHE_SECONDS,
        marks: ChannelSharingCache | None = None,
    ) -> None:
        self._client, self._fresh, self._marks = client, fresh, marks
        self._seconds = seconds
        self._known: dict[tuple[str, str], tuple[float, Any]] = {}  # (question, subject) → (when asked, answer)
        self._asking: dict[tuple[str, str], asyncio.Task[Any]] = {}

    async def get_person(self, user: str) -> Person:
        return await self._get_cached("person", user, self._fetch_person)

    async def get_name(self, user: str) -> str:
        """Return the display name, or the id where Slack does not answer."""
        try:
            return (await self.get_person(user)).name if user else ""
        except SlackAnswerMissing:
            return user

    async def is_shared(self, channel: str) -> bool:
        """Return whether another organisation can read the channel, or will once it accepts."""
        told = await self._get_sharing_mark(channel)
        if told is None:
            return await self._get_cached("shared", channel, self._fetch_shared)
        self._remember(("shared", channel), told.shared, told.age)
        return told.shared

    async def record_sharing(self, channel: str, *, shared: bool) -> None:
        """Record Slack's sharing event and drop older answers."""
        self.forget(channel)
        if self._marks is not None:
            await (self._marks.mark_shared(channel) if shared else self._marks.forget_channel(channel))

    async def _get_sharing_mark(self, channel: str) -> ChannelSharing | None:
        try:
            return await self._marks.get_sharing(channel) if self._marks is not None else None
        except (RedisError, OSError):
            self._known.pop(("shared", channel), None)
            return None

    async def list_members(self, group: str) -> frozenset[str]:
        """Return the user ids of a user group. Raises SlackAnswerMissing."""
        return await self._get_cached("group", group, self._fetch_group)

    async def list_approvers(self, group: str, team: str) -> frozenset[str]:
        """Return the group's active human full members of `team` as `TEAM:USER`."""
        people = await asyncio.gather(*(self.get_person(user) for user in sorted(await self.list_members(group)))) if group else []
        return frozenset(f"{team}:{who.id}" for who in people if who.human and who.team == team)

    def forget(self, *about: str) -> None:
        for key in [key for key in self._known if key[1] in about]:
            del self._known[key]

    def refresh(self, *about: str) -> None:
        """Drop answers that are too old for a decision."""
        old = self._seconds() - self._fresh
        for key in [key for key, (asked, _) in self._known.items() if key[1] in about and asked <= old]:
            del self._known[key]

    async def is_in_any(self, user: str, channels: Iterable[str]) -> bool:
        for channel in channels:
            if user in await self._get_cached("members", channel, self._fetch_channel_members):
                return True
        return False

    async def list_channel_members(self, channel: str) -> frozenset[str]:
        return await self._get_cached("members", channel, self._fetch_channel_members)

    async def _fetch_person(self, user: str) -> Person:
        answer = await self._client.users_info(user=user)
        return policy.parse_person(answer["user"])

    async def _fetch_shared(self, channel: str) -> bool:
        row = (await self._client.conversations_info(channel=channel))["channel"]
        shared = any(row.get(sign) for sign in ("is_ext_shared", "is_pending_ext_shared"))
        if self._marks is not None:
            with contextlib.suppress(RedisError, OSError):
                await self._marks.save_answer(channel, shared=shared)
        return shared

    async def _fetch_channel_members(self, channel: str) -> frozenset[str]:
        found: set[str] = set()
        cursor = ""
        while True:
            answer = await self._client.conversations_members(channel=channel, limit=1000, cursor=cursor or None)
            found |= set(answer["members"])
            cursor = (answer.get("response_metadata") or {}).get("next_cursor") or ""
            if not cursor:
                return frozenset(found)

    async def _fetch_group(self, group: str) -> frozenset[str]:
        answer = await self._client.usergroups_users_list(usergroup=group, include_disabled=False)
        return frozenset(str(user) for user in answer["users"])

    async def _get_cached(self, what: str, about: str, ask: Callable[[str], Awaitable[T]]) -> T:
        """Return the cached answer or ask Slack."""
        key = (what, about)
        known = self._known.get(key)
        if known is not None and known[0] + CACHE_SECONDS > self._seconds():
            return cast(T, known[1])
        task = self._asking.get(key)
        if task is None:
            task = self._asking[key] = asyncio.create_task(self._fetch_and_cache(key, ask))
            task.add_done_callback(lambda _: self._asking.pop(key, None))
        try:
            return cast(T, await asyncio.shield(task))
        except SLACK_ERRORS as error:
            raise SlackAnswerMissing from error

    async def _fetch_and_cache(self, key: tuple[str, str], ask: Callable[[str], Awaitable[Any]]) -> Any:
        told = await ask(key[1])
        self._remember(key, told)
        return told

    def _remember(self, key: tuple[str, str], told: Any, age: float = 0.0) -> None:
        if len(self._known) >= MAX_CACHED_ANSWERS:
            self._known.clear()
        self._known[key] = (self._seconds() - age, told)
