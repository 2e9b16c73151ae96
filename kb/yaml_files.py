"""Read YAML files into pydantic models; reports all problems of a file at once, with file and line."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from kb.schema import iter_complaints, squash_blanks

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
AnyModel = TypeVar("AnyModel", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class FilePosition:
    """A position, printed as `file:line`."""

    file: Path
    line: int = 1

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(slots=True)
class Problems:
    """Problems so far: readers add and continue, the caller refuses once with all."""

    found: list[str] = field(default_factory=list)

    def add(self, where: FilePosition, what: str) -> None:
        self.found.append(f"{where}: {what}")


@dataclass(frozen=True, slots=True)
class Document:
    """A file's plain value and positions."""

    file: Path
    plain: Any
    root: yaml.Node

    def find_position(self, *loc: str | int) -> FilePosition:
        """Return a part's position (at its name), or its nearest enclosing part's."""
        node, line = self.root, self.root.start_mark.line
        for step in loc:
            child = _find_child(node, step)
            if child is None:
                break
            line, node = child
        return FilePosition(self.file, line + 1)

    def note_taken_ids(self, rows: str, taken: set[str], problems: Problems, says: str) -> None:
        """Note rows whose `id` is taken, even in a refused file."""
        plain_rows = self.plain.get(rows) if isinstance(self.plain, dict) else None
        for at, row in enumerate(plain_rows if isinstance(plain_rows, list) else []):
            name = row.get("id") if isinstance(row, dict) else None
            if isinstance(name, str) and name in taken:
                problems.add(self.find_position(rows, at, "id"), says.format(name))
            taken |= {name} if isinstance(name, str) else set()


def list_yaml_files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.y*ml"))


def read_document(path: Path, problems: Problems, only: Callable[[str], str] = str) -> Document | None:
    """Read a file, or note why not.

    Notes duplicate names and odd values. `only` extracts YAML, keeping line numbers.
    """
    try:
        root = yaml.compose(_require_bounded(only(path.read_text(encoding="utf-8"))), Loader=_LOADER)
        if root is not None:
            return Document(path, _PlainConverter(path, problems).convert(root), root)
        problems.add(FilePosition(path), "the file is empty")
    except UnicodeDecodeError as error:
        line = bytes(error.object)[: error.start].count(b"\n") + 1
        problems.add(
            FilePosition(path, line), f"cannot be read: it is not UTF-8 text (byte {error.start} is {error.object[error.start]:#04x})"
        )
    except OSError as error:
        problems.add(FilePosition(path), f"cannot be read: {error.strerror or error}")
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problems.add(
            FilePosition(path, mark.line + 1 if mark else 1), f"is not YAML: {getattr(error, 'problem', None) or squash_blanks(str(error))}"
        )
    return None


MAX_DEPTH = 64  # nesting levels; libyaml's composer crashes the process somewhere above 20,000 (measured)


MAX_REPORTED_PROBLEMS = 200  # per file; further ones appear once these are fixed
MAX_ALIAS_VALUES = 200_000  # values after alias expansion: nine lines of nine aliases each expand to a billion

MAX_VALUES = 100_000  # names and values per file; 400,000 took 15 s to convert with line numbers (measured)


@dataclass(slots=True)
class _ContainerSize:
    """Values (aliases expanded) and depth of one container."""

    anchor: str | None = None
    values: int = 1
    levels: int = 0

    def add_values(self, values: int, levels: int) -> None:
        self.values += values
        self.levels = max(self.levels, levels)


def _require_bounded(text: str) -> str:
    """Raises YAMLError where it is too deep, too large, or aliases expand too far."""
    open_, size_by_anchor, repeated = [_ContainerSize()], dict[str, _ContainerSize](), 0
    for event in _iter_events(text):
        levels = len(open_) - 1
        if isinstance(event, yaml.CollectionStartEvent):
            open_.append(_ContainerSize(event.anchor))
        elif isinstance(event, yaml.CollectionEndEvent):
            closed_size = open_.pop()
            size_by_anchor |= {closed_size.anchor: closed_size} if closed_size.anchor else {}
            open_[-1].add_values(closed_size.values, closed_size.levels + 1)
        elif isinstance(event, yaml.AliasEvent):
            anchored_size = size_by_anchor.get(str(event.anchor), _ContainerSize())
            open_[-1].add_values(anchored_size.values, anchored_size.levels + 1)
            levels, repeated = levels + anchored_size.levels, repeated + anchored_size.values
        elif isinstance(event, yaml.ScalarEvent):
            open_[-1].add_values(1, 0)
        if max(levels, len(open_) - 1) > MAX_DEPTH:
            raise _build_marked_error(event, f"nested more than {MAX_DEPTH} levels deep")
        if repeated > MAX_ALIAS_VALUES:
            raise _build_marked_error(event, f"its aliases repeat more than {MAX_ALIAS_VALUES} values")
    return text


