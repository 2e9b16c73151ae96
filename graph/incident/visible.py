"""Who may see which hosts, and what may be named where they live. Pure."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from graph.conversation.intents import Intent
from graph.conversation.said import ALL, OTHERS, Vocabulary, said_of
from graph.reading.groups import hosts_named
from graph.reading.hosts import hosts_in
from graph.state import CUSTOMER, SIDE, Item, Origin
from kb.taxonomy.labels import Taxonomy
from tools.inventory.hosts import Inventory
from tools.remedies import REMEDIES

LONGEST_NAMED = 4000
"""Characters of a message that are read for hosts which it names."""


def visible_hosts(inventory: Inventory, origin: Origin) -> tuple[str, ...]:
    """Hosts that the place where an incident lives may speak of. A channel bound to a tenant sees that tenant's only, and so does an incident
    that a tenant reported, wherever it lives: of those of its own channel's groups, where that names some."""
    spoken_of = _in_place(inventory, origin)
    came = next((row for row in inventory.channels if row.channel == origin.customer.channel), None) if origin.customer else None
    if not (origin.tenant and came and came.groups):
        return spoken_of
    within = frozenset(inventory.of_groups(came.groups))
    return tuple(name for name in spoken_of if name in within)


def _in_place(inventory: Inventory, origin: Origin) -> tuple[str, ...]:
    bound = next((row for row in inventory.channels if row.channel == origin.channel), None) if origin.channel else None
    if bound is not None and bound.kind == "operators":
        own = inventory.of_groups(bound.groups)
        return tuple(name for name in own if inventory.hosts[name].tenant == origin.tenant) if origin.tenant else own
    tenant = bound.tenant if bound else origin.tenant
    if tenant:
        own = inventory.of_groups(bound.groups) if bound and bound.groups else inventory.workers
        return tuple(name for name in own if inventory.hosts[name].tenant == tenant)
    return inventory.workers if origin.kind != "slack" or not inventory.channels else ()


def nameable_hosts(inventory: Inventory, origin: Origin) -> tuple[str, ...]:
    """Hosts that may be named in the place where an incident lives: those that it may speak of, and where that is no channel and no tenant's the
    schedulers' controllers too, which nobody looks at unless somebody names them."""
    own = visible_hosts(inventory, origin)
    anywhere = not origin.tenant and not any(row.channel == origin.channel for row in inventory.channels)
    return (*own, *(name for name in inventory.hosts if name not in inventory.workers)) if own == inventory.workers and anywhere else own


@dataclass(frozen=True, slots=True)
class Scope:
    """What one item of an incident may look at, and what it may name."""

    hosts: tuple[str, ...]
    names: Mapping[str, str]
    groups: Mapping[str, tuple[str, ...]]


def scope_of(inventory: Inventory, origin: Origin, item: Item, looked_at: Collection[str]) -> Scope:
    """The hosts of its place. In an incident that a customer reported our own side may name others, by host, group or as all of them: those are
    looked at from then on (`looked_at`: what the incident is about by now). The customer never names them, nor sees what was found there."""
    own, nameable = visible_hosts(inventory, origin), nameable_hosts(inventory, origin)
    names, groups = visible_names(inventory, nameable), visible_groups(inventory, nameable)
    if not (origin.tenant and origin.customer):
        beside = {host: host for host in nameable[len(own) :]}
        spoken = f"{item.data.get('hosts') or ''}\n{item.text[:LONGEST_NAMED]}" if beside else ""
        named = {*looked_at, *hosts_in(spoken, beside).hosts}
        return Scope((*own, *(host for host in beside if host in named)), names, groups)
    ours = visible_hosts(inventory, origin.model_copy(update={"tenant": ""}))
    kept = tuple(host for host in ours if host in looked_at)
    if item.data.get(SIDE) == CUSTOMER or item.kind == "mention":  # what opened it was theirs, whatever it lacks
        return Scope(tuple(dict.fromkeys((*own, *kept))), names, groups)
    names, groups = visible_names(inventory, ours), visible_groups(inventory, ours)
    return Scope(tuple(dict.fromkeys((*own, *kept, *_named(item, names, groups)))), names, groups)


def _named(item: Item, names: Mapping[str, str], groups: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """The hosts that a message of ours names."""
    said = said_of(item)
    if said is None:
        return ()
    if said.intent is Intent.WIDEN and said.group in (ALL, OTHERS) and not item.data.get("hosts"):
        return tuple(dict.fromkeys(names.values()))
    given = hosts_named(str(item.data.get("hosts") or ""), names, groups, strict=False).hosts
    return (*(host for host in said.hosts if host in names), *given, *hosts_in(item.text[:LONGEST_NAMED], names).hosts)


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
    hosts = nameable_hosts(inventory, origin)
    return Vocabulary(
        hosts=visible_names(inventory, hosts),
        domains=inventory.domains(hosts),
        groups=visible_groups(inventory, hosts),
        titles={label: leaf.title for label, leaf in taxonomy.leaves.items()},
        checks=tuple(checks),
        remedies={row.id: row.id.replace("_", " ") for row in REMEDIES.values() if row.at != "fleet"},
    )
