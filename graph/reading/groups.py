"""Which hosts a command names: hosts and ranges as everywhere, and groups of the inventory, `train` or `@train`. Pure.

A group that nobody knows is said like a host that nobody knows. Whoever asks gives the groups that may be spoken of, with those of their hosts
that may be.
"""

import re
from collections.abc import Collection, Mapping

from graph.reading.host_lists import LIST_WORDS
from graph.reading.hosts import Named, hosts_in
from tools.inventory.nearest import nearest

LONGEST, MOST = 4000, 256
"""Characters of a command that are read, and names in it."""
SHORTEST = 3
"""Letters of a word that may be a group's name with a slip of the finger."""
_NAMES = re.compile(r"(?:[^\s,;\[\]]|\[[^\]\[\s]*\])+")
_SMALL = LIST_WORDS | {
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


def hosts_named(
    words: str,
    known: Collection[str],
    groups: Mapping[str, Collection[str]],
    domains: Collection[str] | None = None,
    *,
    strict: bool = True,
) -> Named:
    """The hosts of these names, those of groups first, and what of them is neither. `strict`: every word is meant as a name; otherwise only
    what is known, almost a group's name, or written `@name`."""
    of_groups: dict[str, None] = {}
    lost: list[str] = []
    rest = words[:LONGEST]
    for match in list(_NAMES.finditer(rest))[:MOST]:
        name = match[0].strip("`'\"*.:!?")
        bare = name.removeprefix("@")
        if (group := group_called(bare, groups)) is not None:
            of_groups.update(dict.fromkeys(groups[group]))
        elif name.startswith("@") or (_is_word(name) and name not in known and (strict or almost(name, groups))):
            lost.append(bare)
        else:
            continue
        rest = f"{rest[: match.start()]}{';' * len(match[0])}{rest[match.end() :]}"
    named = hosts_in(rest, known, domains)
    return Named(tuple(dict.fromkeys((*of_groups, *named.hosts))), tuple(dict.fromkeys((*lost, *named.unknown))))


def group_called(name: str, groups: Collection[str]) -> str | None:
    """The group of this name, in any case of letters."""
    return next((group for group in groups if group.casefold() == name.casefold()), None)


def almost(name: str, groups: Collection[str]) -> bool:
    """Whether it is a group's name but for a slip of the finger."""
    return len(name) >= SHORTEST and bool(nearest(name, groups))


def _is_word(name: str) -> bool:
    """Letters alone, and none of the words between names."""
    return any(map(str.isalpha, name)) and not any(char.isdigit() or char == "[" for char in name) and name.lower() not in _SMALL
