"""Resolve the hosts of a command: hosts, ranges, and inventory groups (`train` or `@train`).

Unknown groups are reported like unknown hosts. The caller passes only visible groups with their visible hosts.
"""

import re
from collections.abc import Collection, Mapping

from graph.extraction.host_lists import LIST_WORDS
from graph.extraction.hosts import NamedHosts, find_hosts
from tools.inventory.name_suggestions import find_nearest_hosts

MAX_COMMAND_CHARS = 4000  # characters of a command that are read
MAX_NAMES = 256  # names of a command that are read
MIN_GROUP_CHARS = 3  # shortest word that may be a misspelt group name
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
    text: str,
    known_hosts: Collection[str],
    groups: Mapping[str, Collection[str]],
    domains: Collection[str] | None = None,
    *,
    strict: bool = True,
) -> NamedHosts:
    """Return the named hosts, those of groups first, and the unknown names.

    If `strict`, every word is taken for a name. Otherwise a word is a name only if it is known, is similar to a group's
    name, or begins with `@`.
    """
    group_hosts: list[str] = []
    unknown_names: list[str] = []
    remaining_text = text[:MAX_COMMAND_CHARS]
    for match in list(_NAME_PATTERN.finditer(remaining_text))[:MAX_NAMES]:
        word = match[0].strip("`'\"*.:!?")
        name = word.removeprefix("@")
        group = find_group(name, groups)
        may_be_group = _is_word(word) and word not in known_hosts and (strict or is_near_group_name(word, groups))
        if group is not None:
            group_hosts += groups[group]
        elif word.startswith("@") or may_be_group:
            unknown_names.append(name)
        else:
            continue
        # Blank the word, so that it is not read as a host as well.
        remaining_text = f"{remaining_text[: match.start()]}{';' * len(match[0])}{remaining_text[match.end() :]}"
    named_hosts = find_hosts(remaining_text, known_hosts, domains)
    return NamedHosts(
        tuple(dict.fromkeys((*group_hosts, *named_hosts.hosts))), tuple(dict.fromkeys((*unknown_names, *named_hosts.unknown)))
    )


def find_group(name: str, groups: Collection[str]) -> str | None:
    return next((group for group in groups if group.casefold() == name.casefold()), None)


def is_near_group_name(name: str, groups: Collection[str]) -> bool:
    return len(name) >= MIN_GROUP_CHARS and bool(find_nearest_hosts(name, groups))


def _is_word(name: str) -> bool:
    has_letter = any(char.isalpha() for char in name)
    has_number = any(char.isdigit() or char == "[" for char in name)
    return has_letter and not has_number and name.lower() not in _FILLER_WORDS
