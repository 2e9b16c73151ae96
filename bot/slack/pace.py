"""How fast Slack may be called: each method waits its turn once Slack has said that it was called too often, the most urgent call first.

Slack counts by method and workspace (chat.postMessage by channel), so one gate serves all callers of this process. As long as Slack has
refused nothing, nobody waits. After a 429 the method rests as long as Slack says, and then goes on one call at a time, as often as its tier
allows, until nobody waits any more. Whoever would wait for too long is told so instead: they hold locks, and come again.
"""

import asyncio
import contextlib
import heapq
import itertools
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from enum import IntEnum

from slack_sdk.errors import SlackClientError

TIERS: Mapping[str, float] = {
    "chat.postMessage": 60,
    "chat.update": 50,
    "chat.startStream": 20,
    "chat.stopStream": 20,
    "chat.appendStream": 100,
    "conversations.info": 50,
    "conversations.replies": 50,
    "reactions.add": 50,
    "reactions.remove": 20,
    "usergroups.users.list": 20,
}
"""Calls a minute, as Slack documents them (docs.slack.dev/apis/web-api/rate-limits)."""
OTHERS = 100.0
LONGEST = 15.0
"""Seconds that a call may wait for its turn."""


class Urgency(IntEnum):
    """What goes first. Cards with buttons come before everything that only tells; what is heard within seconds anyway comes last."""

    DECISION = 0
    ANSWER = 1
    PROGRESS = 2


urgency: ContextVar[Urgency] = ContextVar("urgency", default=Urgency.ANSWER)


@contextlib.contextmanager
def urgent(how: Urgency) -> Iterator[None]:
    """Calls of Slack inside are so urgent."""
    before = urgency.set(how)
    try:
        yield
    finally:
        urgency.reset(before)


class SlackCrowded(SlackClientError):
    """Slack lets so little through now that this call had no turn in time. It was not sent."""


class Gate:
    """One method's. Times are the loop's."""

    def __init__(self, per_minute: float, longest: float = LONGEST) -> None:
        self._each, self._longest = 60 / per_minute, longest
        self._free_at = 0.0
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._numbers = itertools.count()
        self._called = False

    async def turn(self) -> None:
        """Return when the call may go out. SlackCrowded when that takes too long."""
        loop = asyncio.get_running_loop()
        if not self._waiting and self._free_at <= loop.time():
            return
        mine: asyncio.Future[None] = loop.create_future()
        heapq.heappush(self._waiting, (urgency.get(), next(self._numbers), mine))
        self._call(loop)
        try:
            async with asyncio.timeout(self._longest):
                await mine
        except TimeoutError:
            raise SlackCrowded(SlackCrowded.__doc__) from None

    def rest(self, seconds: float) -> None:
        """Slack said: not before so long."""
        self._free_at = max(self._free_at, asyncio.get_running_loop().time() + seconds)

    def _call(self, loop: asyncio.AbstractEventLoop) -> None:
        if not self._called:
            self._called = True
            loop.call_at(max(self._free_at, loop.time()), self._next, loop)

    def _next(self, loop: asyncio.AbstractEventLoop) -> None:
        """The most urgent of those who wait still, unless Slack has said meanwhile that it is too early."""
        self._called = False
        while self._waiting and self._waiting[0][2].done():
            heapq.heappop(self._waiting)
        if not self._waiting:
            return
        if self._free_at <= loop.time():
            heapq.heappop(self._waiting)[2].set_result(None)
            self._free_at = loop.time() + self._each
        self._call(loop)


class Pace:
    """The gates of one workspace."""

    def __init__(self, longest: float = LONGEST) -> None:
        self._gates: dict[tuple[str, str], Gate] = {}
        self._longest = longest

    def of(self, method: str, channel: str = "") -> Gate:
        """The gate of a method; posting has one for each channel."""
        key = (method, channel if method == "chat.postMessage" else "")
        if key not in self._gates:
            self._gates[key] = Gate(TIERS.get(method, OTHERS), self._longest)
        return self._gates[key]
