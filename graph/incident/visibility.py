"""Which hosts an incident may see and name. Pure."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from graph.dialogue.intents import Intent
from graph.dialogue.said import ALL, OTHERS, Vocabulary, get_parsed_message
from graph.extraction.hosts import find_hosts, resolve_hosts_and_groups
from graph.state import SIDE_KEY, TENANT_SIDE, InboxItem, Origin
from kb.taxonomy.taxonomy import Taxonomy
from tools.inventory.inventory import Inventory
from tools.remedies import REMEDIES

MAX_NAMED_CHARS = 4000  # characters of a message searched for host names


def list_visible_hosts(inventory: Inventory, origin: Origin) -> tuple[str, ...]:
    """Return the hosts that the incident's channel may speak of.

    A tenant's channel, and an incident that a tenant reported anywhere, sees only that tenant's hosts, within the
    groups of the tenant's channel.
    """
    spoken_of = _list_channel_hosts(inventory, origin)
    tenant_channel = next((row for row in inventory.channels if row.channel == origin.customer.channel), None) if origin.customer else None
    if not (origin.tenant and tenant_channel and tenant_channel.groups):
        return spoken_of
    within = frozenset(inventory.list_group_hosts(tenant_channel.groups))
    return tuple(name for name in spoken_of if name in within)


def _list_channel_hosts(inventory: Inventory, origin: Origin) -> tuple[str, ...]:
    bound = next((row for row in inventory.channels if row.channel == origin.channel), None) if origin.channel else None
    if bound is not None and bound.kind == "operators":
        own = inventory.list_group_hosts(bound.groups)
        return tuple(name for name in own if inventory.hosts[name].tenant == origin.tenant) if origin.tenant else own
    tenant = bound.tenant if bound else origin.tenant
    if tenant:
        own = inventory.list_group_hosts(bound.groups) if bound and bound.groups else inventory.workers
        return tuple(name for name in own if inventory.hosts[name].tenant == tenant)
    return inventory.workers if origin.kind != "slack" or not inventory.channels else ()


def list_nameable_hosts(inventory: Inventory, origin: Origin) -> tuple[str, ...]:
    """Return visible hosts; outside channels and tenants also controllers, which are checked only if named."""
    own = list_visible_hosts(inventory, origin)
    anywhere = not origin.tenant and not any(row.channel == origin.channel for row in inventory.channels)
    return (*own, *(name for name in inventory.hosts if name not in inventory.workers)) if own == inventory.workers and anywhere else own


@dataclass(frozen=True, slots=True)
class HostScope:
    """What one item may check, and what it may name."""

    hosts: tuple[str, ...]
    names: Mapping[str, str]
    groups: Mapping[str, tuple[str, ...]]


def build_host_scope(inventory: Inventory, origin: Origin, item: InboxItem, looked_at: Collection[str]) -> HostScope:
    """Return the hosts of the channel.

    In a tenant's incident operators may name further hosts, which stay in scope (`looked_at`); the tenant can neither
    name them nor see their findings.
    """
    own, nameable = list_visible_hosts(inventory, origin), list_nameable_hosts(inventory, origin)
    names, groups = map_visible_names(inventory, nameable), map_visible_groups(inventory, nameable)
    if not (origin.tenant and origin.customer):
        nameable_index = {host: host for host in nameable[len(own) :]}
        spoken = f"{item.data.get('hosts') or ''}\n{item.text[:MAX_NAMED_CHARS]}" if nameable_index else ""
        named_hosts = {*looked_at, *find_hosts(spoken, nameable_index).hosts}
        return HostScope((*own, *(host for host in nameable_index if host in named_hosts)), names, groups)
    own_hosts = list_visible_hosts(inventory, origin.model_copy(update={"tenant": ""}))
    kept_hosts = tuple(host for host in own_hosts if host in looked_at)
    if item.data.get(SIDE_KEY) == TENANT_SIDE or item.kind == "mention":  # the opening item is the tenant's, even without a side
        return HostScope(tuple(dict.fromkeys((*own, *kept_hosts))), names, groups)
    names, groups = map_visible_names(inventory, own_hosts), map_visible_groups(inventory, own_hosts)
    return HostScope(tuple(dict.fromkeys((*own, *kept_hosts, *_find_named_hosts(item, names, groups)))), names, groups)


def _find_named_hosts(item: InboxItem, names: Mapping[str, str], groups: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    message = get_parsed_message(item)
    if message is None:
        return ()
    if message.intent is Intent.WIDEN and message.group in (ALL, OTHERS) and not item.data.get("hosts"):
        return tuple(dict.fromkeys(names.values()))
    given_hosts = resolve_hosts_and_groups(str(item.data.get("hosts") or ""), names, groups, strict=False).hosts
    return (*(host for host in message.hosts if host in names), *given_hosts, *find_hosts(item.text[:MAX_NAMED_CHARS], names).hosts)


def map_visible_groups(inventory: Inventory, hosts: Iterable[str]) -> Mapping[str, tuple[str, ...]]:
    """Return the groups of these hosts, with those hosts only."""
    host_set = frozenset(hosts)
    return {name: own for name, members in inventory.groups.items() if (own := tuple(host for host in members if host in host_set))}


def map_visible_names(inventory: Inventory, hosts: Iterable[str]) -> Mapping[str, str]:
    """Return every name and tenant alias → host; an alias that two visible tenants share is dropped."""
    own = {name: inventory.hosts[name] for name in hosts}
    aliases = Counter(host.alias.lower() for host in own.values() if host.alias)
    return {name: name for name in own} | {host.alias: name for name, host in own.items() if aliases[host.alias.lower()] == 1}


def build_vocabulary(inventory: Inventory, taxonomy: Taxonomy, checks: Iterable[str], origin: Origin) -> Vocabulary:
    """Build what a message may name here."""
    hosts = list_nameable_hosts(inventory, origin)
    return Vocabulary(
        hosts=map_visible_names(inventory, hosts),
        domains=inventory.list_domains(hosts),
        groups=map_visible_groups(inventory, hosts),
        titles={label: leaf.title for label, leaf in taxonomy.leaves.items()},
        checks=tuple(checks),
        remedies={row.id: row.id.replace("_", " ") for row in REMEDIES.values() if row.at != "fleet"},
    )
