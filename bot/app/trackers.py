"""Wiring of trackers, if any are set."""

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from bot.app.diagnosis_runtime import WallClock
from bot.incidents.cards.report_rows import CauseTitles
from bot.incidents.context import HandlerContext
from bot.incidents.dispatch.inbox import Inbox
from bot.policy.channels import build_channel_bindings
from bot.provider.ticket_importer import list_tenants
from bot.settings import ENV_PREFIX, Settings
from bot.slack.client import SlackClient
from bot.slack.people import People
from bot.slack.posted_messages import EditableMessages, PostedCards
from bot.store.external_outbox import Outbox, build_tracker_outbox_keys
from bot.store.store import Store
from bot.trackers.cards import TrackerChoices
from bot.trackers.handlers import ClosingCauses, TrackerCards, TrackerHandlers
from bot.trackers.ticket_sync import TicketSync
from bot.trackers.tracker import Tracker
from bot.trackers.tracker_kinds import open_trackers
from graph.context import GraphContext
from graph.state_reader import IncidentStateReader
from tools.clock import Clock


def open_site_trackers(settings: Settings, clock: Clock | None = None) -> tuple[Tracker, ...]:
    """Open the trackers of the settings. Raises Refusal."""
    if not settings.trackers:
        return ()
    return open_trackers(settings.trackers, clock or WallClock(), f"{ENV_PREFIX}TRACKERS")


def list_offered_trackers(trackers: Sequence[Tracker]) -> TrackerChoices:
    return tuple((tracker.name, tracker.words) for tracker in trackers)


@dataclass(frozen=True, slots=True)
class TrackerServices:
    """Trackers of a process; `cards` is None without any."""

    cards: TrackerCards | None
    closings: ClosingCauses
    clock: Clock
    poll: timedelta

    def build_handlers(self, context: HandlerContext) -> TrackerHandlers | None:
        return TrackerHandlers(context, self.cards, self.closings.titles, self.closings.customers) if self.cards else None

    @property
    def background_jobs(self) -> Sequence[Callable[[], Coroutine[Any, Any, None]]]:
        if self.cards is None:
            return ()
        cards = self.cards
        return (
            TicketSync(
                cards.outbox, cards.trackers, self.clock, cards.update_card, self.closings.get_closing_text, cards.quote_remark, self.poll
            ).run,
        )


def build_tracker_services(
    settings: Settings,
    store: Store,
    ports: GraphContext,
    client: SlackClient,
    posted: PostedCards,
    inbox: Inbox,
    people: People,
    titles: CauseTitles,
    trackers: Sequence[Tracker],
) -> TrackerServices:
    closings = ClosingCauses(IncidentStateReader(store.redis), titles, list_tenants(ports.inventory))
    poll = timedelta(seconds=settings.tracker_poll_seconds)
    if not trackers:
        return TrackerServices(None, closings, ports.clock, poll)
    messages = EditableMessages(client, posted)
    outbox = Outbox(store.redis, ports.clock, build_tracker_outbox_keys(), timedelta(seconds=settings.outbox_lease_seconds))
    cards = TrackerCards(
        client,
        messages,
        inbox,
        people,
        outbox,
        {tracker.name: tracker for tracker in trackers},
        build_channel_bindings(ports.inventory.channels),
    )
    return TrackerServices(cards, closings, ports.clock, poll)
