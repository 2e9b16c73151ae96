"""Build a past incident or guide from a row of an export: GitHub, Jira, ServiceNow, or columns named by `--map`."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from kb.redact import redact_once

MAX_TEXT_CHARS = 20_000  # characters of a text
MAX_MESSAGES = 200  # messages of a thread
MAX_DEPTH = 16  # nesting of a formatted text
MAX_NAME_CHARS: Final = 300  # characters of a name, title or URL
# the exports' names of each field, most reliable first
FIELD_ALIASES: Final[Mapping[str, tuple[str, ...]]] = {
    "id": ("id", "key", "issue_key", "number", "sys_id", "incident"),
    "title": ("title", "summary", "short_description", "subject", "problemkey"),
    "text": ("text", "description", "body", "rawtext", "content", "details"),
    "time": ("time", "created_at", "createdat", "created", "opened_at", "sys_created_on", "date", "timestamp", "ts", "on"),
    "author": ("author", "user", "reporter", "opened_by", "caller_id"),
    "url": ("url", "html_url", "source_url", "link"),
    "messages": ("messages", "comments", "comment", "replies", "work_notes", "comments_and_work_notes", "discussion", "notes", "note"),
    "root_cause": ("root_cause", "cause", "u_root_cause", "cause_notes", "result"),
    "resolution": ("resolution_notes", "close_notes", "resolution", "fix"),
    "check": ("deciding_check", "check", "function"),
    "label": ("label",),
}
_NOT_A_NAME_PATTERN = re.compile(r"[^a-z0-9]+")
_PERSON_FIELDS: Final = ("login", "displayname", "real_name", "name", "id")
_JIRA_NOTE_PATTERN = re.compile(r"(?P<time>[^;\n]{4,40});(?P<author>[^;\n]{1,80});(?P<text>.*)", re.DOTALL)


class NotAnIncident(Exception):
    """The row is not an incident; the text says why."""


@dataclass(frozen=True, slots=True)
class ExportMessage:
    """One message of a thread."""

    author: str
    text: str


@dataclass(frozen=True, slots=True)
class ExportRow:
    """A report and its discussion, redacted."""

    id: str
    title: str
    messages: tuple[ExportMessage, ...]
    time: str = ""  # ISO, UTC; empty if unknown
    url: str = ""
    root_cause: str = ""
    resolution: str = ""
    check: str = ""
    label: str = ""
    guide: bool = False  # a how-to, not an incident

    @property
    def text(self) -> str:
        return "\n".join(filter(None, (self.title, *(message.text for message in self.messages), self.root_cause, self.resolution)))


@dataclass(frozen=True, slots=True)
class UnreadRow:
    """A place in the export that is not an incident, and why."""

    where: str
    why: str

    def __str__(self) -> str:
        return f"{self.where}: {self.why}"


def parse_export_row(value: Any, location: str, mapped: Mapping[str, str] | None = None) -> ExportRow:
    """Build a row from a value of an export.

    Args:
        location: Used as the id of a row without one.
        mapped: The field of each column that `--map` names.

    Raises:
        NotAnIncident: the value is no mapping or has no text.
    """
    if not isinstance(value, Mapping):
        raise NotAnIncident("is no mapping")
    fields = _map_fields(value, mapped or {})
    text, title = _extract_text(fields.get("text")), _extract_short_text(fields.get("title"))
    messages = [ExportMessage(_get_person_name(fields.get("author")), text)] if text else []
    messages += [message for message in _iter_messages(fields.get("messages")) if message.text][: MAX_MESSAGES - 1]
    if not title and not messages:
        if fields:
            raise NotAnIncident("says nothing")
        raise NotAnIncident(f"has none of the columns we know: {', '.join(map(str, value))[:200]}; name them with --map")
    return ExportRow(
        id=_extract_short_text(fields.get("id")) or location,
        title=title or _get_first_line(messages[0].text),
        messages=tuple(messages),
        time=format_iso_time(fields.get("time")),
        url=_extract_short_text(fields.get("url")),
        check=_extract_short_text(fields.get("check")),
        label=_extract_short_text(fields.get("label")),
        root_cause=_extract_text(fields.get("root_cause")),
        resolution=_extract_text(fields.get("resolution")),
    )


def format_iso_time(value: Any) -> str:
    """Convert a time of an export (ISO, epoch, ServiceNow, Jira) to ISO in UTC; an unknown format to an empty string."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _format_epoch_time(value)
    text = str(value or "").strip()[:40]
    if re.fullmatch(r"\d{9,10}(\.\d{1,9})?", text):
        return _format_epoch_time(float(text))
    for form in ("", "%Y-%m-%dT%H:%M:%S.%f%z", "%d/%b/%y %I:%M %p", "%d/%m/%Y %H:%M:%S", "%m/%d/%Y %H:%M"):
        try:
            time = datetime.strptime(text, form) if form else datetime.fromisoformat(text)  # noqa: DTZ007  # made UTC below
            return (time if time.tzinfo else time.replace(tzinfo=UTC)).astimezone(UTC).isoformat(timespec="seconds")
        except (ValueError, OverflowError):
            continue
    return ""


