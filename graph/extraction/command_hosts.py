"""Resolve the hosts of a command: hosts, ranges, and inventory groups (`train` or `@train`).

Unknown groups are reported like unknown hosts. The caller passes only visible groups with their visible hosts.
"""

import re
from collections.abc import Collection, Mapping

from graph.extraction.host_lists import (
    LIST_WORDS,
)
from graph.extraction.hosts import NamedHosts, find_hosts
from tools.inventory.name_suggestions import find_nearest_hosts

MAX_COMMAND_CHARS = 4000  # Characters read per command
MAX_NAMES = 256  # names in it
MIN_GROUP_CHARS = 3  # Shortest word that may be a misspelt group name.
_NAME_PATTERN = re.compile(r"(?:[^\s,;\[\]]|\[[^\]\[\s]*\])+")
_FILLER_WORDS = LIST_WORDS | {
    "again",
    "all",
    "at",
    "group",
    "groups",
    "hosts",
    "in",
    "it",
    "node",
    "nodes",
    "now",
    "of",
    "on",
    "please",
    "the",
    "this",
}


def resolve_hosts_and_groups(
    words: str,
    known: Collection[str],
    groups: Mapping[str, Collection[str]],
    domains: Collection[str] | None = None,
    *,
    strict: bool = True,
) -> NamedHosts:
    """Return the hosts named, those of groups first, and unknown names.

    `strict`: every word is meant as a name; otherwise only known names, near misses of a group, and `@name`.
    """
    of_groups: dict[str, None] = {}
    lost: list[str] = []
    rest = words[:MAX_COMMAND_CHARS]
    for match in list(_NAME_PATTERN.finditer(rest))[:MAX_NAMES]:
        name = match[0].strip("`'\"*.:!?")
        bare = name.removeprefix("@")
        if (group := find_group(bare, groups)) is not None:
            of_groups.update(dict.fromkeys(groups[group]))
        elif name.startswith("@") or (_is_word(name) and name not in known and (strict or is_near_group_name(name, groups))):
            lost.append(bare)
        else:
            continue
        rest = f"{rest[: match.start()]}{';' * len(match[0])}{rest[match.end() :]}"
    spoken_hosts = find_hosts(rest, known, domains)
    return NamedHosts(tuple(dict.fromkeys((*of_groups, *spoken_hosts.hosts))), tuple(dict.fromkeys((*lost, *spoken_hosts.unknown))))


def find_group(name: str, groups: Collection[str]) -> str | None:
    return next((group for group in groups if group.casefold() == name.casefold()), None)


def is_near_group_name(name: str, groups: Collection[str]) -> bool:
    return len(name) >= MIN_GROUP_CHARS and bool(find_nearest_hosts(name, groups))


def _is_word(name: str) -> bool:
    return any(map(str.isalpha, name)) and not any(char.isdigit() or char == "[" for char in name) and name.lower() not in _FILLER_WORDS
