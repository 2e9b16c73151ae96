"""One past incident or guide from a foreign mapping: GitHub, Jira, ServiceNow, extended by `--map`. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from kb.redact import redact_once

MAX_TEXT_CHARS = 20_000  # characters of a text
MAX_MESSAGES = 200  # messages of a thread
MAX_DEPTH = 16  # nesting of a formatted text
MAX_NAME_CHARS: Final = 300  # of a name, title or URL
# our field → foreign names, most reliable first
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
    """Why something is no incident."""


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
        return "\n".join(filter(None, (self.title, *(one.text for one in self.messages), self.root_cause, self.resolution)))


@dataclass(frozen=True, slots=True)
class UnreadRow:
    """A place that is no incident, and why."""

    where: str
    why: str

    def __str__(self) -> str:
        return f"{self.where}: {self.why}"


def parse_export_row(given: Any, where: str, mapped: Mapping[str, str] | None = None) -> ExportRow:
    """Build a row. `where` replaces a missing id; `mapped` is foreign column → our field. Raises NotAnIncident."""
    if not isinstance(given, Mapping):
        raise NotAnIncident("is no mapping")
    fields = _map_fields(given, mapped or {})
    text, title = _extract_text(fields.get("text")), _extract_short_text(fields.get("title"))
    messages = [ExportMessage(_get_person_name(fields.get("author")), text)] if text else []
    messages += [one for one in _iter_messages(fields.get("messages")) if one.text][: MAX_MESSAGES - 1]
    if not title and not messages:
        raise NotAnIncident(
            "says nothing" if fields else f"has none of the columns we know: {', '.join(map(str, given))[:200]}; name them with --map"
        )
    return ExportRow(
        id=_extract_short_text(fields.get("id")) or where,
        title=title or _get_first_line(messages[0].text),
        messages=tuple(messages),
        time=format_iso_time(fields.get("time")),
        url=_extract_short_text(fields.get("url")),
        check=_extract_short_text(fields.get("check")),
        label=_extract_short_text(fields.get("label")),
        root_cause=_extract_text(fields.get("root_cause")),
        resolution=_extract_text(fields.get("resolution")),
    )


def format_iso_time(given: Any) -> str:
    """Convert known exports' times (ISO, epoch, ServiceNow, Jira) to ISO in UTC, or ""."""
    if isinstance(given, int | float) and not isinstance(given, bool):
        return _format_epoch_time(given)
    text = str(given or "").strip()[:40]
    if re.fullmatch(r"\d{9,10}(\.\d{1,9})?", text):
        return _format_epoch_time(float(text))
    for form in ("", "%Y-%m-%dT%H:%M:%S.%f%z", "%d/%b/%y %I:%M %p", "%d/%m/%Y %H:%M:%S", "%m/%d/%Y %H:%M"):
        try:
            at = datetime.strptime(text, form) if form else datetime.fromisoformat(text)  # noqa: DTZ007  # made UTC below
            return (at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(UTC).isoformat(timespec="seconds")
        except (ValueError, OverflowError):
            continue
    return ""


def _format_epoch_time(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):
        return ""


def _map_fields(given: Mapping[Any, Any], mapped: Mapping[str, str]) -> dict[str, Any]:
    inner = given.get("fields")
    flat_fields = {**given, **inner} if isinstance(inner, Mapping) else given  # Jira nests its fields
    value_by_name = {
        _NOT_A_NAME_PATTERN.sub("_", str(name).strip().lower()).strip("_"): value for name, value in reversed([*flat_fields.items()])
    }
    fields = {
        field: value
        for field, names in FIELD_ALIASES.items()
        if (value := next((value_by_name[name] for name in names if value_by_name.get(name) not in (None, "", [], ())), None)) is not None
    }
    return fields | {field: flat_fields[column] for column, field in mapped.items() if column in flat_fields}


def _iter_messages(given: Any) -> Iterator[ExportMessage]:
    if isinstance(given, Mapping):
        given = given.get("comments") or given.get("messages") or ()
    if isinstance(given, str):
        given = (given,)
    for message in given[: MAX_MESSAGES * 2] if isinstance(given, Sequence) else ():
        if isinstance(message, Mapping):
            fields = _map_fields(message, {})
            yield ExportMessage(_get_person_name(fields.get("author")), _extract_text(fields.get("text")))
        elif isinstance(message, str):
            noted = _JIRA_NOTE_PATTERN.match(message) if format_iso_time(message.partition(";")[0]) else None
            yield (
                ExportMessage(_extract_short_text(noted["author"]), _extract_text(noted["text"]))
                if noted
                else ExportMessage("", _extract_text(message))
            )


def _get_person_name(given: Any) -> str:
    if isinstance(given, Mapping):
        value_by_name = {str(name).lower(): value for name, value in given.items()}
        given = next((value_by_name[name] for name in _PERSON_FIELDS if isinstance(value_by_name.get(name), str | int)), "")
    return _extract_short_text(given)


def _extract_text(given: Any) -> str:
    joined_text = "".join(_iter_text_pieces(given, MAX_DEPTH))[:MAX_TEXT_CHARS].replace("\0", "")
    return redact_once(joined_text.encode("utf-8", "replace").decode()).strip()  # a lone UTF-16 surrogate cannot be encoded


def _iter_text_pieces(given: Any, deep: int) -> Iterator[str]:
    """Plain text, or Atlassian document nodes."""
    if isinstance(given, str | int | float) and not isinstance(given, bool):
        yield str(given)[:MAX_TEXT_CHARS]
    elif isinstance(given, Mapping) and deep:
        yield from _iter_text_pieces(given.get("text") or given.get("content") or given.get("name") or "", deep - 1)
        yield "\n" if given.get("type") in ("paragraph", "heading", "codeBlock", "hardBreak") else ""
    elif isinstance(given, Sequence) and not isinstance(given, bytes) and deep:
        for piece in given[:1000]:
            yield from _iter_text_pieces(piece, deep - 1)


def _extract_short_text(given: Any) -> str:
    return " ".join(_extract_text(given)[: MAX_NAME_CHARS * 4].split())[:MAX_NAME_CHARS]


def _get_first_line(text: str) -> str:
    return " ".join(text.lstrip()[:MAX_NAME_CHARS].partition("\n")[0].split())[:120]