def _format_epoch_time(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):
        return ""


def _map_fields(row: Mapping[Any, Any], mapped: Mapping[str, str]) -> dict[str, Any]:
    """Return the values of a row by the names of our fields."""
    nested_fields = row.get("fields")  # Jira's
    flat_fields = {**row, **nested_fields} if isinstance(nested_fields, Mapping) else row
    value_by_name = {
        _NOT_A_NAME_PATTERN.sub("_", str(name).strip().lower()).strip("_"): value for name, value in reversed([*flat_fields.items()])
    }
    fields: dict[str, Any] = {}
    for field, names in FIELD_ALIASES.items():
        values = [value_by_name[name] for name in names if value_by_name.get(name) not in (None, "", [], ())]
        if values:
            fields[field] = values[0]
    return fields | {field: flat_fields[column] for column, field in mapped.items() if column in flat_fields}


def _iter_messages(value: Any) -> Iterator[ExportMessage]:
    if isinstance(value, Mapping):
        value = value.get("comments") or value.get("messages") or ()
    if isinstance(value, str):
        value = (value,)
    for message in value[: MAX_MESSAGES * 2] if isinstance(value, Sequence) else ():
        if isinstance(message, Mapping):
            fields = _map_fields(message, {})
            yield ExportMessage(_get_person_name(fields.get("author")), _extract_text(fields.get("text")))
        elif isinstance(message, str):
            match = _JIRA_NOTE_PATTERN.match(message) if format_iso_time(message.partition(";")[0]) else None
            if match:
                yield ExportMessage(_extract_short_text(match["author"]), _extract_text(match["text"]))
            else:
                yield ExportMessage("", _extract_text(message))


def _get_person_name(person: Any) -> str:
    if isinstance(person, Mapping):
        field_values = {str(name).lower(): value for name, value in person.items()}
        names = [field_values[name] for name in _PERSON_FIELDS if isinstance(field_values.get(name), str | int)]
        person = names[0] if names else ""
    return _extract_short_text(person)


def _extract_text(value: Any) -> str:
    joined_text = "".join(_iter_text_pieces(value, MAX_DEPTH))[:MAX_TEXT_CHARS].replace("\0", "")
    return redact_once(joined_text.encode("utf-8", "replace").decode()).strip()  # a lone UTF-16 surrogate cannot be encoded


def _iter_text_pieces(value: Any, max_depth: int) -> Iterator[str]:
    """Yield the pieces of a plain text or of an Atlassian document."""
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        yield str(value)[:MAX_TEXT_CHARS]
    elif isinstance(value, Mapping) and max_depth:
        yield from _iter_text_pieces(value.get("text") or value.get("content") or value.get("name") or "", max_depth - 1)
        yield "\n" if value.get("type") in ("paragraph", "heading", "codeBlock", "hardBreak") else ""
    elif isinstance(value, Sequence) and not isinstance(value, bytes) and max_depth:
        for piece in value[:1000]:
            yield from _iter_text_pieces(piece, max_depth - 1)


def _extract_short_text(value: Any) -> str:
    return " ".join(_extract_text(value)[: MAX_NAME_CHARS * 4].split())[:MAX_NAME_CHARS]


def _get_first_line(text: str) -> str:
    return " ".join(text.lstrip()[:MAX_NAME_CHARS].partition("\n")[0].split())[:120]
