"""Who somebody is and whether a channel can be read from outside, as Slack says; remembered for a minute.

What Slack does not tell is not guessed: `CannotTell` refuses.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

from slack_sdk.web.async_client import AsyncWebClient

from bot.policy import channels as policy
from bot.policy.channels import Person
from bot.refusal import Refusal
from bot.slack.client import SLACK_TROUBLE

T = TypeVar("T")
REMEMBER = 60.0
MOST_REMEMBERED = 5000


class CannotTell(Refusal):
    """Slack did not say who this is or who can read along."""

    def __init__(self) -> None:
        super().__init__("Slack did not tell me who can see this, so I did nothing. Please try again in a minute.")


class People:
    """Questions about people and channels. `seconds` is a clock that never goes back."""

    def __init__(self, client: AsyncWebClient, *, seconds: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._seconds = seconds
        self._known: dict[tuple[str, str], tuple[float, Any]] = {}

    async def person(self, user: str) -> Person:
        """The user by id."""
        return await self._ask("person", user, self._person)

    async def name(self, user: str) -> str:
        """What people call this user; the id where Slack does not say. A name mentions nobody."""
        try:
            return (await self.person(user)).name if user else ""
        except CannotTell:
            return user

    async def shared(self, channel: str) -> bool:
        """Whether another organisation can read the channel, or will once it accepts."""
        return await self._ask("shared", channel, self._shared)

    async def members(self, group: str) -> frozenset[str]:
        """The user ids in a user group. CannotTell where Slack does not say: then nobody is in it."""
        return await self._ask("group", group, self._group)

    async def approvers(self, group: str, team: str) -> frozenset[str]:
        """The group's active human full members of `team`, as the ledger counts them: `TEAM:USER`."""
        people = await asyncio.gather(*(self.person(user) for user in sorted(await self.members(group)))) if group else []
        return frozenset(f"{team}:{who.id}" for who in people if who.human and who.team == team)

    def forget(self, *about: str) -> None:
        """Ask Slack anew about these users, channels or groups: where a decision hangs on it, a minute is too old."""
        for key in [key for key in self._known if key[1] in about]:
            del self._known[key]

    async def in_any(self, user: str, channels: Iterable[str]) -> bool:
        """Whether the user is a member of one of the channels."""
        for channel in channels:
            if user in await self._ask("members", channel, self._members):
                return True
        return False

    async def _person(self, user: str) -> Person:
        answer = await self._client.users_info(user=user)
        return policy.person(answer["user"])

    async def _shared(self, channel: str) -> bool:
        row = (await self._client.conversations_info(channel=channel))["channel"]
        return any(row.get(sign) for sign in ("is_ext_shared", "is_pending_ext_shared"))

    async def _members(self, channel: str) -> frozenset[str]:
        found: set[str] = set()
        cursor = ""
        while True:
            answer = await self._client.conversations_members(channel=channel, limit=1000, cursor=cursor or None)
            found |= set(answer["members"])
            cursor = (answer.get("response_metadata") or {}).get("next_cursor") or ""
            if not cursor:
                return frozenset(found)

    async def _group(self, group: str) -> frozenset[str]:
        answer = await self._client.usergroups_users_list(usergroup=group, include_disabled=False)
        return frozenset(str(user) for user in answer["users"])

    async def _ask(self, what: str, about: str, ask: Callable[[str], Awaitable[T]]) -> T:
        now = self._seconds()
        until, answer = self._known.get((what, about), (now, None))
        if until > now:
            return answer  # type: ignore[no-any-return]  # the key says which question it answered
        try:
            told = await ask(about)
        except SLACK_TROUBLE as trouble:
            raise CannotTell from trouble
        if len(self._known) >= MOST_REMEMBERED:
            self._known.clear()
        self._known[(what, about)] = (now + REMEMBER, told)
        return told
