"""The line between a customer's own RackMedic and their provider's put together, each end where its settings switch it on."""

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import structlog
import yaml

from bot.desk.desk import Board
from bot.desk.inbox import Inbox
from bot.inbound.routes import InboundRoute
from bot.inbound.webhook import key_of
from bot.provider.arrivals import Arrivals, tenants_of
from bot.provider.document import MadeTicket, ticket_document
from bot.provider.intake import Intake
from bot.provider.kept import TicketBook
from bot.provider.link import HttpLink
from bot.provider.sender import Sender
from bot.provider.standing import TicketStates
from bot.provider.telling import ToldBook
from bot.refusal import Refusal
from bot.run.customers import known_at
from bot.settings import PREFIX, Settings
from bot.slack.client import SlackClient
from bot.slack.context import Surface
from bot.slack.outgoing.customers import APPROVED, CustomerCards
from bot.slack.outgoing.posts import KeptMessages, PostedCards
from bot.slack.people import People
from bot.slack.provider.office import BoardWithProvider, ProviderCards, ProviderDesk
from bot.slack.provider.threads import TicketThreads
from bot.store.keys import Names
from bot.store.outbox import Outbox, provider_box
from bot.store.store import Store
from graph.ports import Ports
from graph.state import Item, Origin
from kb.customers.words import load_customer_words
from kb.yaml import plain
from tools.inventory.hosts import Inventory
from tools.ledger.record import Record, Refused

log = structlog.get_logger()
RecordsOf = Callable[[str], Awaitable[Sequence[Record]]]


def ticket_threads(
    store: Store, client: SlackClient, cards: PostedCards, inbox: Inbox, people: People, customers: CustomerCards | None
) -> TicketThreads:
    """Where incidents live: those of tickets in threads of their own, all others as ever. A ticket may be imported without any link."""

    async def as_stored(item: Item) -> Origin | None:
        return await inbox.origin(item.incident)

    return TicketThreads(client, cards, inbox, people, TicketBook(store.redis), customers.home if customers else as_stored)


@dataclass(frozen=True, slots=True)
class ProviderLine:
    """Both ends as a process has them; either may be off. `cards` and `link` of a customer's site, `keys` of a provider."""

    settings: Settings
    store: Store
    ports: Ports
    inbox: Inbox
    cards: ProviderCards | None
    link: HttpLink | None
    keys: Mapping[str, Sequence[bytes]]

    def dressed(self, surface: Surface) -> Surface:
        """The surface with the buttons that send."""
        return replace(surface, sending=ProviderDesk(surface, self.cards, self._document)) if self.cards else surface

    def watching(self, board: Board) -> Board:
        """The board with what is offered to be sent."""
        return BoardWithProvider(board, self.cards) if self.cards else board

    @property
    def chores(self) -> Sequence[Callable[[], Coroutine[Any, Any, None]]]:
        """What empties the outbox."""
        if self.cards is None or self.link is None:
            return ()
        poll = timedelta(seconds=self.settings.provider_poll_seconds)
        return (Sender(self.cards.outbox, self.link, self.cards.paint, self.cards.say, ask_every=poll).run,)

    def routes(self, surface: Surface, states: TicketStates | None) -> Sequence[InboundRoute]:
        """The intake; nothing where it is off."""
        return self._intake(surface, states).routes if states else ()

    @property
    def told(self) -> ToldBook:
        """What our people tell whoever sent a ticket."""
        return ToldBook(self.store.redis, self.ports.clock)

    @property
    def fetched(self) -> ToldBook | None:
        """The same where somebody may ask for it."""
        return self.told if self.keys else None

    def states(self, surface: Surface, records_of: RecordsOf) -> TicketStates | None:
        """How far tickets are; None where the intake is off."""
        if not self.keys:
            return None

        async def begun_of(incident: str) -> frozenset[str]:
            try:
                return frozenset(row.approval for row in await records_of(incident) if row.state in APPROVED)
            except Refused as why:
                log.warning("intake.records_unreadable", incident=incident, why=str(why)[:200])
                return frozenset()

        words, known = load_customer_words(self.ports.taxonomy), known_at(self.ports.inventory, self.ports.taxonomy, self.ports.skus)
        return TicketStates(self.inbox, self.ports.inventory, words, surface.state_of, begun_of, self.told, known, surface.facts_of)

    async def _document(self, incident: str) -> MadeTicket:
        return await ticket_document(self.store.redis, self.ports.evidence, self.ports.inventory, incident, self.ports.clock)

    def _intake(self, surface: Surface, states: TicketStates) -> Intake:
        redis, inventory = self.store.redis, self.ports.inventory
        arrivals = Arrivals(self.inbox, TicketBook(redis), inventory, self.ports.clock)
        return Intake(self.keys, arrivals, states, redis, surface.wake, Names())


def provider_line(
    settings: Settings, store: Store, ports: Ports, client: SlackClient, posted: PostedCards, inbox: Inbox, people: People
) -> ProviderLine:
    """Raises Refusal for a key that is none."""
    keys = intake_keys(settings.intake_keys, ports.inventory) if settings.intake_keys else {}
    if not settings.provider_url:
        return ProviderLine(settings, store, ports, inbox, None, None, keys)
    try:
        key = key_of(settings.provider_key.get_secret_value())
    except ValueError as why:
        raise Refusal(f"{PREFIX}PROVIDER_KEY: {why}", 2) from why
    kept = KeptMessages(client, posted)
    outbox = Outbox(store.redis, ports.clock, provider_box(), timedelta(seconds=settings.outbox_lease_seconds))
    cards = ProviderCards(client, kept, inbox, people, outbox, ports.taxonomy)
    return ProviderLine(settings, store, ports, inbox, cards, HttpLink(settings.provider_url, key, ports.clock), keys)


def intake_keys(file: Path, inventory: Inventory) -> dict[str, tuple[bytes, ...]]:
    """Tenant → its keys, old and new. Raises Refusal with every problem; a key is never printed."""
    known = tenants_of(inventory)
    try:
        rows = plain(file.read_text()) or {}
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as why:
        raise Refusal(f"{PREFIX}INTAKE_KEYS: {file} cannot be read: {' '.join(str(why).split())[:200]}", 2) from why
    if not isinstance(rows, dict) or not rows:
        raise Refusal(f"{PREFIX}INTAKE_KEYS: {file} must be a mapping of tenants, each with a list of keys", 2)
    problems = [
        f"{name}: no host of the inventory belongs to it; known are {', '.join(known) or 'none'}" for name in rows if name not in known
    ]
    keys: dict[str, tuple[bytes, ...]] = {}
    for tenant, texts in rows.items():
        try:
            keys[str(tenant)] = tuple(key_of(str(text)) for text in (texts if isinstance(texts, list) else [texts]))
        except ValueError as why:
            problems.append(f"{tenant}: {why}")
    if problems:
        raise Refusal("\n".join(f"{PREFIX}INTAKE_KEYS: {problem}" for problem in problems), 2)
    return keys
