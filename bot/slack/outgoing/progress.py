"""The living cards: one message an incident, painted as often as Slack allows. News that come faster are folded; the latest wins.
The first sight of a card waits for no other card.

News are worth no failure: after three refusals in a row a card is left alone until the next turn, and the diagnosis goes on.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable

import structlog
from redis.exceptions import RedisError
from slack_sdk.web.async_client import AsyncWebClient

from bot.cards.blocks import Card
from bot.cards.incidents import progress
from bot.cards.incidents.progress import ProgressCard
from bot.slack.client import SLACK_TROUBLE, Throttle, post, said
from bot.slack.outgoing.posts import POSTING, PostedCards
from bot.tasks import Background
from graph.ports import Progress
from graph.state import Origin

log = structlog.get_logger()
PER_MINUTE, BURST = 45, 8
"""Below chat.update's fifty a minute, which all cards share."""
GIVE_UP, MOST_CARDS = 3, 1000
PATIENCE = 5
"""Seconds that another process may take to post a card before it is believed dead."""

OriginOf = Callable[[str], Awaitable[Origin | None]]


class ProgressCards:
    """`follow` takes news at any rate and returns at once; a painter in the background does the rest."""

    def __init__(
        self,
        client: AsyncWebClient,
        cards: PostedCards,
        origin_of: OriginOf,
        tasks: Background,
        *,
        throttle: Throttle | None = None,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._client = client
        self._cards = cards
        self._origin_of = origin_of
        self._tasks = tasks
        self._throttle = throttle or Throttle(PER_MINUTE, BURST)
        self._pause = pause
        self._living: OrderedDict[str, ProgressCard] = OrderedDict()
        self._dirty: dict[str, None] = {}
        self._refused: dict[str, int] = {}
        self._at_work: dict[str, asyncio.Lock] = {}
        self._painting = False

    def follow(self, news: Progress) -> None:
        """Show these news soon, unless newer ones come first."""
        self._living[news.incident] = progress.follow(self._living.pop(news.incident, ProgressCard(news.incident)), news)
        while len(self._living) > MOST_CARDS:
            self._forget(next(iter(self._living)))
        if news.stage == "queued":  # somebody waits for a sign of life; posting has a limit of its own, apart from that of edits
            self._tasks.spawn("first_card", self._latest(news.incident))
            return
        self._dirty.setdefault(news.incident)
        if not self._painting:
            self._painting = True
            self._tasks.spawn("living_cards", self._paint_all())

    async def finish(self, incident: str, line: str) -> None:
        """The turn is over: the last state is painted now, whatever waits, and after whatever is being painted."""
        self._dirty.pop(incident, None)
        self._refused.pop(incident, None)
        async with self._alone(incident):
            living = self._living.get(incident) or ProgressCard(incident)
            if incident in self._living or await self._cards.get(incident, "living"):
                await self._paint(progress.finished(living, line))
            self._forget(incident)

    async def _paint_all(self) -> None:
        try:
            while self._dirty:
                await self._throttle.turn()
                for incident in list(self._dirty)[:1]:
                    del self._dirty[incident]
                    await self._latest(incident)
        finally:
            self._painting = False

    async def _latest(self, incident: str) -> None:
        async with self._alone(incident):
            living = self._living.get(incident)
            if living is not None and self._refused.get(incident, 0) < GIVE_UP:
                await self._paint(living)

    async def _paint(self, living: ProgressCard) -> None:
        try:
            await self._show(living)
        except (*SLACK_TROUBLE, RedisError) as trouble:
            refused = self._refused[living.incident] = self._refused.get(living.incident, 0) + 1
            log.warning("living_card.not_painted", incident=living.incident, times=refused, error=str(trouble)[:200])
        else:
            self._refused.pop(living.incident, None)

    async def _show(self, living: ProgressCard) -> None:
        origin = await self._origin_of(living.incident)
        if origin is None or origin.kind != "slack":
            return
        card = progress.render(living)
        ts = await self._claim(living)
        if not ts:
            await self._begin(living.incident, origin, card)
        elif ts != POSTING and living.stage != "queued":
            await self._client.chat_update(channel=origin.channel, ts=ts, **said(card))

    async def _claim(self, living: ProgressCard) -> str:
        """The card's ts; empty when it is ours to post. One that another process is posting is waited for, where it matters."""
        for _ in range(PATIENCE if living.stage != "queued" else 0):
            if (ts := await self._cards.claim(living.incident, "living")) != POSTING:
                return ts
            await self._pause(1.0)
        return "" if living.stage != "queued" else await self._cards.claim(living.incident, "living")

    async def _begin(self, incident: str, origin: Origin, card: Card) -> None:
        try:
            await self._cards.set(incident, "living", await post(self._client, origin.channel, origin.thread_ts, card))
        except SLACK_TROUBLE:
            await self._cards.drop(incident, "living")
            raise

    def _alone(self, incident: str) -> asyncio.Lock:
        return self._at_work.setdefault(incident, asyncio.Lock())

    def _forget(self, incident: str) -> None:
        for rows in (self._living, self._dirty, self._refused, self._at_work):
            rows.pop(incident, None)
