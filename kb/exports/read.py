"""`rows_of`: every past incident and guide of an export, whatever wrote it, one by one."""

import csv
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, Final

import yaml

from kb.exports.row import ExportMessage, ExportRow, NotARow, UnreadRow, row_of
from kb.exports.slack import is_slack, slack_rows
from kb.exports.streams import lines_from, text_of, value_of, values_from
from kb.exports.trees import UNREADABLE, tree_of
from kb.redact import cleaned
from kb.yaml import plain

Found = Iterator[tuple[int, Any]]
LONGEST_PAGE: Final = 1 << 20
"""Characters of a guide or of a file of YAML that are read."""


def rows_of(path: Path, mapped: Mapping[str, str] | None = None) -> Iterator[ExportRow | UnreadRow]:
    """Of a file, a folder or a zip, in the order of names and lines; UnreadRow for what is none. Never holds a file whole. Raises NoExport."""
    tree = tree_of(path)
    names = [*tree.names()]
    if is_slack(frozenset(names)):
        yield from slack_rows(tree, lambda name: f"{path.name}/{name}")
        return
    for name in names:
        where = name if name == path.name else f"{path.name}/{name}"
        form = FORMS.get(Path(name).suffix.lower())
        if form is None:
            yield UnreadRow(where, f"files of this kind are not read, only {', '.join(FORMS)}")
            continue
        try:
            with tree.open(name) as raw, text_of(raw) as text:
                yield from _rows(form(text), where, mapped or {})
        except UNREADABLE as why:
            yield UnreadRow(where, f"cannot be read: {why}")


def _rows(found: Found, where: str, mapped: Mapping[str, str]) -> Iterator[ExportRow | UnreadRow]:
    for line, value in found:
        place = f"{where}:{line}"
        if isinstance(value, ExportRow):
            yield value if value.messages else UnreadRow(place, "says nothing")
            continue
        if isinstance(value, ValueError):
            yield UnreadRow(place, cleaned(str(value)))
            continue
        try:
            yield row_of(value, place, mapped)
        except NotARow as why:
            yield UnreadRow(place, cleaned(str(why)))


def _json(text: IO[str]) -> Found:
    return values_from(text)


def _jsonl(text: IO[str]) -> Found:
    """A line each, so that a broken one takes no other with it."""
    for number, line in lines_from(text):
        if line is None or line.strip():
            yield number, value_of(line)


def _csv(text: IO[str]) -> Found:
    """Columns that stand twice (Jira's comments) are one list. A row with fewer columns than named is told: half a file ends in one."""
    lines = (line for _, line in lines_from(text) if line is not None)
    first = next(lines, "")
    parts = max(",;\t", key=first.count)
    columns = next(csv.reader([first], delimiter=parts), [])
    reader = csv.reader(lines, delimiter=parts)
    while True:
        line = reader.line_num + 2
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as why:
            yield line, ValueError(f"it is no row: {why}")
            continue
        if cells:
            few = len(cells) < len(columns)
            yield line, ValueError(f"has {len(cells)} of {len(columns)} columns") if few else _named(columns, cells)


def _named(columns: list[str], cells: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, cell in zip(columns, cells, strict=False):
        if not cell:
            continue
        before = found.get(name)
        found[name] = cell if before is None else [*(before if isinstance(before, list) else [before]), cell]
    return found


def _markdown(text: IO[str]) -> Found:
    said = cleaned(text.read(LONGEST_PAGE)).strip()
    title = next((line.lstrip("# ").strip() for line in said.split("\n", 50)[:50] if line.startswith("#")), "")
    name = title or " ".join(said[:120].split())
    yield 1, ExportRow(id=name[:120], title=name[:300], messages=(ExportMessage("", said),) if said else (), guide=True)


def _yaml(text: IO[str]) -> Found:
    """Our own files: one incident, or `incidents:` with a list of them."""
    try:
        found = plain(text.read(LONGEST_PAGE))
    except yaml.YAMLError as why:
        yield 1, ValueError(f"is not YAML: {' '.join(str(why).split())[:120]}")
        return
    inside = found.get("incidents") if isinstance(found, dict) else found
    for one in inside if isinstance(inside, list) else [found]:
        yield 1, one


FORMS: Final[Mapping[str, Callable[[IO[str]], Found]]] = {
    ".jsonl": _jsonl,
    ".ndjson": _jsonl,
    ".json": _json,
    ".csv": _csv,
    ".tsv": _csv,
    ".md": _markdown,
    ".markdown": _markdown,
    ".yaml": _yaml,
    ".yml": _yaml,
}
"""A file's ending → its reader, which gives each value with its line."""
