"""Who may see which hosts. Pure."""

from graph.state import Origin
from tools.inventory.hosts import Inventory


def visible_hosts(inventory: Inventory, origin: Origin) -> tuple[str, ...]:
    """Hosts that the place where an incident lives may speak of. A channel bound to a tenant sees that tenant's only."""
    bound = next((row for row in inventory.channels if row.channel == origin.channel), None) if origin.channel else None
    if bound is not None and bound.kind == "operators":
        return inventory.of_groups(bound.groups)
    tenant = bound.tenant if bound else origin.tenant
    if tenant:
        own = inventory.of_groups(bound.groups) if bound and bound.groups else inventory.workers
        return tuple(name for name in own if inventory.hosts[name].tenant == tenant)
    return inventory.workers if origin.kind != "slack" or not inventory.channels else ()
