"""The pane at work: suggestions when somebody opens it, a line while we read, the answer, and a title for the thread.

Bolt's own `AsyncAssistant` is not used: it takes a person's messages away from the listener that leaves what it cannot store unacknowledged, and
keeps which channel people look at, in the metadata of our messages; we never ask where anybody looks.
What only decorates is worth no failure: what Slack refuses for good is not asked of it again by this process.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import structlog
from redis.exceptions import RedisError
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from bot.cards.blocks import Card
from bot.cards.personal import suggestions
from bot.cards.personal.suggestions import PROMPTS, SUGGESTED
from bot.slack.client import SLACK_TROUBLE
from bot.slack.pane.streams import StreamedAnswers
from bot.slack.pane.unanswered import DirectQuestion, Unanswered
from bot.tasks import Background, end

log = structlog.get_logger()
NEVER = frozenset(
    {"missing_scope", "unknown_method", "not_allowed_token_type", "method_deprecated", "deprecated_endpoint", "access_denied"}
)
"""What Slack will say to the next call too, until the app is installed anew."""


LINE_WITHIN = 5.0
"""Seconds that a slow status may hold back its answer."""
PATIENCE = 0.5
"""Seconds for giving a question back: Slack waits for our answer."""


@dataclass(frozen=True, slots=True)
class DirectAnswer:
    """A card; what the thread is called from now on, and whether suggestions help whoever asked."""

    card: Card
    title: str = ""
    suggest: bool = False


@dataclass
class Pane:
    """One for each process that listens. `open` outlives it."""

    client: AsyncWebClient
    open: Unanswered
    streams: StreamedAnswers
    tasks: Background
    _off: set[str] = field(default_factory=set)

    def greet(self, channel: str, thread_ts: str = "") -> None:
        """Offer what can be asked: in a thread that was begun by opening it, or for the conversation as a whole."""
        self.tasks.spawn("prompts", self._suggest(channel, thread_ts))

    async def answer(self, asked: DirectQuestion, reading: str, make: Callable[[], Awaitable[DirectAnswer]]) -> None:
        """Answer a question that was claimed. `reading` is said while `make` reads; where that fails it is as if nobody had asked."""
        line = asyncio.create_task(self._status(asked, reading))
        try:
            async with self.open.kept(asked):
                answer = await make()
        except Exception:
            await self._give_back(asked)
            self.tasks.spawn("pane_unsaid", self._unsaid(asked, line))
            raise
        self.tasks.spawn("pane_answer", self._deliver(asked, answer, line))

    async def _deliver(self, asked: DirectQuestion, answer: DirectAnswer, line: asyncio.Task[None]) -> None:
        """What is not said to its end stays open, and is ended by whoever sweeps."""
        await self._shown(line)  # first the status, then the message that clears it
        if not await self.open.is_open(asked):  # we were taken for dead, and it was ended for us
            await self._status(asked, "", clear=True)
            return
        try:
            async with self.open.kept(asked):
                await self.streams.say(asked, answer.card, answer.title)
                await self.open.done(asked)
        except SLACK_TROUBLE as trouble:
            log.warning("pane.not_answered", asked=asked.key, error=str(trouble)[:200])
            return
        if answer.title and asked.threaded:
            await self._decorate("setTitle", asked.channel, asked.thread_ts, title=answer.title)
        if answer.suggest:
            await self._suggest(asked.channel, asked.thread_ts if asked.threaded else "")

    async def _give_back(self, asked: DirectQuestion) -> None:
        """Before Slack is told to deliver it again. Where the store is away it stays open, and is ended by whoever sweeps."""
        try:
            async with asyncio.timeout(PATIENCE):
                await self.open.give_back(asked)
        except (RedisError, OSError, TimeoutError) as away:
            log.warning("pane.not_given_back", asked=asked.key, error=str(away))

    async def _shown(self, line: asyncio.Task[None]) -> None:
        """An answer does not wait long for the line that announces it."""
        await asyncio.wait({line}, timeout=LINE_WITHIN)
        await end(line)

    async def _unsaid(self, asked: DirectQuestion, line: asyncio.Task[None]) -> None:
        await self._shown(line)
        await self._status(asked, "", clear=True)

    async def _status(self, asked: DirectQuestion, words: str, *, clear: bool = False) -> None:
        if words or clear:
            await self._decorate("setStatus", asked.channel, asked.thread_ts, status=words)

    async def _suggest(self, channel: str, thread_ts: str) -> None:
        """The thread is named only where there is one: with it Slack shows an agent's suggestions nowhere, and says nothing."""
        await self._decorate("setSuggestedPrompts", channel, thread_ts, title=SUGGESTED, prompts=suggestions.wire(PROMPTS))

    async def _decorate(self, method: str, channel: str, thread_ts: str, **what: object) -> None:
        if method in self._off:
            return
        thread = {"thread_ts": thread_ts} if thread_ts else {}
        try:
            await self.client.api_call(f"assistant.threads.{method}", json={"channel_id": channel, **thread, **what})
        except SLACK_TROUBLE as trouble:
            error = trouble.response["error"] if isinstance(trouble, SlackApiError) else ""
            if error in NEVER:
                self._off.add(method)
            log.info("pane.not_decorated", method=method, error=str(trouble)[:200], remembered=error in NEVER)