def _iter_events(text: str) -> Iterator[yaml.Event]:
    event_count = 0
    for event in yaml.parse(text, Loader=_LOADER):
        event_count += isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent)
        if event_count > MAX_VALUES:
            raise _build_marked_error(event, f"it holds more than {MAX_VALUES} names and values")
        yield event


def _build_marked_error(event: yaml.Event, problem: str) -> yaml.MarkedYAMLError:
    mark: Any = event.start_mark  # libyaml's own mark type, unknown to the stubs
    return yaml.MarkedYAMLError(problem=problem, problem_mark=mark)


# raised by PyYAML's constructors besides YAMLError: `2026-13-45`, `!!timestamp no`, `!!bool 7`, a number of 5,000
# digits
_SCALAR_ERRORS = (ValueError, OverflowError, AttributeError, TypeError, LookupError)


def load_plain(text: str) -> Any:
    """Load without line numbers. Raises YAMLError, also beyond the limits."""
    try:
        return yaml.load(_require_bounded(text), Loader=_LOADER)  # noqa: S506  # a safe loader, libyaml's where there is one
    except _SCALAR_ERRORS as error:
        raise yaml.YAMLError(f"a value cannot be read: {squash_blanks(str(error))[:120]}") from error


def validate_document(document: Document, model: type[AnyModel], problems: Problems, context: Any = None) -> AnyModel | None:
    """Return None after noting every problem."""
    try:
        return model.model_validate(document.plain, context=context)
    except ValidationError as error:
        for loc, problem in islice(iter_complaints(error, model), MAX_REPORTED_PROBLEMS):  # finding a position is linear in its mapping
            problems.add(document.find_position(*loc), problem)
        return None


def _find_child(node: yaml.Node, step: str | int) -> tuple[int, yaml.Node] | None:
    """The last of duplicate names; merged names where they are written."""
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        return node.value[step].start_mark.line, node.value[step]
    if not isinstance(node, yaml.MappingNode):
        return None
    for key, value in reversed(node.value):
        if isinstance(key, yaml.ScalarNode) and key.value == str(step) and key.tag != _MERGE:
            return key.start_mark.line, value
    return next((child for base in _list_merged_nodes(node) if (child := _find_child(base, step))), None)


_MERGE = "tag:yaml.org,2002:merge"
_STR = "tag:yaml.org,2002:str"
_CONTAINERS = ("tag:yaml.org,2002:map", "tag:yaml.org,2002:seq")


def _list_merged_nodes(node: yaml.MappingNode) -> list[yaml.Node]:
    merged = [value for key, value in node.value if key.tag == _MERGE]
    return [base for value in merged for base in (value.value if isinstance(value, yaml.SequenceNode) else [value])]


class _PlainConverter:
    """Converts YAML nodes to plain values; notes others."""

    def __init__(self, path: Path, problems: Problems) -> None:
        self._path, self._problems, self._scalars = path, problems, yaml.SafeLoader("")
        self._done: dict[int, Any] = {}
        self._open: set[int] = set()

    def convert(self, node: yaml.Node) -> Any:
        if isinstance(node, yaml.ScalarNode):
            return node.value if node.tag == _STR else self._convert_scalar(node)
        if id(node) in self._open:
            return self._note_refused(node, "it contains itself")
        if id(node) not in self._done:
            self._open.add(id(node))
            self._done[id(node)] = self._convert_container(node)
            self._open.remove(id(node))
        return self._done[id(node)]

    def _convert_container(self, node: yaml.Node) -> Any:
        if node.tag not in _CONTAINERS:
            return self._note_refused(node, f"the tag {node.tag} is not known")
        return [self.convert(item) for item in node.value] if isinstance(node, yaml.SequenceNode) else self._convert_mapping(node)

    def _convert_mapping(self, node: yaml.Node) -> dict[str, Any]:
        own: dict[str, Any] = {}
        for key, value in node.value:
            if key.tag == _MERGE:
                continue
            name = self.convert(key)
            if not isinstance(name, str):
                self._problems.add(self._get_position(key), f"a name must be text, not {name!r}")
            elif name in own:
                self._problems.add(self._get_position(key), f"{name} stands twice")
            own[str(name)] = self.convert(value)
        for base in _list_merged_nodes(node) if isinstance(node, yaml.MappingNode) else ():
            plain_mapping = self.convert(base)
            own = {**plain_mapping, **own} if isinstance(plain_mapping, dict) else own
        return own

    def _convert_scalar(self, node: yaml.ScalarNode) -> Any:
        try:
            return self._scalars.construct_object(node)
        except (yaml.YAMLError, *_SCALAR_ERRORS) as error:
            return self._note_refused(node, squash_blanks(str(error))[:120])

    def _note_refused(self, node: yaml.Node, why: str) -> None:
        self._problems.add(self._get_position(node), f"not a plain value: {why}")

    def _get_position(self, node: yaml.Node) -> FilePosition:
        return FilePosition(self._path, node.start_mark.line + 1)
