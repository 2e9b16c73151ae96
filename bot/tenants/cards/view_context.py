"""Build the reader of a tenant's view from the inventory. Pure."""

from collections.abc import Iterable

from bot.tenants.cards.driver_versions import add_driver_versions
from bot.tenants.cards.view import SlotValueLookup, TenantViewContext
from graph.incident.visibility import list_visible_hosts
from graph.ownership import build_tenant_machines
from graph.state import Origin
from kb.customers.cause_words import CustomerWords
from tools.fact import Fact
from tools.inventory.inventory import Inventory


def build_tenant_view_context(
    inventory: Inventory, words: CustomerWords, origin: Origin, language: str, known: SlotValueLookup, facts: Iterable[Fact]
) -> TenantViewContext:
    """Return the incident's tenant as a reader: own hosts by own names, all others hidden."""
    own = frozenset(list_visible_hosts(inventory, origin))
    names = {host: inventory.hosts[host].name_for_tenant for host in own}
    nodes = build_tenant_machines(inventory, own).nodes
    return TenantViewContext(own, words, language, add_driver_versions(known, facts, own), frozenset(inventory.workers) - own, names, nodes)
