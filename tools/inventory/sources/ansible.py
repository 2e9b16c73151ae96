"""Parse `ansible-inventory --list`, run here or saved, into groups, hosts and connection settings.

Ansible resolves ranges, children and variables. Only connection variables are read; the others may hold secrets and are
never quoted.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from kb.needle_search import split_lines
from kb.numbers import parse_integer
from kb.redact import redact
from tools.inventory.sources.source import HOST_NAME, BadSource, SourceRows

ALL_GROUP = "all"
UNGROUPED_GROUP = "ungrouped"
# variables that are read, and our names; of two synonyms the later wins, as in Ansible
VARIABLE_FIELDS: Mapping[str, str] = {
    "ansible_host": "address",
    "ansible_ssh_host": "address",
    "ansible_port": "port",
    "ansible_ssh_port": "port",
    "ansible_user": "user",
    "ansible_ssh_user": "user",
    "ansible_private_key_file": "key",
    "ansible_ssh_private_key_file": "key",
}
SSH_ARGS_VARIABLES = ("ansible_ssh_common_args", "ansible_ssh_extra_args")  # read for ProxyJump only
MAX_GROUP_DEPTH = 64  # nesting depth of groups
EMPTY_CONFIG_PATH = Path(__file__).with_name("ansible.cfg")
_JUMP_PATTERN = re.compile(r"(?:-J\s*|-o\s*[\"']?ProxyJump[= ])([A-Za-z0-9@._:-]+)")


def build_list_argv(inventory: Path, config: Path = EMPTY_CONFIG_PATH) -> tuple[str, ...]:
    """Return the command. Raises BadSource if the path could be read as a host list."""
    if "," in str(inventory):
        raise BadSource([f"{inventory}: a path with a comma is a list of hosts to Ansible"])
    settings = ("LC_ALL=C.UTF-8", f"ANSIBLE_CONFIG={config}", "ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED=True", "ANSIBLE_NOCOLOR=True")
    return ("env", *settings, "ansible-inventory", f"--inventory={inventory}", "--list")


def find_complaint(status: int, stderr: str) -> str:
    """Return why Ansible gave no complete inventory, or "", without stderr lines that quote values."""
    if status == 127:
        return "cannot be run here; install ansible-core, or save what `ansible-inventory --list` prints and name that file"
    lines = split_lines(stderr)
    problem = _find_first(_ERROR_PATTERN, lines)
    if not problem and status:
        problem = f"exit status {status}"
    problem = problem or _find_first(_SKIPPED_PATTERN, lines)
    origin = next((match[1] for line in lines if (match := _ORIGIN_PATTERN.fullmatch(line))), "")
    if problem and origin:
        problem = f"{problem} ({origin})"
    return redact(problem)


_ERROR_PATTERN = re.compile(r"(?:\[ERROR\]:|ERROR!) (.{1,200})")
_SKIPPED_PATTERN = re.compile(r"\[WARNING\]: (Skipping .{1,200})")
_ORIGIN_PATTERN = re.compile(r"Origin: (/[^\s:]{1,200}:\d+)(?::\d+)?")


def _find_first(pattern: re.Pattern[str], lines: Iterable[str]) -> str:
    """Return the first group of the first line that matches, or ""."""
    for line in lines:
        if match := pattern.match(line):
            return match[1]
    return ""


def is_saved_list(text: str) -> bool:
    """Return whether the text is saved output of `ansible-inventory --list`."""
    return text.lstrip().startswith("{") and '"_meta"' in text


def parse_list(text: str) -> SourceRows:
    """Return hosts by group, children included. BadSource lists every problem."""
    document = _parse_document(text)
    members = {name: list(dict.fromkeys(_iter_members(document, name, ()))) for name in document if name != "_meta"}
    variables = _get_mapping(_get_mapping(document, "_meta"), "hostvars")
    host_names = list(dict.fromkeys(name for names in members.values() for name in names))
    problems = [f"{name!r} is no host name" for name in host_names if not re.fullmatch(HOST_NAME, name)]
    source_rows = SourceRows(hosts={name: _read_host_settings(name, _get_mapping(variables, name), problems) for name in host_names})
    if not host_names:
        problems.append("the inventory names no host")
    if problems:
        raise BadSource(problems)
    depths = _compute_depths(document)
    for group in sorted(members.keys() - {ALL_GROUP, UNGROUPED_GROUP}, key=lambda name: (depths[name], name)):
        for host in members[group]:
            source_rows.add_host(group, host)
    grouped = {host for names in source_rows.groups.values() for host in names}
    for host in host_names:
        if host not in grouped:
            source_rows.add_host(UNGROUPED_GROUP, host)
    return source_rows


def _parse_document(text: str) -> Mapping[str, Any]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadSource([f"ansible-inventory --list: is no JSON: {error}"]) from error
    if not isinstance(document, dict):
        raise BadSource(["ansible-inventory --list: is no JSON object"])
    return document


def _get_mapping(value: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    child = value.get(name)
    return child if isinstance(child, Mapping) else {}


def _list_names(document: Mapping[str, Any], group: str, part: str) -> list[str]:
    names = _get_mapping(document, group).get(part)
    return [str(name) for name in names] if isinstance(names, list) else []


def _iter_members(document: Mapping[str, Any], group: str, above: tuple[str, ...]) -> Iterator[str]:
    if group in above or len(above) > MAX_GROUP_DEPTH:
        raise BadSource([f"group {group} is its own child ({' > '.join((*above, group)[-4:])})"])
    yield from _list_names(document, group, "hosts")
    for child in _list_names(document, group, "children"):
        yield from _iter_members(document, child, (*above, group))


def _compute_depths(document: Mapping[str, Any]) -> dict[str, int]:
    """Return each group's depth. Settings of deeper groups win in the inventory file."""
    parents = {name: list[str]() for name in document}
    for name in document.keys() - {ALL_GROUP}:
        for child in _list_names(document, name, "children"):
            parents.setdefault(child, []).append(name)

    @cache
    def compute_depth(group: str) -> int:
        return 1 + max(map(compute_depth, parents[group]), default=0)

    return {name: compute_depth(name) for name in parents}


def _read_host_settings(host: str, variables: Mapping[str, Any], problems: list[str]) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    for name in (*VARIABLE_FIELDS, *SSH_ARGS_VARIABLES):
        if name not in variables:
            continue
        value, location = variables[name], f"host {host}: {name}"
        if isinstance(value, bool) or not isinstance(value, (str, int)):
            is_encrypted = isinstance(value, Mapping) and "__ansible_vault" in value
            problems.append(
                f"{location} {'is encrypted' if is_encrypted else 'is no text'}; write the value, or set it in the inventory file"
            )
        elif "{{" in str(value) or "{%" in str(value):
            problems.append(f"{location} is a template; write the value, or set it in the inventory file")
        elif name in SSH_ARGS_VARIABLES:
            if jump_match := _JUMP_PATTERN.search(str(value)):
                settings["jump"] = jump_match[1]
        elif VARIABLE_FIELDS[name] == "port":
            settings["port"] = _parse_port(value, location, problems)
        else:
            settings[VARIABLE_FIELDS[name]] = str(value)
    return settings


def _parse_port(value: str | int, where: str, problems: list[str]) -> int:
    text = str(value).strip()
    port = parse_integer(text) or 0
    if not 0 < port < 65536:
        problems.append(f"{where} {text[:40]!r} is no port")
        return 22
    return port
