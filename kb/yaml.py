"""YAML that remembers where each value stood, so that every problem of a file is reported at once with file and line."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True)
class Node:
    """A value with its place. `plain` is the ordinary Python value; `items` and `entries` keep the places of what is inside."""

    plain: Any
    file: Path
    line: int
    items: tuple["Node", ...] = ()
    entries: tuple[tuple["Node", "Node"], ...] = ()

    def get(self, name: str) -> "Node | None":
        return next((value for key, value in self.entries if key.plain == name), None)


@dataclass(slots=True)
class Problems:
    """What is wrong with the files read so far. Readers note and go on; the caller refuses once, with everything."""

    found: list[str] = field(default_factory=list)

    def note(self, where: Node, what: str) -> None:
        self.found.append(f"{where.file}:{where.line}: {what}")


def read(path: Path, problems: Problems) -> Node | None:
    """The document of a file, or None with the reason noted."""
    nowhere = Node(None, path, 1)
    try:
        root = yaml.compose(path.read_text(encoding="utf-8"), Loader=_LOADER)
    except (OSError, UnicodeDecodeError) as why:
        problems.note(nowhere, f"cannot be read: {why}")
        return None
    except yaml.YAMLError as why:
        mark = getattr(why, "problem_mark", None)
        line = mark.line + 1 if mark else 1
        problems.note(Node(None, path, line), f"not YAML: {getattr(why, 'problem', None) or why}")
        return None
    if root is None:
        problems.note(nowhere, "the file is empty")
        return None
    return _Locator(path, problems).locate(root)


class _Locator:
    """Turns the YAML nodes of one file into Nodes."""

    def __init__(self, path: Path, problems: Problems) -> None:
        self._path, self._problems, self._values = path, problems, yaml.SafeLoader("")

    def locate(self, node: yaml.Node) -> Node:
        line = node.start_mark.line + 1
        if isinstance(node, yaml.MappingNode):
            entries = tuple((self.locate(key), self.locate(value)) for key, value in node.value)
            self._note_duplicates(entries)
            return Node({str(key.plain): value.plain for key, value in entries}, self._path, line, entries=entries)
        if isinstance(node, yaml.SequenceNode):
            items = tuple(self.locate(item) for item in node.value)
            return Node([item.plain for item in items], self._path, line, items=items)
        return Node(self._scalar(node, line), self._path, line)

    def _scalar(self, node: yaml.Node, line: int) -> Any:
        try:
            return self._values.construct_object(node)
        except (yaml.YAMLError, ValueError) as why:
            self._problems.note(Node(None, self._path, line), f"not a plain value: {' '.join(str(why).split())[:120]}")
            return None

    def _note_duplicates(self, entries: tuple[tuple[Node, Node], ...]) -> None:
        seen: set[str] = set()
        for key, _ in entries:
            if not isinstance(key.plain, str):
                self._problems.note(key, f"a name must be text, not {key.plain!r}")
            elif key.plain in seen:
                self._problems.note(key, f"{key.plain} stands twice")
            seen.add(str(key.plain))


@dataclass(frozen=True, slots=True)
class Row:
    """Reads the fields of one mapping, noting what is missing, unknown or of the wrong kind."""

    node: Node
    problems: Problems
    what: str

    def only(self, *names: str) -> None:
        """Notes fields that are none of `names`."""
        for key, _ in self.node.entries:
            if key.plain not in names:
                self.problems.note(key, f"{self.what}: unknown field {key.plain}; there are {', '.join(names)}")

    def text(self, name: str, *, default: str | None = None) -> str:
        value = self._of(name, str, "text", default is not None)
        return (default or "") if value is None else " ".join(str(value).split())

    def number(self, name: str) -> float:
        value = self._of(name, (int, float), "a number", False)
        return 0.0 if value is None or isinstance(value, bool) else float(value)

    def flag(self, name: str) -> bool:
        return self._of(name, bool, "true or false", True) is True

    def texts(self, name: str, *, needed: bool = False) -> tuple[str, ...]:
        node = self.node.get(name)
        if node is None:
            if needed:
                self.problems.note(self.node, f"{self.what}: {name} is missing")
            return ()
        if not isinstance(node.plain, list) or any(not isinstance(item, str) for item in node.plain):
            self.problems.note(node, f"{self.what}: {name} must be a list of texts")
            return ()
        if needed and not node.plain:
            self.problems.note(node, f"{self.what}: {name} is empty")
        return tuple(" ".join(item.split()) for item in node.plain)

    def rows(self, name: str, what: str) -> Iterator["Row"]:
        """The mappings of a list."""
        node = self.node.get(name)
        if node is None or not node.items:
            self.problems.note(node or self.node, f"{self.what}: {name} must be a list that is not empty")
            return
        for item in node.items:
            if isinstance(item.plain, dict):
                yield Row(item, self.problems, f"{self.what}: {what}")
            else:
                self.problems.note(item, f"{self.what}: {what} must be a mapping")

    def note(self, name: str, what: str) -> None:
        """A problem with the value of a field (at the row when the field is absent)."""
        self.problems.note(self.node.get(name) or self.node, f"{self.what}: {what}")

    def _of(self, name: str, kind: type | tuple[type, ...], called: str, optional: bool) -> Any:
        node = self.node.get(name)
        if node is None:
            if not optional:
                self.problems.note(self.node, f"{self.what}: {name} is missing")
            return None
        if not isinstance(node.plain, kind) or (isinstance(node.plain, bool) and kind is not bool):
            self.problems.note(node, f"{self.what}: {name} must be {called}, not {node.plain!r}")
            return None
        return node.plain
