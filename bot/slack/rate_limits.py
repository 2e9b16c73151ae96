"""How fast Slack may be called: each method waits its turn once Slack has said that it was called too often, the most urgent call first.

Slack counts by method and workspace (chat.postMessage by channel), so one gate serves all callers of this process, and all processes take their
turns from one row of them. As long as Slack has refused nothing, nobody waits. After a 429 the method rests as long as Slack says, and then goes
on one call at a time, as often as its tier allows, until nobody waits any more. Whoever would wait for too long is told so instead: they hold
locks, and come again.
"""

import asyncio
import contextlib
import heapq
import itertools
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from enum import IntEnum
from typing import Protocol

from slack_sdk.errors import SlackClientError

from bot.refusal import TooEarly

TIERS: Mapping[str, float] = {
    "chat.postMessage": 60,
    "chat.update": 50,
    "conversations.info": 50,
    "conversations.replies": 50,
    "reactions.add": 50,
    "reactions.remove": 20,
    "usergroups.users.list": 20,
}
"""Calls a minute, as Slack documents them (docs.slack.dev/apis/web-api/rate-limits)."""
DEFAULT_CALLS_PER_MINUTE = 100.0
MAX_WAIT_SECONDS = 15.0
"""Seconds that a call may wait for its turn."""


class Urgency(IntEnum):
    """What goes first. Cards with buttons come before everything that only tells; what is heard within seconds anyway comes last."""

    DECISION = 0
    ANSWER = 1
    PROGRESS = 2


urgency: ContextVar[Urgency] = ContextVar("urgency", default=Urgency.ANSWER)


@contextlib.contextmanager
def with_urgency(how: Urgency) -> Iterator[None]:
    """Calls of Slack inside are so urgent."""
    before = urgency.set(how)
    try:
        yield
    finally:
        urgency.reset(before)


class SlackTurnTimeout(SlackClientError, TooEarly):
    """Slack lets so little through now that this call had no turn in time. It was not sent."""


class SharedCallTurns(Protocol):
    """The row of turns that several processes share. One that cannot be asked holds nobody back: Slack itself refuses."""

    async def is_rate_limited(self, name: str) -> bool:
        """Whether one of them was refused lately, so that all queue."""

    async def reserve_slot(self, name: str, each: float) -> float:
        """Seconds until a turn that is the caller's alone."""

    async def apply_retry_after(self, name: str, seconds: float, each: float) -> None:
        """Slack said: not before so long."""


class UnsharedCallTurns:
    """One process alone."""

    async def is_rate_limited(self, name: str) -> bool:
        """Nobody else is in the way."""
        return False

    async def reserve_slot(self, name: str, each: float) -> float:
        """All turns are ours."""
        return 0.0

    async def apply_retry_after(self, name: str, seconds: float, each: float) -> None:
        """Nobody else is to be told."""


class MethodGate:
    """One method's. Times are the loop's."""

    def __init__(self, per_minute: float, longest: float = MAX_WAIT_SECONDS, name: str = "", others: SharedCallTurns | None = None) -> None:
        self._each, self._longest = 60 / per_minute, longest
        self._name, self._others = name, others or UnsharedCallTurns()
        self._free_at = 0.0
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._numbers = itertools.count()
        self._calling: asyncio.Task[None] | None = None

    async def wait_turn(self) -> None:
        """Return when the call may go out. SlackCrowded when that takes too long."""
        loop = asyncio.get_running_loop()
        if not self._waiting and self._free_at <= loop.time() and not await self._others.is_rate_limited(self._name):
            return
        mine: asyncio.Future[None] = loop.create_future()
        heapq.heappush(self._waiting, (urgency.get(), next(self._numbers), mine))
        if self._calling is None or self._calling.done():
            self._calling = asyncio.create_task(self._release_waiters())
        try:
            async with asyncio.timeout(self._longest):
                await mine
        except TimeoutError:
            raise SlackTurnTimeout(SlackTurnTimeout.__doc__) from None

    async def apply_retry_after(self, seconds: float) -> None:
        """Slack said: not before so long."""
        self._free_at = max(self._free_at, asyncio.get_running_loop().time() + seconds)
        await self._others.apply_retry_after(self._name, seconds, self._each)

    async def _release_waiters(self) -> None:
        """Call those who wait still, the most urgent first, unless Slack has said meanwhile that it is too early."""
        loop = asyncio.get_running_loop()
        while self._has_waiters():
            ours = loop.time() + await self._others.reserve_slot(self._name, self._each)
            while (wait := max(ours, self._free_at) - loop.time()) > 0:  # noqa: ASYNC110 - a time that `rest` moves, nothing happens at it
                await asyncio.sleep(wait)
            if self._has_waiters():
                heapq.heappop(self._waiting)[2].set_result(None)
                self._free_at = loop.time() + self._each

    def _has_waiters(self) -> bool:
        while self._waiting and self._waiting[0][2].done():
            heapq.heappop(self._waiting)
        return bool(self._waiting)


class RateLimits:
    """The gates of one workspace. `others`: the turns that its processes share."""

    def __init__(self, longest: float = MAX_WAIT_SECONDS, others: SharedCallTurns | None = None) -> None:
        self._gates: dict[tuple[str, str], MethodGate] = {}
        self._longest, self._others = longest, others

    def get_gate(self, method: str, channel: str = "") -> MethodGate:
        """The gate of a method; posting has one for each channel."""
        key = (method, channel if method == "chat.postMessage" else "")
        if key not in self._gates:
            self._gates[key] = MethodGate(
                TIERS.get(method, DEFAULT_CALLS_PER_MINUTE), self._longest, ":".join(filter(None, key)), self._others
            )
        return self._gates[key]
