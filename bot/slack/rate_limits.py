"""Rate limits of Slack's methods: after a 429 calls queue, the most urgent first.

Slack counts by method and workspace (chat.postMessage by channel), so all processes share one queue per method. It
proceeds one call at a time at the method's tier until it is empty. A call that would wait too long fails: its caller
holds locks and retries later.
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

# Calls per minute (docs.slack.dev/apis/web-api/rate-limits).
TIERS: Mapping[str, float] = {
    "chat.postMessage": 60,
    "chat.update": 50,
    "conversations.info": 50,
    "conversations.replies": 50,
    "reactions.add": 50,
    "reactions.remove": 20,
    "usergroups.users.list": 20,
}
DEFAULT_CALLS_PER_MINUTE = 100.0
MAX_WAIT_SECONDS = 15.0  # that a call may wait for its turn


class Urgency(IntEnum):
    """Cards with buttons first, then answers, then progress, which the next update repeats."""

    DECISION = 0
    ANSWER = 1
    PROGRESS = 2


urgency: ContextVar[Urgency] = ContextVar("urgency", default=Urgency.ANSWER)


@contextlib.contextmanager
def with_urgency(how: Urgency) -> Iterator[None]:
    """Set the urgency of the calls inside."""
    before = urgency.set(how)
    try:
        yield
    finally:
        urgency.reset(before)


class SlackTurnTimeout(SlackClientError, TooEarly):
    message = "Slack lets so little through now that this call had no turn in time. It was not sent."


class SharedCallTurns(Protocol):
    """Turns shared by processes. A store that does not answer blocks no call: Slack itself refuses."""

    async def is_rate_limited(self, name: str) -> bool:
        """Return whether a call was refused lately."""

    async def reserve_slot(self, name: str, each: float) -> float:
        """Return the seconds until the caller's turn."""

    async def apply_retry_after(self, name: str, seconds: float, each: float) -> None: ...


class UnsharedCallTurns:
    """Turns of a single process."""

    async def is_rate_limited(self, name: str) -> bool:
        return False

    async def reserve_slot(self, name: str, each: float) -> float:
        return 0.0

    async def apply_retry_after(self, name: str, seconds: float, each: float) -> None: ...


class MethodGate:
    """The queue of one method, in event loop time."""

    def __init__(self, per_minute: float, longest: float = MAX_WAIT_SECONDS, name: str = "", others: SharedCallTurns | None = None) -> None:
        self._each = 60 / per_minute
        self._longest = longest
        self._name = name
        self._others = others or UnsharedCallTurns()
        self._free_at = 0.0
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._numbers = itertools.count()
        self._calling: asyncio.Task[None] | None = None

    async def wait_turn(self) -> None:
        """Wait for the turn. Raises SlackTurnTimeout after `longest` seconds."""
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
            raise SlackTurnTimeout(SlackTurnTimeout.message) from None

    async def apply_retry_after(self, seconds: float) -> None:
        self._free_at = max(self._free_at, asyncio.get_running_loop().time() + seconds)
        await self._others.apply_retry_after(self._name, seconds, self._each)

    async def _release_waiters(self) -> None:
        """Release the most urgent first, unless a new 429 moved the time."""
        loop = asyncio.get_running_loop()
        while self._has_waiters():
            ours = loop.time() + await self._others.reserve_slot(self._name, self._each)
            while (wait := max(ours, self._free_at) - loop.time()) > 0:  # noqa: ASYNC110 - `apply_retry_after` moves the time
                await asyncio.sleep(wait)
            if self._has_waiters():
                heapq.heappop(self._waiting)[2].set_result(None)
                self._free_at = loop.time() + self._each

    def _has_waiters(self) -> bool:
        while self._waiting and self._waiting[0][2].done():
            heapq.heappop(self._waiting)
        return bool(self._waiting)


class RateLimits:
    """The gates of one workspace."""

    def __init__(self, longest: float = MAX_WAIT_SECONDS, others: SharedCallTurns | None = None) -> None:
        self._gates: dict[tuple[str, str], MethodGate] = {}
        self._longest = longest
        self._others = others

    def get_gate(self, method: str, channel: str = "") -> MethodGate:
        """Return a method's gate; chat.postMessage has one per channel."""
        key = (method, channel if method == "chat.postMessage" else "")
        if key not in self._gates:
            self._gates[key] = MethodGate(
                TIERS.get(method, DEFAULT_CALLS_PER_MINUTE), self._longest, ":".join(filter(None, key)), self._others
            )
        return self._gates[key]
