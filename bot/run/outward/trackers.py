"""Tickets in trackers put together, where a setting names some."""

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from bot.cards.incidents.rows import Titles
from bot.cards.trackers.opening import Offered
from bot.desk.inbox import Inbox
from bot.policy.channels import bindings
from bot.provider.arrivals import tenants_of
from bot.run.world import WallClock
from bot.settings import PREFIX, Settings
from bot.slack.client import SlackClient
from bot.slack.context import Surface
from bot.slack.outgoing.posts import KeptMessages, PostedCards
from bot.slack.people import People
from bot.slack.trackers.office import Closings, TrackerCards, TrackerDesk
from bot.store.outbox import Outbox, tracker_box
from bot.store.store import Store
from bot.trackers.courier import Courier
from bot.trackers.kinds import open_trackers
from bot.trackers.tracker import Tracker
from graph.ports import Ports
from graph.stored import StoredIncidents
from tools.clock import Clock


def site_trackers(settings: Settings, clock: Clock | None = None) -> tuple[Tracker, ...]:
    """Those that the settings name. Raises Refusal."""
    if not settings.trackers:
        return ()
    return open_trackers(settings.trackers, clock or WallClock(), f"{PREFIX}TRACKERS")


def offered(trackers: Sequence[Tracker]) -> Offered:
    """As the cards offer them."""
    return tuple((tracker.name, tracker.words) for tracker in trackers)


@dataclass(frozen=True, slots=True)
class TrackerLine:
    """What a process has of it; `cards` is None where no tracker is named."""

    cards: TrackerCards | None
    closings: Closings
    clock: Clock
    poll: timedelta

    def dressed(self, surface: Surface) -> Surface:
        """The surface with the buttons and the form."""
        if self.cards is None:
            return surface
        return replace(surface, tracking=TrackerDesk(surface, self.cards, self.closings.titles, self.closings.customers))

    @property
    def chores(self) -> Sequence[Callable[[], Coroutine[Any, Any, None]]]:
        """What empties the outbox."""
        if self.cards is None:
            return ()
        cards = self.cards
        return (Courier(cards.outbox, cards.trackers, self.clock, cards.paint, self.closings.of, cards.tell, self.poll).run,)


def tracker_line(
    settings: Settings,
    store: Store,
    ports: Ports,
    client: SlackClient,
    posted: PostedCards,
    inbox: Inbox,
    people: People,
    titles: Titles,
    trackers: Sequence[Tracker],
) -> TrackerLine:
    closings = Closings(StoredIncidents(store.redis), titles, tenants_of(ports.inventory))
    poll = timedelta(seconds=settings.tracker_poll_seconds)
    if not trackers:
        return TrackerLine(None, closings, ports.clock, poll)
    messages = KeptMessages(client, posted)
    outbox = Outbox(store.redis, ports.clock, tracker_box(), timedelta(seconds=settings.outbox_lease_seconds))
    cards = TrackerCards(
        client, messages, inbox, people, outbox, {tracker.name: tracker for tracker in trackers}, bindings(ports.inventory.channels)
    )
    return TrackerLine(cards, closings, ports.clock, poll)
