"""An Ansible inventory, INI or YAML → groups, hosts and how to reach them. Pure; group variables reach members, nearer ones win.

[train]
gpu-[001:128] ansible_port=2222
[train:vars]
ansible_user=ops
[gpu:children]
train
"""

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kb.yaml import Node, Problems, read
from tools.inventory.sources.rows import HOST_NAME, MOST_HOSTS, BadSource, Rows

EVERY, UNGROUPED = "all", "ungrouped"
FIELDS: Mapping[str, str] = {
    "ansible_host": "address",
    "ansible_ssh_host": "address",
    "ansible_port": "port",
    "ansible_ssh_port": "port",
    "ansible_user": "user",
    "ansible_ssh_user": "user",
    "ansible_ssh_private_key_file": "key",
    "ansible_private_key_file": "key",
}
_JUMP = re.compile(r"(?:-J\s*|-o\s*[\"']?ProxyJump[= ])([A-Za-z0-9@._:-]+)")
_RANGE = re.compile(r"\[(\w+):(\w+)(?::(\d+))?\]")


@dataclass(slots=True)
class _Group:
    hosts: dict[str, dict[str, Any]] = field(default_factory=dict)
    children: list[str] = field(default_factory=list)
    variables: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class _Book:
    """The inventory as it stands in the file. `where` names the place of what is being read."""

    groups: dict[str, _Group] = field(default_factory=lambda: {EVERY: _Group()})
    problems: list[str] = field(default_factory=list)

    def group(self, name: str) -> _Group:
        return self.groups.setdefault(name, _Group())

    def host(self, group: str, pattern: str, variables: Mapping[str, Any], where: str) -> None:
        """Every host of a pattern, with its variables."""
        for name in self._names(pattern, where):
            self.group(group).hosts.setdefault(name, {}).update(variables)

    def _names(self, pattern: str, where: str) -> list[str]:
        try:
            names = list(spread(pattern))
        except ValueError as why:
            self.problems.append(f"{where}: {why}")
            return []
        wrong = [name for name in names if not re.fullmatch(HOST_NAME, name)]
        if wrong:
            self.problems.append(f"{where}: {wrong[0]!r} is no host name")
        return [] if wrong else names


def spread(pattern: str) -> Iterator[str]:
    """`gpu-[001:003]`, `rack-[a:c]`, `n[1:9:2]` → names. ValueError says what cannot be read."""
    found = _RANGE.search(pattern)
    if found is None:
        yield pattern
        return
    first, last, step = found[1], found[2], int(found[3] or 1)
    if step < 1:
        raise ValueError(f"the step of {pattern!r} is 0")
    head, tail = pattern[: found.start()], pattern[found.end() :]
    for middle in _between(first, last, step, pattern):
        yield from (head + middle + rest for rest in spread(tail))


def _between(first: str, last: str, step: int, pattern: str) -> list[str]:
    if first.isdecimal() and last.isdecimal() and int(first) <= int(last) < int(first) + MOST_HOSTS:
        return [str(number).zfill(len(first)) for number in range(int(first), int(last) + 1, step)]
    if len(first) == len(last) == 1 and first.isalpha() and last.isalpha() and first <= last:
        return [chr(code) for code in range(ord(first), ord(last) + 1, step)]
    raise ValueError(f"cannot read the range of {pattern!r}; write [001:128] or [a:f]")


def read_ansible(path: Path) -> Rows:
    """A file in either form. Raises BadSource with every problem."""
    path = path.expanduser()
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as why:
        raise BadSource([f"{path}: cannot be read: {why}"]) from why
    if path.suffix in (".yaml", ".yml", ".json"):
        return _rows(_from_yaml(path))
    return read_ini(text, str(path))


def read_ini(text: str, source: str = "inventory") -> Rows:
    """The INI form."""
    book = _Book()
    section, kind = UNGROUPED, "hosts"
    for number, line in enumerate(text.splitlines(), 1):
        where = f"{source}:{number}"
        bare = line.strip()
        if not bare or bare[0] in "#;":
            continue
        if head := re.fullmatch(r"\[([^\]:]+)(?::(vars|children|hosts))?\]\s*(?:[#;].*)?", bare):
            section, kind = head[1].strip(), head[2] or "hosts"
            book.group(section)
        elif bare.startswith("[") and bare.endswith("]") and not re.match(r"\[\w+:\w+", bare):
            book.problems.append(f"{where}: cannot read the section {bare[:60]!r}")
        else:
            _ini_line(book, section, kind, bare, where)
    return _rows(book)


