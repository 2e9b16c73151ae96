"""Common output of inventory sources, as rows of an inventory file."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tools.inventory.host_ranges import HOST_NAME_PATTERN

HOST_NAME = HOST_NAME_PATTERN


class BadSource(ValueError):
    """A source cannot be read. `problems` are sentences that name the field or the line."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(self.problems))


@dataclass(slots=True)
class SourceRows:
    """One source's rows: `groups` maps names to hosts in order, `hosts` to inventory file fields."""

    groups: dict[str, list[str]] = field(default_factory=dict)
    hosts: dict[str, dict[str, Any]] = field(default_factory=dict)

    def add_host(self, group: str, host: str) -> None:
        members = self.groups.setdefault(group, [])
        if host not in members:
            members.append(host)

    def to_raw(self) -> dict[str, Any]:
        groups = {name: {"hosts": ",".join(members)} for name, members in self.groups.items() if members}
        return {"groups": groups, "hosts": {name: row for name, row in self.hosts.items() if row}}


def merge_rows(own_rows: Mapping[str, Any], layers: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Merge field by field: the file's own rows win, then the later source."""
    merged: dict[str, Any] = {}
    for layer in (*layers, own_rows):
        for part in ("groups", "hosts"):
            rows = layer.get(part)
            if not isinstance(rows, Mapping):
                continue
            merged_rows = merged.setdefault(part, {})
            for name, row in rows.items():
                merged_rows[name] = {**merged_rows.get(name, {}), **row} if isinstance(row, Mapping) else row
    return {**own_rows, "groups": merged.get("groups", {}), "hosts": merged.get("hosts", {})}
