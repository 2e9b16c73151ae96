"""Read every past incident and guide of an export."""

import csv
from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import IO, Any, Final

import yaml

from kb.exports.files import READ_ERRORS, FileTree, iter_json_values, iter_lines, open_file_tree, open_text, parse_json_value
from kb.exports.row import MAX_MESSAGES, ExportMessage, ExportRow, NotAnIncident, UnreadRow, parse_export_row
from kb.redact import redact_once
from kb.yaml_files import load_plain

# Slack exports: a folder per channel, a file per day. An answered or long message is an incident.

SLACK_EXPORT_FILES: Final = ("channels.json", "users.json")  # top-level files of a Slack export
_MIN_UNANSWERED_CHARS: Final = 80  # shorter unanswered messages are no reports


def is_slack_export(names: frozenset[str]) -> bool:
    """Return whether these are the files of a Slack export."""
    return any(name in names for name in SLACK_EXPORT_FILES) and any(name.count("/") == 1 and name.endswith(".json") for name in names)


def iter_slack_rows(tree: FileTree, begins: Callable[[str], str]) -> Iterator[ExportRow | UnreadRow]:
    """Yield every thread. `begins` converts a file name to a location for people."""
    names = [name for name in tree.iter_names() if name.count("/") == 1 and name.endswith(".json")]
    people = _read_people(tree)
    for channel, days in groupby(names, lambda name: name.partition("/")[0]):
        threads: dict[str, list[dict[str, str]]] = {}
        for day in days:
            yield from _read_day(tree, day, begins(day), people, threads)
        for ts, messages in threads.items():
            if len(messages) > 1 or len(messages[0]["text"]) >= _MIN_UNANSWERED_CHARS:
                yield parse_export_row({"id": f"{channel}/{ts}", "ts": ts, **messages[0], "messages": messages[1:]}, f"{channel}/{ts}")


def _read_day(
    tree: FileTree, day: str, where: str, people: Mapping[str, str], threads: dict[str, list[dict[str, str]]]
) -> Iterator[UnreadRow]:
    try:
        with tree.open_file(day) as raw, open_text(raw) as text:
            for line, message in iter_json_values(text):
                if not isinstance(message, dict) or not isinstance(message.get("text"), str):
                    yield UnreadRow(f"{where}:{line}", str(message) if isinstance(message, ValueError) else "it has no text")
                    continue
                if (
                    message.get("subtype") in ("channel_join", "channel_leave", "channel_topic", "channel_purpose")
                    or not message["text"].strip()
                ):
                    continue
                thread = threads.setdefault(str(message.get("thread_ts") or message.get("ts")), [])
                if len(thread) < MAX_MESSAGES:
                    user = str(message.get("user") or message.get("username") or "")
                    thread.append({"author": people.get(user, user), "text": message["text"][:20_000]})
    except READ_ERRORS as error:
        yield UnreadRow(where, f"cannot be read: {error}")


def _read_people(tree: FileTree) -> dict[str, str]:
    try:
        with tree.open_file("users.json") as raw, open_text(raw) as text:
            people: list[Any] = [one for _, one in iter_json_values(text) if isinstance(one, dict)]
    except (*READ_ERRORS, KeyError):
        return {}
    return {str(one.get("id")): str(one.get("real_name") or one.get("name") or "")[:80] for one in people}


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


def _build_rows(found: NumberedValues, where: str, mapped: Mapping[str, str]) -> Iterator[ExportRow | UnreadRow]:
    for line, value in found:
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
        before = named_cells.get(name)
        named_cells[name] = cell if before is None else [*(before if isinstance(before, list) else [before]), cell]
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
