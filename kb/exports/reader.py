"""Read every past incident and guide of an export: tables, JSON, YAML, Markdown, or a Slack export.

A Slack export has a folder per channel and a file per day. A thread that was answered, or whose first message is long,
is an incident.
"""

import csv
from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import IO, Any, Final

import yaml

from kb.exports.files import READ_ERRORS, FileTree, open_file_tree
from kb.exports.json_stream import iter_json_values, iter_lines, open_text, parse_json_value
from kb.exports.row import MAX_MESSAGES, ExportMessage, ExportRow, NotAnIncident, UnreadRow, parse_export_row
from kb.redact import redact_once
from kb.yaml_files import load_plain

NumberedValues = Iterator[tuple[int, Any]]
MAX_PAGE_CHARS: Final = 1 << 20  # read from a Markdown guide or YAML file
SLACK_EXPORT_FILES: Final = ("channels.json", "users.json")  # top-level files of a Slack export
_MIN_UNANSWERED_CHARS: Final = 80  # shorter unanswered messages are not reports
_MAX_MESSAGE_CHARS: Final = 20_000
_MAX_AUTHOR_CHARS: Final = 80
_SLACK_NOTICE_SUBTYPES: Final = ("channel_join", "channel_leave", "channel_topic", "channel_purpose")


def iter_export_rows(path: Path, mapped: Mapping[str, str] | None = None) -> Iterator[ExportRow | UnreadRow]:
    """Yield the rows of a file, folder or zip in order, and an UnreadRow for whatever cannot be read.

    Large files are streamed.

    Raises:
        UnreadableExport: the path cannot be opened.
    """
    tree = open_file_tree(path)
    names = [*tree.iter_names()]
    if _is_slack_export(names):
        yield from _iter_slack_rows(tree, names, path.name)
        return
    for name in names:
        source_name = name if name == path.name else f"{path.name}/{name}"
        read_values = FILE_READERS.get(Path(name).suffix.lower())
        if read_values is None:
            yield UnreadRow(source_name, f"files of this kind are not read, only {', '.join(FILE_READERS)}")
            continue
        try:
            with tree.open_file(name) as raw, open_text(raw) as text:
                yield from _build_rows(read_values(text), source_name, mapped or {})
        except READ_ERRORS as error:
            yield UnreadRow(source_name, f"cannot be read: {error}")


def _build_rows(values: NumberedValues, source_name: str, mapped: Mapping[str, str]) -> Iterator[ExportRow | UnreadRow]:
    for line, value in values:
        location = f"{source_name}:{line}"
        if isinstance(value, ExportRow):
            yield value if value.messages else UnreadRow(location, "says nothing")
            continue
        if isinstance(value, ValueError):
            yield UnreadRow(location, redact_once(str(value)))
            continue
        try:
            yield parse_export_row(value, location, mapped)
        except NotAnIncident as error:
            yield UnreadRow(location, redact_once(str(error)))


def _is_slack_export(names: list[str]) -> bool:
    has_index = any(name in SLACK_EXPORT_FILES for name in names)
    return has_index and any(_is_slack_day(name) for name in names)


def _is_slack_day(name: str) -> bool:
    return name.count("/") == 1 and name.endswith(".json")


def _iter_slack_rows(tree: FileTree, names: list[str], export_name: str) -> Iterator[ExportRow | UnreadRow]:
    """Yield every thread that is a report."""
    people = _read_slack_people(tree)
    days = [name for name in names if _is_slack_day(name)]
    for channel, channel_days in groupby(days, lambda name: name.partition("/")[0]):
        threads: dict[str, list[dict[str, str]]] = {}
        for day in channel_days:
            yield from _read_slack_day(tree, day, f"{export_name}/{day}", people, threads)
        for ts, messages in threads.items():
            if len(messages) > 1 or len(messages[0]["text"]) >= _MIN_UNANSWERED_CHARS:
                yield parse_export_row({"id": f"{channel}/{ts}", "ts": ts, **messages[0], "messages": messages[1:]}, f"{channel}/{ts}")


