"""Wiring of the tenants' side."""

from collections.abc import Mapping, Sequence

from bot.incidents.context import HandlerContext
from bot.incidents.dispatch.inbox import Inbox
from bot.incidents.dispatch.quota_gate import QuotaGate
from bot.policy.channels import build_channel_bindings
from bot.policy.quotas import ExceededLimit, Quota, Quotas
from bot.provider.provider_updates import ProviderMessageStore
from bot.provider.ticket_states import TicketStates
from bot.slack.client import SlackClient
from bot.slack.people import People
from bot.slack.posted_messages import EditableMessages, PendingMessages, PostedCards
from bot.store.quotas import QuotaStore, QuotaWaitingList
from bot.store.store import Store
from bot.tenants.cards.view import SlotValueLookup, TenantView
from bot.tenants.quota_notices import QuotaNotices
from bot.tenants.tenant_cards import TenantCards
from bot.tenants.tenant_updates import TenantUpdateHandlers
from graph.context import GraphContext
from graph.state import InboxItem, Origin
from kb.customers.cause_words import load_customer_words
from kb.taxonomy.taxonomy import Taxonomy
from tools.inventory.inventory import Inventory
from tools.inventory.sku import Sku


def build_tenant_cards(
    client: SlackClient, cards: PostedCards, inbox: Inbox, people: People, ports: GraphContext, unsettled: PendingMessages
) -> TenantCards:
    """Build tenants' cards. Streaming and agent blocks stay off in shared channels."""
    words, bound = load_customer_words(ports.taxonomy), build_channel_bindings(ports.inventory.channels)
    kept = EditableMessages(client, cards, plans=False)
    return TenantCards(
        client,
        kept,
        inbox,
        ports.inventory,
        words,
        bound,
        people,
        unsettled,
        build_known_lookup(ports.inventory, ports.taxonomy, ports.skus),
    )


async def notify_nobody(origin: Origin, item: InboxItem, no: ExceededLimit, quota: Quota) -> None:
    """Do nothing: the sender of a ticket knows that it was received."""


def build_quota_gate(shares: Quotas, store: Store, inbox: Inbox, ports: GraphContext, cards: TenantCards | None) -> QuotaGate:
    """Build the gate that makes tenants over quota wait, with a notice if they have a channel."""
    tell, clock, theirs = QuotaNotices(cards).post_notice if cards else notify_nobody, ports.clock, list_tenant_labels(ports.taxonomy)
    return QuotaGate(shares, QuotaStore(store.redis, clock), QuotaWaitingList(store.redis, clock), inbox, clock, tell, theirs.__contains__)


def list_tenant_labels(taxonomy: Taxonomy) -> frozenset[str]:
    """Return labels of causes that the tenant must fix."""
    return frozenset(label for label, leaf in taxonomy.leaves.items() if leaf.owner == "customer")


def build_tenant_updates(
    context: HandlerContext,
    cards: TenantCards | None,
    posted: PostedCards,
    states: TicketStates | None,
    inventory: Inventory,
    kept: ProviderMessageStore | None,
) -> TenantUpdateHandlers:
    """Build handlers for updates to tenants. `kept` stores those for senders of tickets."""

    async def view_of(incident: str, origin: Origin) -> TenantView | None:
        if origin.ticket:
            return await states.build_view(origin.tenant, incident) if states else None
        return await cards.load_view(incident, origin) if cards else None

    return TenantUpdateHandlers(context, posted, inventory, view_of, kept)


def build_known_lookup(inventory: Inventory, taxonomy: Taxonomy, skus: Mapping[str, Sku]) -> SlotValueLookup:
    """Return values for paste blocks: what the first host's SKU expects of the cause's variables."""

    def known(label: str, hosts: Sequence[str]) -> Mapping[str, str]:
        row = inventory.hosts.get(hosts[0]) if hosts else None
        sku = skus.get(row.sku) if row else None
        keys = [clue.key for clue in taxonomy.get_leaf(label).evidence if clue.key.startswith("env.")]
        value = next((sku.get_expected(key, None) for key in keys), None) if sku else None
        return {} if value is None else {"expected": str(value)}

    return known
