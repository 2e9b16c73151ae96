"""Begin the thread of an incident that alerts opened, exactly once, and update its counts each turn."""

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
    """Resolves the thread and the text of an item before its turn."""

    client: SlackClient
    cards: PostedCards
    inbox: Inbox
    people: People
    alerts: AlertStore
    has_human_messages: Callable[[str], Awaitable[bool]]
    resolve_other_thread: Callable[[InboxItem], Awaitable[Origin | None]]  # for incidents that no alert opened
    operator_channels: Collection[str] = ()
    default_channel: str = ""  # used if an incident's own channel is no longer an operators' channel, or is shared

    async def resolve_thread(self, item: InboxItem) -> Origin | None:
        """Return the incident's thread. Begin it if needed, and update the counts in its first message."""
        origin, episode = await self.inbox.get_origin(item.incident), str(item.data.get("alerts") or "")
        if origin is None or not (episode or origin.alert):
            return await self.resolve_other_thread(item)
        if episode:
            await self.alerts.close_batch(episode, int(item.data.get("batch", 0)))
        if not origin.alert:
            return await self._post_to_joined_thread(item, episode)
        if not origin.thread_ts:
            return await self._begin_thread(item, origin)
        if episode == origin.alert:
            await self._update_root(item.incident, origin)
        return origin

    async def fetch_item(self, item: InboxItem) -> InboxItem:
        """Return the item with the alerts as they are now. If all ended meanwhile, it says that they are resolved, and vice versa."""
        episode = str(item.data.get("alerts") or "")
        if not episode:
            return item
        tally = await self.alerts.load_tally(episode)
        if item.kind == "timer" or (item.kind == "reply" and tally.is_resolved):
            reason = ALERTS_RESOLVED if await self.alerts.is_incident_resolved(item.incident, episode) else ALERTS_REFIRED
            data = {**item.data, "why": reason, "people": await self.has_human_messages(item.incident)}
            return item.model_copy(update={"kind": "timer", "text": "", "data": data})
        return item.model_copy(update={"text": render_alert_summary(tally)}) if tally.shown else item

    async def _begin_thread(self, item: InboxItem, origin: Origin) -> Origin:
        async def render_root() -> Card:
            return render_alert_card(await self.alerts.load_tally(origin.alert))

        origin = origin.model_copy(update={"channel": await self.choose_channel(origin.channel)})
        return await ThreadRoots(self.client, self.cards, self.inbox, self.people).begin_thread(
            item.incident, origin, ROOT_EVENT_TYPE, render_root
        )

    async def choose_channel(self, channel: str) -> str:
        """Return the channel, or the default if the channel may no longer be used and the default may."""
        if not self.default_channel or channel == self.default_channel:
            return channel
        is_unusable = channel not in self.operator_channels or await self.people.is_shared(channel)
        return self.default_channel if is_unusable and not await self.people.is_shared(self.default_channel) else channel

    async def _update_root(self, incident: str, origin: Origin) -> None:
        """Update the first message. A Slack error does not stop the turn; the next turn updates it again."""
        metadata = {"event_type": ROOT_EVENT_TYPE, "event_payload": {"incident": incident}}
        try:
            if not await self.people.is_shared(origin.channel):
                card = render_alert_card(await self.alerts.load_tally(origin.alert))
                await self.client.chat_update(channel=origin.channel, ts=origin.thread_ts, metadata=metadata, **build_message_args(card))
        except SLACK_ERRORS as error:
            log.warning("alerts.not_painted", incident=incident, error=str(error)[:200])

    async def _post_to_joined_thread(self, item: InboxItem, episode: str) -> Origin | None:
        """Post the alerts once in the thread that they joined. Their end is reported by the turn itself."""
        thread = await self.resolve_other_thread(item)
        if thread is not None and item.data.get("why") != ALERTS_RESOLVED and not await self.people.is_shared(thread.channel):
            metadata = {"event_type": NEWS_EVENT_TYPE, "event_payload": {"episode": episode}}
            card = render_alert_card(await self.alerts.load_tally(episode))
            await IdempotentPoster(self.client, self.cards).post_once(thread, item.incident, f"alerts:{episode}", card, metadata)
        return thread


def render_alert_card(tally: AlertTally) -> Card:
    lines = tuple(split_lines(render_alert_summary(tally)))[1:]
    links = [
        alert_message.AlertLink(title, alert.name, url)
        for alert in tally.shown
        for title, url in (("Runbook", alert.runbook), ("Query", alert.source))
        if url
    ]
    return alert_message.render_alert_message(
        tally.cause, tally.firing + tally.more, tally.resolved, fold_host_names(tally.hosts), lines, tally.left, links
    )