def _ini_line(book: _Book, section: str, kind: str, line: str, where: str) -> None:
    if kind == "children":
        book.group(section).children.append(line.split("#")[0].strip())
        book.group(line.split("#")[0].strip())
    elif kind == "vars":
        name, equals, value = line.partition("=")
        if not equals:
            book.problems.append(f"{where}: a variable is NAME=VALUE, not {line[:60]!r}")
        book.group(section).variables |= _known({name.strip(): _unquoted(value)}, where, book)
    else:
        try:
            pattern, *words = shlex.split(line, comments=True)
        except ValueError as why:
            book.problems.append(f"{where}: {why}")
            return
        strays = [word for word in words if "=" not in word]
        if strays:
            book.problems.append(f"{where}: {strays[0]!r} is no NAME=VALUE")
        book.host(section, pattern, _known(dict(word.split("=", 1) for word in words if "=" in word), where, book), where)


def _unquoted(value: str) -> str:
    value = value.strip()
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'" else value


def _from_yaml(path: Path) -> _Book:
    book, problems = _Book(), Problems()
    document = read(path, problems)
    book.problems += problems.found
    if document is not None and not isinstance(document.plain, dict):
        book.problems.append(f"{path}:{document.line}: an inventory is a mapping of groups")
    elif document is not None:
        for name, body in document.entries:
            _yaml_group(book, str(name.plain), body, 0)
    return book


def _yaml_group(book: _Book, name: str, body: Node, depth: int) -> None:
    group = book.group(name)
    if body.plain is None:
        return
    where = f"{body.file}:{body.line}"
    if not isinstance(body.plain, dict) or depth > 32:
        book.problems.append(f"{where}: group {name} must be a mapping of hosts, children and vars")
        return
    for part, inside in body.entries:
        place = f"{inside.file}:{inside.line}"
        if part.plain == "hosts":
            _yaml_hosts(book, name, inside)
        elif part.plain == "children":
            for child, below in inside.entries:
                group.children.append(str(child.plain))
                _yaml_group(book, str(child.plain), below, depth + 1)
        elif part.plain == "vars":
            group.variables |= _known(inside.plain if isinstance(inside.plain, dict) else {}, place, book)
        else:
            book.problems.append(f"{place}: group {name}: {part.plain!r} is none of hosts, children, vars")


def _yaml_hosts(book: _Book, group: str, hosts: Node) -> None:
    for host, variables in hosts.entries:
        where = f"{host.file}:{host.line}"
        given = variables.plain if isinstance(variables.plain, dict) else {}
        book.host(group, str(host.plain), _known(given, where, book), where)


def _known(variables: Mapping[str, Any], where: str, book: _Book) -> dict[str, Any]:
    """The variables that say how a host is reached, in our names; all others are none of our business."""
    found: dict[str, Any] = {}
    for name, value in variables.items():
        if name in FIELDS or name in ("ansible_ssh_common_args", "ansible_ssh_extra_args"):
            if "{{" in str(value):
                book.problems.append(f"{where}: {name} is a template ({value}); write the value, or set it in the inventory file")
            elif name in FIELDS:
                found[FIELDS[name]] = _port(value, where, book) if FIELDS[name] == "port" else str(value)
            elif jump := _JUMP.search(str(value)):
                found["jump"] = jump[1]
    return found


def _port(value: Any, where: str, book: _Book) -> int:
    text = str(value).strip()
    if not text.isdecimal() or not 0 < int(text) < 65536:
        book.problems.append(f"{where}: ansible_port {text!r} is no port")
        return 22
    return int(text)


def _rows(book: _Book) -> Rows:
    """Groups with the members of their children, and every host's settings: those of `all` first, the nearest group's last, then its own."""
    members = {name: list(dict.fromkeys(_members(book, name, ()))) for name in book.groups}
    by_depth = sorted(book.groups, key=lambda name: (_depth(book, name), name))
    everybody = dict.fromkeys(host for group in book.groups.values() for host in group.hosts)
    if not everybody and not book.problems:
        book.problems.append("the inventory names no host")
    if book.problems:
        raise BadSource(book.problems)
    rows = Rows()
    for host in everybody:
        near = [name for name in by_depth if name == EVERY or host in members[name]]
        layers = [book.groups[name].variables for name in near] + [book.groups[name].hosts.get(host, {}) for name in near]
        rows.hosts[host] = {field: value for layer in layers for field, value in layer.items()}
        for name in [name for name in near if name not in (EVERY, UNGROUPED)] or [UNGROUPED]:
            rows.put(name, host)
    return rows


def _members(book: _Book, name: str, above: tuple[str, ...]) -> Iterator[str]:
    if name in above:
        book.problems.append(f"group {name} is its own child ({' > '.join((*above, name))})")
        return
    group = book.groups.get(name, _Group())
    yield from group.hosts
    for child in group.children:
        yield from _members(book, child, (*above, name))


def _depth(book: _Book, name: str) -> int:
    """How far below the top a group lies: variables of deeper groups win."""
    depth, level, seen = (0 if name == EVERY else 1), {name}, {name}
    while level := {g for g, row in book.groups.items() if level & set(row.children)} - seen:
        seen |= level
        depth += 1
    return depth
