"""The customers' side put together: their cards over the same store, and the door of their channels."""

from collections.abc import Mapping, Sequence

from bot.cards.customers.view import Known
from bot.desk.inbox import Inbox
from bot.desk.shares import TenantShares
from bot.policy.channels import bindings
from bot.policy.shares import Shares
from bot.slack.client import SlackClient
from bot.slack.context import Surface
from bot.slack.customers.door import CustomerDoor
from bot.slack.outgoing.customers import CustomerCards
from bot.slack.outgoing.posts import KeptMessages, PostedCards
from bot.slack.outgoing.waiting import CustomerWaits
from bot.slack.people import People
from bot.store.shares import RedisShares
from bot.store.store import Store
from graph.ports import Ports
from kb.customers.words import load_customer_words
from tools.clock import Clock


def customer_cards(client: SlackClient, cards: PostedCards, inbox: Inbox, people: People, ports: Ports) -> CustomerCards:
    """What customers are shown. Streaming and agent blocks stay off in channels that are shared."""
    words, bound = load_customer_words(ports.taxonomy), bindings(ports.inventory.channels)
    kept = KeptMessages(client, cards, plans=False)
    return CustomerCards(client, kept, inbox, ports.inventory, words, bound, people, known_at(ports))


def customer_door(surface: Surface, cards: CustomerCards | None, ports: Ports) -> CustomerDoor | None:
    """None where customers are not served."""
    return CustomerDoor(surface, cards, ports.inventory) if cards else None


def customer_shares(shares: Shares, store: Store, inbox: Inbox, clock: Clock, cards: CustomerCards) -> TenantShares:
    """What lets a customer over their share wait, and tells them."""
    return TenantShares(shares, RedisShares(store.redis, clock), inbox, clock, CustomerWaits(cards).tell)


def known_at(ports: Ports) -> Known:
    """What a block to paste may be filled with: what the profile of the first of the hosts expects of a cause's variables."""

    def known(label: str, hosts: Sequence[str]) -> Mapping[str, str]:
        row = ports.inventory.hosts.get(hosts[0]) if hosts else None
        sku = ports.skus.get(row.sku) if row else None
        keys = [clue.key for clue in ports.taxonomy.leaf(label).evidence if clue.key.startswith("env.")]
        value = next((sku.expected(key, None) for key in keys), None) if sku else None
        return {} if value is None else {"expected": str(value)}

    return known
