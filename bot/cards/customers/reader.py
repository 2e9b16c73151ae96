"""For whom a customer's view is made, of what the inventory says of them. Pure."""

from collections.abc import Iterable

from bot.cards.customers.drivers import add_driver_versions
from bot.cards.customers.view import TenantViewContext, SlotValueLookup
from graph.incident.visible import list_visible_hosts
from graph.ownership import build_tenant_machines
from graph.state import Origin
from kb.customers.words import CustomerWords
from tools.fact import Fact
from tools.inventory.hosts import Inventory


def build_tenant_view_context(
    inventory: Inventory, words: CustomerWords, origin: Origin, language: str, known: SlotValueLookup, facts: Iterable[Fact]
) -> TenantViewContext:
    """The customer of an incident: their own hosts by their own names, and whose the others are not told."""
    own = frozenset(list_visible_hosts(inventory, origin))
    names = {host: inventory.hosts[host].name_for_tenant for host in own}
    nodes = build_tenant_machines(inventory, own).nodes
    return TenantViewContext(own, words, language, add_driver_versions(known, facts, own), frozenset(inventory.workers) - own, names, nodes)
