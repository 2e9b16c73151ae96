"""Tenants' own host names, unique per tenant, else a report would be about another host. Pure."""

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from kb.schema import Loc

ALIAS_PATTERN = r"^[A-Za-z0-9](?:[A-Za-z0-9._-]{0,62}[A-Za-z0-9])?$"


class HostAlias(NamedTuple):
    """A host and its tenant's name for it."""

    host: str
    alias: str
    tenant: str


def find_alias_problems(rows: Iterable[HostAlias], hosts: Collection[str]) -> Iterator[tuple[Loc, str]]:
    """Yield conflicts. Two tenants may use the same alias, since neither sees the other's."""
    names = {spelling for host in hosts for spelling in _list_spellings(host)}
    host_by_alias: dict[tuple[str, str], str] = {}
    for row in rows:
        location: Loc = ("hosts", row.host, "alias")
        field = f"hosts.{row.host}.alias: {row.alias!r}"
        if not row.tenant:
            yield location, f"{field} is what a tenant calls it, and it is no tenant's; give its group a `tenant:`"
        if names & _list_spellings(row.alias) - _list_spellings(row.host):
            yield location, f"{field} is a host of this inventory; choose another"
        first = next((host_by_alias[key] for key in _list_alias_keys(row) if key in host_by_alias), "")
        if first:
            yield location, f"{field} is what {row.tenant} calls {first} already; choose another"
        host_by_alias |= dict.fromkeys(_list_alias_keys(row), row.host)


def _list_alias_keys(row: HostAlias) -> list[tuple[str, str]]:
    return [(row.tenant, spelling) for spelling in _list_spellings(row.alias)]


def _list_spellings(name: str) -> set[str]:
    return {name.lower(), name.lower().partition(".")[0]}
