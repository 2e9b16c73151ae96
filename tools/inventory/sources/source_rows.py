"""What every source of an inventory gives: groups of hosts and settings of single hosts, as plain rows of the inventory file."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tools.inventory.host_ranges import HOST_NAME_PATTERN

HOST_NAME = HOST_NAME_PATTERN


class BadSource(ValueError):
    """A source that cannot be read. `problems` are whole sentences that name the field or the line."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(self.problems))


@dataclass(slots=True)
class SourceRows:
    """`groups` by name, hosts in order; `hosts` what is known of single hosts, in the inventory file's own fields."""

    groups: dict[str, list[str]] = field(default_factory=dict)
    hosts: dict[str, dict[str, Any]] = field(default_factory=dict)

    def add_host(self, group: str, host: str) -> None:
        """A host into a group, once."""
        members = self.groups.setdefault(group, [])
        if host not in members:
            members.append(host)

    def to_raw(self) -> dict[str, Any]:
        """As plain data of an inventory file."""
        groups = {name: {"hosts": ",".join(members)} for name, members in self.groups.items() if members}
        return {"groups": groups, "hosts": {name: row for name, row in self.hosts.items() if row}}


def merge_rows(own: Mapping[str, Any], found: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """An inventory file's own rows laid over those of its sources, field by field; the file's word counts, then the later source's."""
    merged: dict[str, Any] = {}
    for layer in (*found, own):
        for part in ("groups", "hosts"):
            rows = layer.get(part)
            if isinstance(rows, Mapping):
                into = merged.setdefault(part, {})
                for name, row in rows.items():
                    into[name] = {**into.get(name, {}), **row} if isinstance(row, Mapping) else row
    return {**own, "groups": merged.get("groups", {}), "hosts": merged.get("hosts", {})}
