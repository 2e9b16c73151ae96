"""Wiring of the tenants' side."""

from bot.incidents.context import HandlerContext
from bot.incidents.dispatch.inbox import Inbox
from bot.incidents.dispatch.quota_gate import QuotaGate
from bot.policy.quotas import ExceededLimit, Quota, Quotas
from bot.provider.provider_updates import ProviderMessageStore
from bot.provider.ticket_states import TicketStates
from bot.slack.posted_messages import PostedCards
from bot.store.quota_usage import QuotaStore
from bot.store.quota_waiting_list import QuotaWaitingList
from bot.store.store import Store
from bot.tenants.cards.view import TenantView
from bot.tenants.quota_notices import QuotaNotices
from bot.tenants.tenant_cards import TenantCards
from bot.tenants.tenant_updates import TenantUpdateHandlers
from graph.context import GraphContext
from graph.state import InboxItem, Origin
from kb.taxonomy.taxonomy import Taxonomy
from tools.inventory.inventory import Inventory


async def notify_nobody(origin: Origin, item: InboxItem, limit: ExceededLimit, quota: Quota) -> None:
    """Do nothing: the sender of a ticket knows that it was received."""


def build_quota_gate(shares: Quotas, store: Store, inbox: Inbox, ports: GraphContext, tenant_cards: TenantCards | None) -> QuotaGate:
    """Build the gate that makes tenants over quota wait, with a notice if they have a channel."""
    tell, clock = QuotaNotices(tenant_cards).post_notice if tenant_cards else notify_nobody, ports.clock
    is_tenant_cause = list_tenant_labels(ports.taxonomy).__contains__
    return QuotaGate(shares, QuotaStore(store.redis, clock), QuotaWaitingList(store.redis, clock), inbox, clock, tell, is_tenant_cause)


def list_tenant_labels(taxonomy: Taxonomy) -> frozenset[str]:
    """Return labels of causes that the tenant must fix."""
    return frozenset(label for label, leaf in taxonomy.leaves.items() if leaf.owner == "customer")


def build_tenant_updates(
    context: HandlerContext,
    tenant_cards: TenantCards | None,
    posted_cards: PostedCards,
    ticket_states: TicketStates | None,
    inventory: Inventory,
    message_store: ProviderMessageStore | None,
) -> TenantUpdateHandlers:
    """Build handlers for updates to tenants. `message_store` holds those for senders of tickets."""

    async def load_view(incident: str, origin: Origin) -> TenantView | None:
        if origin.ticket:
            return await ticket_states.build_view(origin.tenant, incident) if ticket_states else None
        return await tenant_cards.load_view(incident, origin) if tenant_cards else None

    return TenantUpdateHandlers(context, posted_cards, inventory, load_view, message_store)
