"""Validate schedulers' node names: illegal or shared by two hosts. Pure."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from kb.schema import Loc
from tools.checks.check import SLOT_PATTERNS

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
    """Refuse two hosts with one node name: one would be drained for the other."""
    rows = list(hosts)
    controllers = {row.controller for row in rows}
    reported_names: set[str] = set()
    host_by_name: dict[tuple[str, str], str] = {}
    for row in rows:
        if row.scheduler == "kubernetes" and not row.controller and row.host not in controllers and row.group not in reported_names:
            reported_names.add(row.group)
            yield (
                ("groups", row.group, "scheduler"),
                f"groups.{row.group}.scheduler: kubernetes needs `controller:`, a host of this inventory with kubectl",
            )
        yield from _find_name_problem(row)
        if (other := host_by_name.setdefault((row.controller, row.node), row.host)) != row.host and row.controller:
            yield ("hosts", row.host), f"hosts.{row.host}.node: {row.node!r} is {other} already"


def _find_name_problem(row: ScheduledHost) -> Iterator[tuple[Loc, str]]:
    pattern, description = NODE_NAME_RULES.get(row.scheduler, ("", ""))
    if not (row.named or row.scheduler == "kubernetes") or not pattern or re.fullmatch(pattern, row.node):
        return
    if row.named:
        yield ("hosts", row.host, "node"), f"hosts.{row.host}.node: {row.node[:80]!r} is not {description}"
    else:
        yield ("groups", row.group, "hosts"), f"hosts.{row.host}: is not {description}; set its `node:`"
