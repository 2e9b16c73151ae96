"""Wiring of trackers, if any are set."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from bot.incidents.cards.report_rows import CauseTitles
from bot.incidents.context import HandlerContext
from bot.provider.ticket_importer import list_tenants
from bot.settings import ENV_PREFIX, Settings
from bot.slack.posted_messages import EditableMessages
from bot.store.external_outbox import Outbox, build_tracker_outbox_keys
from bot.store.store import Store
from bot.tasks import BackgroundJob
from bot.trackers.cards import TrackerChoices
from bot.trackers.handlers import ClosingCauses, TrackerCards, TrackerHandlers
from bot.trackers.ticket_sync import TicketSync
from bot.trackers.tracker import Tracker
from bot.trackers.tracker_kinds import open_trackers
from graph.state_reader import IncidentStateReader
from tools.clock import Clock
from tools.inventory.inventory import Inventory


def open_site_trackers(settings: Settings, clock: Clock) -> tuple[Tracker, ...]:
    """Open the trackers of the settings. Raises Refusal if the file is wrong."""
    return open_trackers(settings.trackers, clock, f"{ENV_PREFIX}TRACKERS") if settings.trackers else ()


def list_offered_trackers(trackers: Sequence[Tracker]) -> TrackerChoices:
    return tuple((tracker.name, tracker.words) for tracker in trackers)


@dataclass(frozen=True, slots=True)
class TrackerServices:
    """Without trackers, empty."""

    handlers: TrackerHandlers | None = None
    background_jobs: Sequence[BackgroundJob] = ()


def build_tracker_services(
    settings: Settings,
    store: Store,
    context: HandlerContext,
    editable_messages: EditableMessages,
    inventory: Inventory,
    titles: CauseTitles,
    trackers: Sequence[Tracker],
) -> TrackerServices:
    if not trackers:
        return TrackerServices()
    closings = ClosingCauses(IncidentStateReader(store.redis), titles, list_tenants(inventory))
    outbox = Outbox(store.redis, context.clock, build_tracker_outbox_keys(), timedelta(seconds=settings.outbox_lease_seconds))
    by_name = {tracker.name: tracker for tracker in trackers}
    cards = TrackerCards(context.client, editable_messages, context.inbox, context.people, outbox, by_name, context.channel_bindings)
    poll = timedelta(seconds=settings.tracker_poll_seconds)
    sync = TicketSync(outbox, by_name, context.clock, cards.update_card, closings.get_closing_text, cards.quote_remark, poll)
    return TrackerServices(TrackerHandlers(context, cards, closings.titles, closings.customers), (sync.run,))