def _read_slack_day(
    tree: FileTree, day: str, source_name: str, people: Mapping[str, str], threads: dict[str, list[dict[str, str]]]
) -> Iterator[UnreadRow]:
    """Add a day's messages to `threads`, and yield those that cannot be read."""
    try:
        with tree.open_file(day) as raw, open_text(raw) as text:
            for line, message in iter_json_values(text):
                if not isinstance(message, dict) or not isinstance(message.get("text"), str):
                    yield UnreadRow(f"{source_name}:{line}", str(message) if isinstance(message, ValueError) else "it has no text")
                    continue
                if message.get("subtype") in _SLACK_NOTICE_SUBTYPES or not message["text"].strip():
                    continue
                thread = threads.setdefault(str(message.get("thread_ts") or message.get("ts")), [])
                if len(thread) < MAX_MESSAGES:
                    user = str(message.get("user") or message.get("username") or "")
                    thread.append({"author": people.get(user, user), "text": message["text"][:_MAX_MESSAGE_CHARS]})
    except READ_ERRORS as error:
        yield UnreadRow(source_name, f"cannot be read: {error}")


def _read_slack_people(tree: FileTree) -> dict[str, str]:
    """Return names by user id; empty if the export has no list of users."""
    try:
        with tree.open_file("users.json") as raw, open_text(raw) as text:
            people: list[Any] = [person for _, person in iter_json_values(text) if isinstance(person, dict)]
    except (*READ_ERRORS, KeyError):
        return {}
    return {str(person.get("id")): str(person.get("real_name") or person.get("name") or "")[:_MAX_AUTHOR_CHARS] for person in people}


def _read_json(text: IO[str]) -> NumberedValues:
    return iter_json_values(text)


def _read_jsonl(text: IO[str]) -> NumberedValues:
    """Yield one value per line. A broken line affects no other."""
    for number, line in iter_lines(text):
        if line is None or line.strip():
            yield number, parse_json_value(line)


def _read_csv(text: IO[str]) -> NumberedValues:
    """Yield one mapping per line. Short lines are errors, because a truncated file ends in one."""
    lines = (line for _, line in iter_lines(text) if line is not None)
    header = next(lines, "")
    delimiter = max(",;\t", key=header.count)
    columns = next(csv.reader([header], delimiter=delimiter), [])
    reader = csv.reader(lines, delimiter=delimiter)
    while True:
        line = reader.line_num + 2
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield line, ValueError(f"it is no row: {error}")
            continue
        if not cells:
            continue
        if len(cells) < len(columns):
            yield line, ValueError(f"has {len(cells)} of {len(columns)} columns")
        else:
            yield line, _name_cells(columns, cells)


def _name_cells(columns: list[str], cells: list[str]) -> dict[str, Any]:
    """Return the cells by column name. A repeated column, such as Jira's comments, becomes a list."""
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
    headings = [line.lstrip("# ").strip() for line in page_text.split("\n", 50)[:50] if line.startswith("#")]
    title = headings[0] if headings else ""
    name = title or " ".join(page_text[:120].split())
    messages = (ExportMessage("", page_text),) if page_text else ()
    yield 1, ExportRow(id=name[:120], title=name[:300], messages=messages, guide=True)


def _read_yaml(text: IO[str]) -> NumberedValues:
    """Yield the file's one incident, or each incident of a list or of its key `incidents`."""
    try:
        plain = load_plain(text.read(MAX_PAGE_CHARS))
    except yaml.YAMLError as error:
        yield 1, ValueError(f"is not YAML: {' '.join(str(error).split())[:120]}")
        return
    incidents = plain.get("incidents") if isinstance(plain, dict) else plain
    for incident in incidents if isinstance(incidents, list) else [plain]:
        yield 1, incident


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
