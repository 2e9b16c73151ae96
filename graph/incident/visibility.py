"""Which hosts an incident may see and name."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from graph.dialogue.intents import Intent
from graph.dialogue.said import ALL, OTHERS, Vocabulary, get_parsed_message
from graph.extraction.command_hosts import resolve_hosts_and_groups
from graph.extraction.hosts import find_hosts
from graph.state import SIDE_KEY, TENANT_SIDE, InboxItem, Origin
from kb.taxonomy.taxonomy import Taxonomy
from tools.inventory.inventory import ChannelRow, Inventory
from tools.remedies import REMEDIES

MAX_NAMED_CHARS = 4000  # characters of a message searched for host names


def list_visible_hosts(inventory: Inventory, origin: Origin) -> tuple[str, ...]:
    """Return the hosts that the incident's channel may speak of.

    A tenant's channel, and an incident that a tenant reported anywhere, sees only that tenant's hosts, within the
    groups of the tenant's channel.
    """
    channel_hosts = _list_channel_hosts(inventory, origin)
    tenant_channel = _find_channel(inventory, origin.customer.channel) if origin.customer else None
    if not (origin.tenant and tenant_channel and tenant_channel.groups):
        return channel_hosts
    tenant_hosts = frozenset(inventory.list_group_hosts(tenant_channel.groups))
    return tuple(name for name in channel_hosts if name in tenant_hosts)


def _list_channel_hosts(inventory: Inventory, origin: Origin) -> tuple[str, ...]:
    channel = _find_channel(inventory, origin.channel) if origin.channel else None
    if channel is not None and channel.kind == "operators":
        group_hosts = inventory.list_group_hosts(channel.groups)
        return _select_tenant_hosts(inventory, group_hosts, origin.tenant) if origin.tenant else group_hosts
    tenant = channel.tenant if channel else origin.tenant
    if tenant:
        group_hosts = inventory.list_group_hosts(channel.groups) if channel and channel.groups else inventory.workers
        return _select_tenant_hosts(inventory, group_hosts, tenant)
    return inventory.workers if origin.kind != "slack" or not inventory.channels else ()


def _find_channel(inventory: Inventory, channel_id: str) -> ChannelRow | None:
    for channel in inventory.channels:
        if channel.channel == channel_id:
            return channel
    return None


def _select_tenant_hosts(inventory: Inventory, hosts: Iterable[str], tenant: str) -> tuple[str, ...]:
    return tuple(name for name in hosts if inventory.hosts[name].tenant == tenant)


def list_nameable_hosts(inventory: Inventory, origin: Origin) -> tuple[str, ...]:
    """Return the visible hosts and, if no channel or tenant limits them, the controllers, which are checked only if named."""
    visible_hosts = list_visible_hosts(inventory, origin)
    is_unlimited = not origin.tenant and _find_channel(inventory, origin.channel) is None
    if not is_unlimited or visible_hosts != inventory.workers:
        return visible_hosts
    controllers = [name for name in inventory.hosts if name not in inventory.workers]
    return (*visible_hosts, *controllers)


@dataclass(frozen=True, slots=True)
class HostScope:
    """The hosts that one item may check, and the host names and groups that it may use."""

    hosts: tuple[str, ...]
    names: Mapping[str, str]
    groups: Mapping[str, tuple[str, ...]]


def build_host_scope(inventory: Inventory, origin: Origin, item: InboxItem, looked_at: Collection[str]) -> HostScope:
    """Return what an item of this origin may check and name.

    In a tenant's incident operators may name further hosts, which stay in scope (`looked_at`); the tenant can neither
    name them nor see their findings.
    """
    visible_hosts = list_visible_hosts(inventory, origin)
    nameable_hosts = list_nameable_hosts(inventory, origin)
    names, groups = map_visible_names(inventory, nameable_hosts), map_visible_groups(inventory, nameable_hosts)
    if not (origin.tenant and origin.customer):
        controllers = {host: host for host in nameable_hosts[len(visible_hosts) :]}
        message_text = f"{item.data.get('hosts') or ''}\n{item.text[:MAX_NAMED_CHARS]}" if controllers else ""
        named_hosts = {*looked_at, *find_hosts(message_text, controllers).hosts}
        named_controllers = [host for host in controllers if host in named_hosts]
        return HostScope((*visible_hosts, *named_controllers), names, groups)
    own_hosts = list_visible_hosts(inventory, origin.model_copy(update={"tenant": ""}))
    kept_hosts = tuple(host for host in own_hosts if host in looked_at)
    if item.data.get(SIDE_KEY) == TENANT_SIDE or item.kind == "mention":  # the opening item is the tenant's, even without a side
        return HostScope(tuple(dict.fromkeys((*visible_hosts, *kept_hosts))), names, groups)
    names, groups = map_visible_names(inventory, own_hosts), map_visible_groups(inventory, own_hosts)
    return HostScope(tuple(dict.fromkeys((*visible_hosts, *kept_hosts, *_find_named_hosts(item, names, groups)))), names, groups)


def _find_named_hosts(item: InboxItem, host_names: Mapping[str, str], groups: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    message = get_parsed_message(item)
    if message is None:
        return ()
    if message.intent is Intent.WIDEN and message.group in (ALL, OTHERS) and not item.data.get("hosts"):
        return tuple(dict.fromkeys(host_names.values()))
    given_hosts = resolve_hosts_and_groups(str(item.data.get("hosts") or ""), host_names, groups, strict=False).hosts
    return (
        *(host for host in message.hosts if host in host_names),
        *given_hosts,
        *find_hosts(item.text[:MAX_NAMED_CHARS], host_names).hosts,
    )


def map_visible_groups(inventory: Inventory, hosts: Iterable[str]) -> Mapping[str, tuple[str, ...]]:
    """Return each group's members among these hosts, without groups that have none."""
    visible_hosts = frozenset(hosts)
    visible_groups: dict[str, tuple[str, ...]] = {}
    for group, members in inventory.groups.items():
        visible_members = tuple(host for host in members if host in visible_hosts)
        if visible_members:
            visible_groups[group] = visible_members
    return visible_groups


