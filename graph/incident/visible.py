"""Who may see which hosts, and what may be named where they live. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping

from graph.conversation.said import Vocabulary
from graph.state import Origin
from kb.taxonomy.labels import Taxonomy
from tools.inventory.hosts import Inventory
from tools.remedies import REMEDIES


def visible_hosts(inventory: Inventory, origin: Origin) -> tuple[str, ...]:
    """Hosts that the place where an incident lives may speak of. A channel bound to a tenant sees that tenant's only, and so does an incident
    that a tenant reported, wherever it lives."""
    bound = next((row for row in inventory.channels if row.channel == origin.channel), None) if origin.channel else None
    if bound is not None and bound.kind == "operators":
        own = inventory.of_groups(bound.groups)
        return tuple(name for name in own if inventory.hosts[name].tenant == origin.tenant) if origin.tenant else own
    tenant = bound.tenant if bound else origin.tenant
    if tenant:
        own = inventory.of_groups(bound.groups) if bound and bound.groups else inventory.workers
        return tuple(name for name in own if inventory.hosts[name].tenant == tenant)
    return inventory.workers if origin.kind != "slack" or not inventory.channels else ()


def visible_groups(inventory: Inventory, hosts: Iterable[str]) -> Mapping[str, tuple[str, ...]]:
    """The groups that have any of these hosts, each with those of them."""
    seen = frozenset(hosts)
    return {name: own for name, members in inventory.groups.items() if (own := tuple(host for host in members if host in seen))}


def visible_names(inventory: Inventory, hosts: Iterable[str]) -> Mapping[str, str]:
    """Every name under which people may speak of these hosts, theirs and what their tenants call them → the host. What two tenants call their
    own hosts means neither where both are seen."""
    own = {name: inventory.hosts[name] for name in hosts}
    aliases = Counter(host.alias.lower() for host in own.values() if host.alias)
    return {name: name for name in own} | {host.alias: name for name, host in own.items() if aliases[host.alias.lower()] == 1}


def vocabulary(inventory: Inventory, taxonomy: Taxonomy, checks: Iterable[str], origin: Origin) -> Vocabulary:
    """What a message may name in the place where an incident lives."""
    hosts = visible_hosts(inventory, origin)
    return Vocabulary(
        hosts=visible_names(inventory, hosts),
        domains=inventory.domains(hosts),
        groups=visible_groups(inventory, hosts),
        titles={label: leaf.title for label, leaf in taxonomy.leaves.items()},
        checks=tuple(checks),
        remedies={row.id: row.id.replace("_", " ") for row in REMEDIES.values() if row.at != "fleet"},
    )
