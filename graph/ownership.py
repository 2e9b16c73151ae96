"""Which tenant owns a fact and may see it. Without an established owner it is for operators only. Pure."""

from collections.abc import Collection
from dataclasses import dataclass

from graph.state import TENANT_SIDE, FileSource
from tools.fact import Fact, Status
from tools.inventory.host_ranges import BadRange, expand_host_range
from tools.inventory.inventory import Inventory

FILE_READING_CHECKS = frozenset({"joblog"})  # Checks that read files in directories that several tenants may share.
# What such a check reports about its own reading: no cause rests on it.
READ_STATUS_KEYS = frozenset({"job.log", "job.ranks", "check.left_out"})


@dataclass(frozen=True, slots=True)
class TenantMachines:
    """A tenant's hosts, and their scheduler names."""

    hosts: Collection[str]
    nodes: Collection[str]

    def owns_file(self, source: FileSource | None) -> bool:
        """Return whether its job runs on this tenant's machines only. Files of root (uid 0) may be of any job."""
        if source is None or not source.uid or not (source.job and source.nodes):
            return False
        try:
            nodes = expand_host_range(source.nodes)
        except BadRange:
            return False
        return bool(nodes) and all(node in self.nodes for node in nodes)

    def may_see_fact(self, host: str, check: str, source: FileSource | None) -> bool:
        """Return whether the tenant may see a fact; one without a host only if the tenant attached it."""
        if not host:
            return source is not None and source.by == TENANT_SIDE
        return host in self.hosts and (check not in FILE_READING_CHECKS or self.owns_file(source))

    def is_unowned_file_fact(self, host: str, check: str, source: FileSource | None) -> bool:
        """Return whether it is from a file not proven to be the tenant's."""
        return (not host or check in FILE_READING_CHECKS) and not self.may_see_fact(host, check, source)


def build_tenant_machines(inventory: Inventory, hosts: Collection[str]) -> TenantMachines:
    machines = (inventory.hosts[name] for name in hosts if name in inventory.hosts)
    return TenantMachines(frozenset(hosts), frozenset(host.slurm_name for host in machines))


def is_withheld_from_tenant(fact: Fact, machines: TenantMachines) -> bool:
    """Return whether a fact must not influence anything that the tenant sees."""
    has_status = fact.status is Status.OK and fact.key and fact.key not in READ_STATUS_KEYS
    return bool(has_status) and machines.is_unowned_file_fact(fact.host, fact.check, FileSource.from_fact(fact))
