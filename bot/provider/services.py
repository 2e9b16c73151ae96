"""Wiring of the link between tenant and provider; settings switch each end on."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path

import structlog
import yaml

from bot.inbound import InboundRoute
from bot.incidents.context import HandlerContext
from bot.incidents.dispatch.inbox import Inbox
from bot.provider.handlers import ProviderCards, ProviderHandlers
from bot.provider.intake import ProviderIntake
from bot.provider.link import HttpProviderLink
from bot.provider.provider_updates import ProviderMessageStore
from bot.provider.ticket_documents import TicketStore, build_incident_ticket
from bot.provider.ticket_importer import TicketImporter, list_tenants
from bot.provider.ticket_sender import TicketSender
from bot.provider.ticket_states import TicketStates
from bot.provider.ticket_threads import TicketThreads
from bot.refusal import Refusal
from bot.remediation.action_callbacks import IncidentFactsLoader
from bot.settings import ENV_PREFIX, Settings
from bot.signed_messages import parse_webhook_key
from bot.slack.client import SlackClient
from bot.slack.people import People
from bot.slack.posted_messages import EditableMessages, PostedCards
from bot.store.external_outbox import Outbox, build_provider_outbox_keys
from bot.store.keys import RedisKeys
from bot.store.store import Store
from bot.tasks import BackgroundJob
from bot.tenants.cards.view import build_slot_value_lookup
from bot.tenants.tenant_cards import APPROVED_STATES, TenantCards
from graph.context import GraphContext
from graph.state import InboxItem, Origin
from kb.customers.cause_words import load_customer_words
from kb.yaml_files import load_plain
from tools.inventory.inventory import Inventory
from tools.ledger.record import ActionRecord
from tools.ledger.refusals import Refused

log = structlog.get_logger()
RecordLoader = Callable[[str], Awaitable[Sequence[ActionRecord]]]


def build_ticket_threads(
    store: Store, client: SlackClient, cards: PostedCards, inbox: Inbox, people: People, tenant_cards: TenantCards | None
) -> TicketThreads:
    """Build the thread resolver. Needed without a link too, as tickets can be imported."""

    async def get_stored_origin(item: InboxItem) -> Origin | None:
        return await inbox.get_origin(item.incident)

    resolve_thread = tenant_cards.resolve_thread if tenant_cards else get_stored_origin
    return TicketThreads(client, cards, inbox, people, TicketStore(store.redis), resolve_thread)


@dataclass(frozen=True, slots=True)
class ProviderServices:
    """Both ends; either may be off. A tenant has `cards` and `handlers`, a provider `ticket_states`, `routes` and
    `message_store`, which holds operators' messages to senders of tickets.
    """

    cards: ProviderCards | None = None
    handlers: ProviderHandlers | None = None
    background_jobs: Sequence[BackgroundJob] = ()
    ticket_states: TicketStates | None = None
    routes: Sequence[InboundRoute] = ()
    message_store: ProviderMessageStore | None = None


def build_provider_services(
    settings: Settings,
    store: Store,
    context: HandlerContext,
    editable_messages: EditableMessages,
    ports: GraphContext,
    load_facts: IncidentFactsLoader,
    load_records: RecordLoader,
) -> ProviderServices:
    """Build both ends. Raises Refusal for an invalid key."""
    states = routes = messages = None
    if settings.intake_keys:
        keys = load_intake_keys(settings.intake_keys, ports.inventory)
        messages = ProviderMessageStore(store.redis, ports.clock)
        states = build_ticket_states(context, ports, messages, load_facts, load_records)
        arrivals = TicketImporter(context.inbox, TicketStore(store.redis), ports.inventory, ports.clock)
        routes = ProviderIntake(keys, arrivals, states, store.redis, context.wake, RedisKeys()).routes
    if not settings.provider_url:
        return ProviderServices(ticket_states=states, routes=routes or (), message_store=messages)
    try:
        key = parse_webhook_key(settings.provider_key.get_secret_value())
    except ValueError as why:
        raise Refusal(f"{ENV_PREFIX}PROVIDER_KEY: {why}", 2) from why
    outbox = Outbox(store.redis, ports.clock, build_provider_outbox_keys(), timedelta(seconds=settings.outbox_lease_seconds))
    cards = ProviderCards(context.client, editable_messages, context.inbox, context.people, outbox, ports.taxonomy)
    build_document = partial(build_incident_ticket, store.redis, ports.evidence, ports.inventory, clock=ports.clock)
    link, poll = HttpProviderLink(settings.provider_url, key, ports.clock), timedelta(seconds=settings.provider_poll_seconds)
    sender = TicketSender(outbox, link, cards.update_card, cards.post_provider_message, ask_every=poll)
    return ProviderServices(cards, ProviderHandlers(context, cards, build_document), (sender.run,), states, routes or (), messages)


def build_ticket_states(
    context: HandlerContext,
    ports: GraphContext,
    messages: ProviderMessageStore,
    load_facts: IncidentFactsLoader,
    load_records: RecordLoader,
) -> TicketStates:
    """Return the reader of ticket progress."""

    async def list_begun_approvals(incident: str) -> frozenset[str]:
        try:
            return frozenset(record.approval for record in await load_records(incident) if record.state in APPROVED_STATES)
        except Refused as why:
            log.warning("intake.records_unreadable", incident=incident, why=str(why)[:200])
            return frozenset()

    words, slot_values = load_customer_words(ports.taxonomy), build_slot_value_lookup(ports.inventory, ports.taxonomy, ports.skus)
    return TicketStates(context.inbox, ports.inventory, words, context.load_state, list_begun_approvals, messages, slot_values, load_facts)


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
