"""The customers' side put together: their cards over the same store, and the door of their channels."""

from collections.abc import Mapping, Sequence

from bot.cards.customers.view import CustomerView, Known
from bot.desk.inbox import Inbox
from bot.desk.shares import TenantShares
from bot.policy.channels import bindings
from bot.policy.shares import Over, Share, Shares
from bot.provider.standing import TicketStates
from bot.provider.telling import ToldBook
from bot.slack.client import SlackClient
from bot.slack.context import Surface
from bot.slack.customers.door import CustomerDoor
from bot.slack.customers.telling import Telling
from bot.slack.outgoing.customers import CustomerCards
from bot.slack.outgoing.posts import KeptMessages, PostedCards
from bot.slack.outgoing.waiting import CustomerWaits
from bot.slack.people import People
from bot.store.share_waits import ShareWaits
from bot.store.shares import RedisShares
from bot.store.store import Store
from graph.ports import Ports
from graph.state import Item, Origin
from kb.customers.words import load_customer_words
from kb.taxonomy.labels import Taxonomy
from tools.inventory.hosts import Inventory
from tools.inventory.sku import Sku


def customer_cards(client: SlackClient, cards: PostedCards, inbox: Inbox, people: People, ports: Ports) -> CustomerCards:
    """What customers are shown. Streaming and agent blocks stay off in channels that are shared."""
    words, bound = load_customer_words(ports.taxonomy), bindings(ports.inventory.channels)
    kept = KeptMessages(client, cards, plans=False)
    return CustomerCards(client, kept, inbox, ports.inventory, words, bound, people, known_at(ports.inventory, ports.taxonomy, ports.skus))


def customer_door(surface: Surface, cards: CustomerCards | None, ports: Ports) -> CustomerDoor | None:
    """None where customers are not served."""
    return CustomerDoor(surface, cards, ports.inventory) if cards else None


async def untold(origin: Origin, item: Item, no: Over, share: Share) -> None:
    """A ticket of a customer's own RackMedic is received, and that is all that is said of it until it begins."""


def customer_shares(shares: Shares, store: Store, inbox: Inbox, ports: Ports, cards: CustomerCards | None) -> TenantShares:
    """What lets a customer over their share wait, and tells them where they have a channel."""
    tell, clock, theirs = CustomerWaits(cards).tell if cards else untold, ports.clock, customers_own(ports.taxonomy)
    return TenantShares(shares, RedisShares(store.redis, clock), ShareWaits(store.redis, clock), inbox, clock, tell, theirs.__contains__)


def customers_own(taxonomy: Taxonomy) -> frozenset[str]:
    """Labels of causes that are a customer's to mend."""
    return frozenset(label for label, leaf in taxonomy.leaves.items() if leaf.owner == "customer")


def customer_telling(
    surface: Surface,
    cards: CustomerCards | None,
    posted: PostedCards,
    states: TicketStates | None,
    inventory: Inventory,
    kept: ToldBook | None,
) -> Telling:
    """What our people tell customers: those of channels, and those whose own RackMedic sent a ticket (`kept`: where it waits for them)."""

    async def view_of(incident: str, origin: Origin) -> CustomerView | None:
        if origin.ticket:
            return await states.view(origin.tenant, incident) if states else None
        return await cards.view(incident, origin) if cards else None

    return Telling(surface, posted, inventory, view_of, kept)


def known_at(inventory: Inventory, taxonomy: Taxonomy, skus: Mapping[str, Sku]) -> Known:
    """What a block to paste may be filled with: what the profile of the first of the hosts expects of a cause's variables."""

    def known(label: str, hosts: Sequence[str]) -> Mapping[str, str]:
        row = inventory.hosts.get(hosts[0]) if hosts else None
        sku = skus.get(row.sku) if row else None
        keys = [clue.key for clue in taxonomy.leaf(label).evidence if clue.key.startswith("env.")]
        value = next((sku.expected(key, None) for key in keys), None) if sku else None
        return {} if value is None else {"expected": str(value)}

    return known
