"""Begin an alert incident's thread in its first turn, exactly once, and update its counts each turn."""

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass

import structlog

from bot.alerts import cards as alert_message
from bot.alerts.alert import AlertTally, render_alert_summary
from bot.alerts.alert_store import AlertStore
from bot.cards.blocks import Card
from bot.incidents.dispatch.inbox import Inbox
from bot.incidents.publishing.thread_roots import ThreadRoots
from bot.slack.client import SLACK_ERRORS, SlackClient, build_message_args
from bot.slack.people import People
from bot.slack.posted_messages import IdempotentPoster, PostedCards
from graph.state import ALERTS_REFIRED, ALERTS_RESOLVED, InboxItem, Origin
from kb.needle_search import split_lines
from tools.inventory.host_ranges import fold_host_names

log = structlog.get_logger()
ROOT_EVENT_TYPE = "rackmedic_alert_root"
NEWS_EVENT_TYPE = "rackmedic_alert_news"


@dataclass(frozen=True, slots=True)
class AlertThreads:
    """Resolves threads and items before a turn.

    `people_in`: whether a person wrote in the thread. `otherwise`: resolves incidents that no alert opened. `ours`:
    operators' channels. `default`: where a thread begins if its own channel is not the operators' or is shared.
    """

    client: SlackClient
    cards: PostedCards
    inbox: Inbox
    people: People
    book: AlertStore
    people_in: Callable[[str], Awaitable[bool]]
    otherwise: Callable[[InboxItem], Awaitable[Origin | None]]
    ours: Collection[str] = ()
    default: str = ""

    async def resolve_thread(self, item: InboxItem) -> Origin | None:
        """Return the incident's thread, begun if needed, with current counts in its first message."""
        origin, episode = await self.inbox.get_origin(item.incident), str(item.data.get("alerts") or "")
        if origin is None or not (episode or origin.alert):
            return await self.otherwise(item)
        if episode:
            await self.book.close_batch(episode, int(item.data.get("batch", 0)))
        if not origin.alert:
            return await self._post_to_joined_thread(item, episode)
        if not origin.thread_ts:
            return await self._begin_thread(item, origin)
        if episode == origin.alert:
            await self._update_root(item.incident, origin)
        return origin

    async def fetch_item(self, item: InboxItem) -> InboxItem:
        """Return the item with the current alerts: `firing` becomes `resolved` if all ended meanwhile, and vice versa."""
        episode = str(item.data.get("alerts") or "")
        if not episode:
            return item
        tally = await self.book.load_tally(episode)
        if item.kind == "timer" or (item.kind == "reply" and tally.is_resolved):
            reason = ALERTS_RESOLVED if await self.book.is_incident_resolved(item.incident, episode) else ALERTS_REFIRED
            data = {**item.data, "why": reason, "people": await self.people_in(item.incident)}
            return item.model_copy(update={"kind": "timer", "text": "", "data": data})
        return item.model_copy(update={"text": render_alert_summary(tally)}) if tally.shown else item

    async def _begin_thread(self, item: InboxItem, origin: Origin) -> Origin:
        async def first() -> Card:
            return render_alert_card(await self.book.load_tally(origin.alert))

        placed = origin.model_copy(update={"channel": await self.choose_channel(origin.channel)})
        return await ThreadRoots(self.client, self.cards, self.inbox, self.people).begin_thread(
            item.incident, placed, ROOT_EVENT_TYPE, first
        )

    async def choose_channel(self, channel: str) -> str:
        """Return the channel, or the default if the channel may no longer be used and the default may."""
        if not self.default or channel == self.default:
            return channel
        lost = channel not in self.ours or await self.people.is_shared(channel)
        return self.default if lost and not await self.people.is_shared(self.default) else channel

    async def _update_root(self, incident: str, origin: Origin) -> None:
        """A Slack error does not stop the turn; the next turn updates again."""
        marked = {"event_type": ROOT_EVENT_TYPE, "event_payload": {"incident": incident}}
        try:
            if not await self.people.is_shared(origin.channel):
                card = render_alert_card(await self.book.load_tally(origin.alert))
                await self.client.chat_update(channel=origin.channel, ts=origin.thread_ts, metadata=marked, **build_message_args(card))
        except SLACK_ERRORS as error:
            log.warning("alerts.not_painted", incident=incident, error=str(error)[:200])

    async def _post_to_joined_thread(self, item: InboxItem, episode: str) -> Origin | None:
        """Post the alerts once in a thread that they joined; the turn itself reports their end."""
        home = await self.otherwise(item)
        if home is not None and item.data.get("why") != ALERTS_RESOLVED and not await self.people.is_shared(home.channel):
            marked = {"event_type": NEWS_EVENT_TYPE, "event_payload": {"episode": episode}}
            card = render_alert_card(await self.book.load_tally(episode))
            await IdempotentPoster(self.client, self.cards).post_once(home, item.incident, f"alerts:{episode}", card, marked)
        return home


def render_alert_card(counted: AlertTally) -> Card:
    lines = tuple(split_lines(render_alert_summary(counted)))[1:]
    links = [
        alert_message.AlertLink(title, row.name, url)
        for row in counted.shown
        for title, url in (("Runbook", row.runbook), ("Query", row.source))
        if url
    ]
    return alert_message.render_alert_message(
        counted.cause, counted.firing + counted.more, counted.resolved, fold_host_names(counted.hosts), lines, counted.left, links
    )
