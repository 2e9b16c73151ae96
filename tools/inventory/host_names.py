"""Other names of hosts, the tenant's alias and the scheduler's node name, and conflicts among them."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from kb.schema import Loc
from tools.checks.check_types import SLOT_PATTERNS

ALIAS_PATTERN = r"^[A-Za-z0-9](?:[A-Za-z0-9._-]{0,62}[A-Za-z0-9])?$"


class HostAlias(NamedTuple):
    """A host and its tenant's name for it."""

    host: str
    alias: str
    tenant: str


def find_alias_problems(aliases: Iterable[HostAlias], hosts: Collection[str]) -> Iterator[tuple[Loc, str]]:
    """Yield conflicts. Two tenants may use the same alias, since neither sees the other's."""
    names = {spelling for host in hosts for spelling in _list_spellings(host)}
    host_by_alias: dict[tuple[str, str], str] = {}
    for host_alias in aliases:
        location: Loc = ("hosts", host_alias.host, "alias")
        field = f"hosts.{host_alias.host}.alias: {host_alias.alias!r}"
        if not host_alias.tenant:
            yield location, f"{field} is what a tenant calls it, and it is no tenant's; give its group a `tenant:`"
        if names & _list_spellings(host_alias.alias) - _list_spellings(host_alias.host):
            yield location, f"{field} is a host of this inventory; choose another"
        first = next((host_by_alias[key] for key in _list_alias_keys(host_alias) if key in host_by_alias), "")
        if first:
            yield location, f"{field} is what {host_alias.tenant} calls {first} already; choose another"
        host_by_alias |= dict.fromkeys(_list_alias_keys(host_alias), host_alias.host)


def _list_alias_keys(host_alias: HostAlias) -> list[tuple[str, str]]:
    return [(host_alias.tenant, spelling) for spelling in _list_spellings(host_alias.alias)]


def _list_spellings(name: str) -> set[str]:
    return {name.lower(), name.lower().partition(".")[0]}


# pattern and its description for people
NODE_NAME_RULES: Mapping[str, tuple[str, str]] = {
    "slurm": (SLOT_PATTERNS["node"], "a NodeName of Slurm: letters, digits, '_' and '-'"),
    "kubernetes": (SLOT_PATTERNS["kube_node"], "a node name of Kubernetes: small letters, digits, '.' and '-'"),
}


@dataclass(frozen=True, slots=True)
class ScheduledHost:
    """A host as scheduled. `named`: the inventory sets its node name."""

    host: str
    group: str
    scheduler: str
    controller: str
    node: str
    named: bool


def find_scheduling_problems(hosts: Iterable[ScheduledHost]) -> Iterator[tuple[Loc, str]]:
    """Yield hosts that share a node name, of which one would be drained for the other, and bad or missing settings."""
    scheduled_hosts = list(hosts)
    controllers = {scheduled.controller for scheduled in scheduled_hosts}
    reported_groups: set[str] = set()
    host_by_name: dict[tuple[str, str], str] = {}
    for scheduled in scheduled_hosts:
        lacks_controller = scheduled.scheduler == "kubernetes" and not scheduled.controller and scheduled.host not in controllers
        if lacks_controller and scheduled.group not in reported_groups:
            reported_groups.add(scheduled.group)
            yield (
                ("groups", scheduled.group, "scheduler"),
                f"groups.{scheduled.group}.scheduler: kubernetes needs `controller:`, a host of this inventory with kubectl",
            )
        yield from _find_name_problem(scheduled)
        namesake = host_by_name.setdefault((scheduled.controller, scheduled.node), scheduled.host)
        if namesake != scheduled.host and scheduled.controller:
            yield ("hosts", scheduled.host), f"hosts.{scheduled.host}.node: {scheduled.node!r} is {namesake} already"


def _find_name_problem(scheduled: ScheduledHost) -> Iterator[tuple[Loc, str]]:
    pattern, description = NODE_NAME_RULES.get(scheduled.scheduler, ("", ""))
    if not (scheduled.named or scheduled.scheduler == "kubernetes") or not pattern or re.fullmatch(pattern, scheduled.node):
        return
    if scheduled.named:
        yield ("hosts", scheduled.host, "node"), f"hosts.{scheduled.host}.node: {scheduled.node[:80]!r} is not {description}"
    else:
        yield ("groups", scheduled.group, "hosts"), f"hosts.{scheduled.host}: is not {description}; set its `node:`"