def map_visible_names(inventory: Inventory, hosts: Iterable[str]) -> Mapping[str, str]:
    """Map every host name and tenant alias to its host. An alias that two visible tenants share is dropped."""
    inventory_hosts = {name: inventory.hosts[name] for name in hosts}
    alias_counts = Counter(host.alias.lower() for host in inventory_hosts.values() if host.alias)
    names = {name: name for name in inventory_hosts}
    aliases = {host.alias: name for name, host in inventory_hosts.items() if alias_counts[host.alias.lower()] == 1}
    return {**names, **aliases}


def build_vocabulary(inventory: Inventory, taxonomy: Taxonomy, checks: Iterable[str], origin: Origin) -> Vocabulary:
    """Return what a message of this origin may name."""
    hosts = list_nameable_hosts(inventory, origin)
    return Vocabulary(
        hosts=map_visible_names(inventory, hosts),
        domains=inventory.list_domains(hosts),
        groups=map_visible_groups(inventory, hosts),
        titles={label: leaf.title for label, leaf in taxonomy.leaves.items()},
        checks=tuple(checks),
        remedies={remedy.id: remedy.id.replace("_", " ") for remedy in REMEDIES.values() if remedy.at != "fleet"},
    )


def build_vocabulary_lookup(inventory: Inventory, taxonomy: Taxonomy, checks: Collection[str]) -> Callable[[Origin], Vocabulary]:
    """Return a function that builds the vocabulary of an origin, cached per channel and tenant."""
    cache: dict[tuple[str, str], Vocabulary] = {}

    def get_vocabulary(origin: Origin) -> Vocabulary:
        cache_key = origin.channel, origin.tenant
        if cache_key not in cache:
            cache[cache_key] = build_vocabulary(inventory, taxonomy, checks, origin)
        return cache[cache_key]

    return get_vocabulary
