"""Wiring of the link between tenant and provider; settings switch each end on."""

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import structlog
import yaml

from bot.app.tenants import build_known_lookup
from bot.inbound import InboundRoute, parse_webhook_key
from bot.incidents.context import HandlerContext
from bot.incidents.dispatch.inbox import Inbox
from bot.provider.handlers import ProviderCards, ProviderHandlers
from bot.provider.intake import ProviderIntake
from bot.provider.link import HttpProviderLink
from bot.provider.provider_updates import ProviderMessageStore
from bot.provider.ticket_documents import BuiltTicket, TicketStore, build_incident_ticket
from bot.provider.ticket_importer import TicketImporter, list_tenants
from bot.provider.ticket_sender import TicketSender
from bot.provider.ticket_states import TicketStates
from bot.provider.ticket_threads import TicketThreads
from bot.refusal import Refusal
from bot.remediation.action_callbacks import IncidentFactsLoader
from bot.settings import ENV_PREFIX, Settings
from bot.slack.client import SlackClient
from bot.slack.people import People
from bot.slack.posted_messages import EditableMessages, PostedCards
from bot.store.external_outbox import Outbox, build_provider_outbox_keys
from bot.store.keys import RedisKeys
from bot.store.store import Store
from bot.tenants.tenant_cards import APPROVED_STATES, TenantCards
from graph.context import GraphContext
from graph.state import InboxItem, Origin
from kb.customers.cause_words import load_customer_words
from kb.yaml_files import load_plain
from tools.inventory.inventory import Inventory
from tools.ledger.record import ActionRecord, Refused

log = structlog.get_logger()
RecordLoader = Callable[[str], Awaitable[Sequence[ActionRecord]]]


def build_ticket_threads(
    store: Store, client: SlackClient, cards: PostedCards, inbox: Inbox, people: People, customers: TenantCards | None
) -> TicketThreads:
    """Build the thread resolver. Needed without a link too, as tickets can be imported."""

    async def as_stored(item: InboxItem) -> Origin | None:
        return await inbox.get_origin(item.incident)

    return TicketThreads(client, cards, inbox, people, TicketStore(store.redis), customers.resolve_thread if customers else as_stored)


@dataclass(frozen=True, slots=True)
class ProviderServices:
    """Both ends; either may be off. `cards` and `link` belong to a tenant, `keys` to a provider."""

    settings: Settings
    store: Store
    ports: GraphContext
    inbox: Inbox
    cards: ProviderCards | None
    link: HttpProviderLink | None
    keys: Mapping[str, Sequence[bytes]]

    def build_handlers(self, context: HandlerContext) -> ProviderHandlers | None:
        return ProviderHandlers(context, self.cards, self._build_document) if self.cards else None

    @property
    def background_jobs(self) -> Sequence[Callable[[], Coroutine[Any, Any, None]]]:
        if self.cards is None or self.link is None:
            return ()
        poll = timedelta(seconds=self.settings.provider_poll_seconds)
        return (TicketSender(self.cards.outbox, self.link, self.cards.update_card, self.cards.post_provider_message, ask_every=poll).run,)

    def build_routes(self, context: HandlerContext, states: TicketStates | None) -> Sequence[InboundRoute]:
        return self._build_intake(context, states).routes if states else ()

    @property
    def update_store(self) -> ProviderMessageStore:
        """Store of operators' messages to senders of tickets."""
        return ProviderMessageStore(self.store.redis, self.ports.clock)

    @property
    def fetchable_updates(self) -> ProviderMessageStore | None:
        """The same store if the intake is on."""
        return self.update_store if self.keys else None

    def build_ticket_states(self, context: HandlerContext, facts_of: IncidentFactsLoader, records_of: RecordLoader) -> TicketStates | None:
        """Return the reader of ticket progress if the intake is on."""
        if not self.keys:
            return None

        async def begun_of(incident: str) -> frozenset[str]:
            try:
                return frozenset(row.approval for row in await records_of(incident) if row.state in APPROVED_STATES)
            except Refused as why:
                log.warning("intake.records_unreadable", incident=incident, why=str(why)[:200])
                return frozenset()

        words, known = (
            load_customer_words(self.ports.taxonomy),
            build_known_lookup(self.ports.inventory, self.ports.taxonomy, self.ports.skus),
        )
        return TicketStates(self.inbox, self.ports.inventory, words, context.load_state, begun_of, self.update_store, known, facts_of)

    async def _build_document(self, incident: str) -> BuiltTicket:
        return await build_incident_ticket(self.store.redis, self.ports.evidence, self.ports.inventory, incident, self.ports.clock)

    def _build_intake(self, context: HandlerContext, states: TicketStates) -> ProviderIntake:
        redis, inventory = self.store.redis, self.ports.inventory
        arrivals = TicketImporter(self.inbox, TicketStore(redis), inventory, self.ports.clock)
        return ProviderIntake(self.keys, arrivals, states, redis, context.wake, RedisKeys())


def build_provider_services(
    settings: Settings, store: Store, ports: GraphContext, client: SlackClient, posted: PostedCards, inbox: Inbox, people: People
) -> ProviderServices:
    """Build both ends. Raises Refusal for an invalid key."""
    keys = load_intake_keys(settings.intake_keys, ports.inventory) if settings.intake_keys else {}
    if not settings.provider_url:
        return ProviderServices(settings, store, ports, inbox, None, None, keys)
    try:
        key = parse_webhook_key(settings.provider_key.get_secret_value())
    except ValueError as why:
        raise Refusal(f"{ENV_PREFIX}PROVIDER_KEY: {why}", 2) from why
    kept = EditableMessages(client, posted)
    outbox = Outbox(store.redis, ports.clock, build_provider_outbox_keys(), timedelta(seconds=settings.outbox_lease_seconds))
    cards = ProviderCards(client, kept, inbox, people, outbox, ports.taxonomy)
    return ProviderServices(settings, store, ports, inbox, cards, HttpProviderLink(settings.provider_url, key, ports.clock), keys)


def load_intake_keys(file: Path, inventory: Inventory) -> dict[str, tuple[bytes, ...]]:
    """Return tenant -> keys. Raises Refusal with every problem; a key is never printed."""
    known = list_tenants(inventory)
    try:
        rows = load_plain(file.read_text()) or {}
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as why:
        raise Refusal(f"{ENV_PREFIX}INTAKE_KEYS: {file} cannot be read: {' '.join(str(why).split())[:200]}", 2) from why
    if not isinstance(rows, dict) or not rows:
        raise Refusal(f"{ENV_PREFIX}INTAKE_KEYS: {file} must be a mapping of tenants, each with a list of keys", 2)
    problems = [
        f"{name}: no host of the inventory belongs to it; known are {', '.join(known) or 'none'}" for name in rows if name not in known
    ]
    keys: dict[str, tuple[bytes, ...]] = {}
    for tenant, texts in rows.items():
        try:
            keys[str(tenant)] = tuple(parse_webhook_key(str(text)) for text in (texts if isinstance(texts, list) else [texts]))
        except ValueError as why:
            problems.append(f"{tenant}: {why}")
    if problems:
        raise Refusal("\n".join(f"{ENV_PREFIX}INTAKE_KEYS: {problem}" for problem in problems), 2)
    return keys
