"""The thread of an incident that alerts opened, begun as part of its first turn, so that it is neither lost nor twice; its counts are brought up to
date with each turn."""

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass

import structlog

from bot.alerts.alert import AlertTally, words_of
from bot.alerts.book import AlertBook
from bot.cards.alerts import firing
from bot.cards.blocks import Card
from bot.desk.inbox import Inbox
from bot.slack.client import SLACK_TROUBLE, SlackClient, said
from bot.slack.outgoing.posts import Once, PostedCards
from bot.slack.outgoing.roots import ThreadRoots
from bot.slack.people import People
from graph.state import ALERTS_AGAIN, ALERTS_OVER, Item, Origin
from kb.scan import lines_in
from tools.inventory.ranges import fold

log = structlog.get_logger()
ROOT, NEWS = "rackmedic_alert_root", "rackmedic_alert_news"


@dataclass(frozen=True, slots=True)
class AlertThreads:
    """`home` and `fetch` before a turn. `people_in`: whether anybody spoke in an incident's thread; `otherwise`: where the incidents live that no
    alert opened. `ours`: the operators' channels; `default`: where a thread begins whose own channel is none of them by now, or is read by others."""

    client: SlackClient
    cards: PostedCards
    inbox: Inbox
    people: People
    book: AlertBook
    people_in: Callable[[str], Awaitable[bool]]
    otherwise: Callable[[Item], Awaitable[Origin | None]]
    ours: Collection[str] = ()
    default: str = ""

    async def home(self, item: Item) -> Origin | None:
        """Where the incident lives, its thread begun, its first message with the counts of now."""
        origin, episode = await self.inbox.origin(item.incident), str(item.data.get("alerts") or "")
        if origin is None or not (episode or origin.alert):
            return await self.otherwise(item)
        if episode:
            await self.book.taken(episode, int(item.data.get("batch", 0)))
        if not origin.alert:
            return await self._joined(item, episode)
        if not origin.thread_ts:
            return await self._begin(item, origin)
        if episode == origin.alert:
            await self._paint(item.incident, origin)
        return origin

    async def fetch(self, item: Item) -> Item:
        """The item with what fires by now: news of it is none any more where all are over, and the other way round."""
        episode = str(item.data.get("alerts") or "")
        if not episode:
            return item
        counted = await self.book.tally(episode)
        if item.kind == "timer" or (item.kind == "reply" and counted.over):
            why = ALERTS_OVER if await self.book.over(item.incident, episode) else ALERTS_AGAIN
            data = {**item.data, "why": why, "people": await self.people_in(item.incident)}
            return item.model_copy(update={"kind": "timer", "text": "", "data": data})
        return item.model_copy(update={"text": words_of(counted)}) if counted.shown else item

    async def _begin(self, item: Item, origin: Origin) -> Origin:
        async def first() -> Card:
            return card_of(await self.book.tally(origin.alert))

        placed = origin.model_copy(update={"channel": await self.place(origin.channel)})
        return await ThreadRoots(self.client, self.cards, self.inbox, self.people).begin(item.incident, placed, ROOT, first)

    async def place(self, channel: str) -> str:
        """The channel, or the default one where nothing may be said in it any more and may be said there."""
        if not self.default or channel == self.default:
            return channel
        lost = channel not in self.ours or await self.people.shared(channel)
        return self.default if lost and not await self.people.shared(self.default) else channel

    async def _paint(self, incident: str, origin: Origin) -> None:
        """Trouble with Slack stops no turn: the next one paints it."""
        marked = {"event_type": ROOT, "event_payload": {"incident": incident}}
        try:
            if not await self.people.shared(origin.channel):
                card = card_of(await self.book.tally(origin.alert))
                await self.client.chat_update(channel=origin.channel, ts=origin.thread_ts, metadata=marked, **said(card))
        except SLACK_TROUBLE as trouble:
            log.warning("alerts.not_painted", incident=incident, error=str(trouble)[:200])

    async def _joined(self, item: Item, episode: str) -> Origin | None:
        """In a thread of somebody else: one message of the alerts, and none that they are over, which the turn says."""
        home = await self.otherwise(item)
        if home is not None and item.data.get("why") != ALERTS_OVER and not await self.people.shared(home.channel):
            marked = {"event_type": NEWS, "event_payload": {"episode": episode}}
            card = card_of(await self.book.tally(episode))
            await Once(self.client, self.cards).post(home, item.incident, f"alerts:{episode}", card, marked)
        return home


def card_of(counted: AlertTally) -> Card:
    """The counts as a message."""
    lines = tuple(lines_in(words_of(counted)))[1:]
    links = [
        firing.AlertLink(what, row.name, url)
        for row in counted.shown
        for what, url in (("Runbook", row.runbook), ("Query", row.source))
        if url
    ]
    return firing.render(counted.cause, counted.firing + counted.more, counted.resolved, fold(counted.hosts), lines, counted.left, links)
