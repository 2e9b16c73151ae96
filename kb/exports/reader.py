"""Read every past incident and guide of an export."""

import csv
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, Final

import yaml

from kb.exports.files import READ_ERRORS, open_file_tree
from kb.exports.json_stream import iter_json_values, iter_lines, open_text, parse_json_value
from kb.exports.row import ExportMessage, ExportRow, NotAnIncident, UnreadRow, parse_export_row
from kb.exports.slack_export import is_slack_export, iter_slack_rows
from kb.redact import redact_once
from kb.yaml_files import load_plain

NumberedValues = Iterator[tuple[int, Any]]
MAX_PAGE_CHARS: Final = 1 << 20  # of a Markdown guide or YAML file that are read


def iter_export_rows(path: Path, mapped: Mapping[str, str] | None = None) -> Iterator[ExportRow | UnreadRow]:
    """Yield rows of a file, folder or zip in order; UnreadRow for the rest.

    Streams large files. Raises UnreadableExport.
    """
    tree = open_file_tree(path)
    names = [*tree.iter_names()]
    if is_slack_export(frozenset(names)):
        yield from iter_slack_rows(tree, lambda name: f"{path.name}/{name}")
        return
    for name in names:
        source_name = name if name == path.name else f"{path.name}/{name}"
        form = FILE_READERS.get(Path(name).suffix.lower())
        if form is None:
            yield UnreadRow(source_name, f"files of this kind are not read, only {', '.join(FILE_READERS)}")
            continue
        try:
            with tree.open_file(name) as raw, open_text(raw) as text:
                yield from _build_rows(form(text), source_name, mapped or {})
        except READ_ERRORS as error:
            yield UnreadRow(source_name, f"cannot be read: {error}")


def _build_rows(values: NumberedValues, where: str, mapped: Mapping[str, str]) -> Iterator[ExportRow | UnreadRow]:
    for line, value in values:
        place = f"{where}:{line}"
        if isinstance(value, ExportRow):
            yield value if value.messages else UnreadRow(place, "says nothing")
            continue
        if isinstance(value, ValueError):
            yield UnreadRow(place, redact_once(str(value)))
            continue
        try:
            yield parse_export_row(value, place, mapped)
        except NotAnIncident as error:
            yield UnreadRow(place, redact_once(str(error)))


def _read_json(text: IO[str]) -> NumberedValues:
    return iter_json_values(text)


def _read_jsonl(text: IO[str]) -> NumberedValues:
    """A broken line affects no other."""
    for number, line in iter_lines(text):
        if line is None or line.strip():
            yield number, parse_json_value(line)


def _read_csv(text: IO[str]) -> NumberedValues:
    """Repeated columns (Jira's comments) become a list. Short rows are reported: a truncated file ends in one."""
    lines = (line for _, line in iter_lines(text) if line is not None)
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
        except csv.Error as error:
            yield line, ValueError(f"it is no row: {error}")
            continue
        if cells:
            few = len(cells) < len(columns)
            yield line, ValueError(f"has {len(cells)} of {len(columns)} columns") if few else _name_cells(columns, cells)


def _name_cells(columns: list[str], cells: list[str]) -> dict[str, Any]:
    named_cells: dict[str, Any] = {}
    for name, cell in zip(columns, cells, strict=False):
        if not cell:
            continue
        earlier = named_cells.get(name)
        if earlier is None:
            named_cells[name] = cell
        elif isinstance(earlier, list):
            named_cells[name] = [*earlier, cell]
        else:
            named_cells[name] = [earlier, cell]
    return named_cells


def _read_markdown(text: IO[str]) -> NumberedValues:
    page_text = redact_once(text.read(MAX_PAGE_CHARS)).strip()
    title = next((line.lstrip("# ").strip() for line in page_text.split("\n", 50)[:50] if line.startswith("#")), "")
    name = title or " ".join(page_text[:120].split())
    yield 1, ExportRow(id=name[:120], title=name[:300], messages=(ExportMessage("", page_text),) if page_text else (), guide=True)


def _read_yaml(text: IO[str]) -> NumberedValues:
    """One incident, or `incidents:` with a list."""
    try:
        plain = load_plain(text.read(MAX_PAGE_CHARS))
    except yaml.YAMLError as error:
        yield 1, ValueError(f"is not YAML: {' '.join(str(error).split())[:120]}")
        return
    inside = plain.get("incidents") if isinstance(plain, dict) else plain
    for row in inside if isinstance(inside, list) else [plain]:
        yield 1, row


# reader by file extension; yields each value with its line
FILE_READERS: Final[Mapping[str, Callable[[IO[str]], NumberedValues]]] = {
    ".jsonl": _read_jsonl,
    ".ndjson": _read_jsonl,
    ".json": _read_json,
    ".csv": _read_csv,
    ".tsv": _read_csv,
    ".md": _read_markdown,
    ".markdown": _read_markdown,
    ".yaml": _read_yaml,
    ".yml": _read_yaml,
}
