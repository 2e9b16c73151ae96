"""Comments from trackers: bounded, redacted, with author and time. Pure.

They are for readers only; nothing is derived from them.
"""

from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Final

from bot.cards.text import MAX_URL_CHARS, WEB_URL_PATTERN
from bot.trackers.http import clean_remote_text, get_text_at
from bot.trackers.tracker import OWN_COMMENT_PREFIX, RemoteComment
from kb.needle_search import split_lines
from kb.redact import redact_start, show_invisible

MAX_FETCHED_COMMENTS: Final = 20  # the newest comments
MAX_READ_CHARS = 8_000
MAX_TEXT_CHARS = 1500
MAX_COMMENT_LINES = 12
MAX_LINE_CHARS = 300
MAX_ADF_NODES = 4000
_BLOCK_NODE_TYPES = frozenset(
    {"paragraph", "heading", "codeBlock", "listItem", "tableRow", "blockquote", "rule", "hardBreak", "mediaSingle", "mediaGroup"}
)
_TEXT_ATTRIBUTES = {"mention": "text", "emoji": "text", "status": "text", "inlineCard": "url", "blockCard": "url", "embedCard": "url"}


def format_closing_comment(incident: str, cause: str) -> str:
    return f"{OWN_COMMENT_PREFIX}{incident} is closed: {cause}"


def build_comment(id_: str, by: str, text: str, at: str = "", url: str = "", kind: str = "comment") -> RemoteComment | None:
    """Return a safe comment, or None without id or text."""
    lines, link = split_bounded_lines(text), url if len(url) <= MAX_URL_CHARS and WEB_URL_PATTERN.fullmatch(url) else ""
    return (
        RemoteComment(id_, clean_remote_text(by, 60), lines, parse_comment_time(at), link, kind) if 0 < len(id_) <= 200 and lines else None
    )


def select_newest(remarks: Iterable[RemoteComment | None]) -> tuple[RemoteComment, ...]:
    """Return the newest, oldest first; those without time count as oldest."""
    known_remarks = [remark for remark in remarks if remark]
    return tuple(sorted(known_remarks, key=lambda remark: remark.at or datetime.min.replace(tzinfo=UTC))[-MAX_FETCHED_COMMENTS:])


def split_bounded_lines(text: str) -> tuple[str, ...]:
    lines = [show_invisible(line).replace("\t", " ").strip() for line in split_lines(redact_start(text, MAX_READ_CHARS))]
    clipped_lines = [line if len(line) <= MAX_LINE_CHARS else f"{line[: MAX_LINE_CHARS - 1]}…" for line in lines if line]
    kept_lines: list[str] = []
    for line in clipped_lines[:MAX_COMMENT_LINES]:
        if sum(map(len, kept_lines)) + len(line) > MAX_TEXT_CHARS:
            break
        kept_lines.append(line)
    cut = len(clipped_lines) > len(kept_lines) or len(text) > MAX_READ_CHARS
    return (*kept_lines, *(["… the rest is there"] if cut else []))


def parse_comment_time(text: str) -> datetime | None:
    """Parse ISO or ServiceNow time; UTC by default, None if invalid."""
    try:
        at = datetime.fromisoformat(text[:40])
    except ValueError:
        return None
    try:
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(UTC)
    except (OverflowError, ValueError):
        return None


def hash_comments(remarks: Collection[RemoteComment]) -> str:
    return sha256(" ".join(remark.id_hash for remark in remarks).encode()).hexdigest()[:16] if remarks else ""


def get_rows_at(data: Any, *way: str) -> Sequence[Any]:
    """Return a list inside an answer, else empty."""
    for step in way:
        data = data.get(step) if isinstance(data, dict) else None
    return data if isinstance(data, list) else ()


def extract_adf_text(document: Any) -> str:
    """Return an Atlassian document's text, of at most MAX_ADF_NODES nodes."""
    texts: list[str] = []
    waiting: list[Any] = [document]
    for _ in range(MAX_ADF_NODES):
        if not waiting:
            break
        node = waiting.pop()
        if isinstance(node, str):
            texts.append(node)
        elif isinstance(node, dict):
            kind = str(node.get("type"))
            texts.append(get_text_at(node, "text") if kind == "text" else get_text_at(node, "attrs", _TEXT_ATTRIBUTES.get(kind, "")))
            waiting += ["\n"] if kind in _BLOCK_NODE_TYPES else []
            waiting += reversed(get_rows_at(node, "content"))
    return "".join(texts)
