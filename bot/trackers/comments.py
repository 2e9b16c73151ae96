"""Comments from trackers: bounded, redacted, with author and time.

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
MAX_ID_CHARS = 200
MAX_AUTHOR_CHARS = 60
MAX_READ_CHARS = 8_000
MAX_TEXT_CHARS = 1500
MAX_COMMENT_LINES = 12
MAX_LINE_CHARS = 300
MAX_ADF_NODES = 4000
CUT_TEXT = "… the rest is in the tracker"
_BLOCK_NODE_TYPES = frozenset(
    {"paragraph", "heading", "codeBlock", "listItem", "tableRow", "blockquote", "rule", "hardBreak", "mediaSingle", "mediaGroup"}
)
_TEXT_ATTRIBUTES = {"mention": "text", "emoji": "text", "status": "text", "inlineCard": "url", "blockCard": "url", "embedCard": "url"}


def format_closing_comment(incident: str, cause: str) -> str:
    return f"{OWN_COMMENT_PREFIX}{incident} is closed: {cause}"


def build_comment(id_: str, by: str, text: str, at: str = "", url: str = "", kind: str = "comment") -> RemoteComment | None:
    """Return a safe comment, or None without a text or a usable id. An unusable URL is left out."""
    if not id_ or len(id_) > MAX_ID_CHARS:
        return None
    lines = split_bounded_lines(text)
    if not lines:
        return None
    if len(url) > MAX_URL_CHARS or not WEB_URL_PATTERN.fullmatch(url):
        url = ""
    return RemoteComment(id_, clean_remote_text(by, MAX_AUTHOR_CHARS), lines, parse_comment_time(at), url, kind)


def select_newest(comments: Iterable[RemoteComment | None]) -> tuple[RemoteComment, ...]:
    """Return the newest comments, oldest first; a comment without a time counts as oldest."""
    known_comments = [comment for comment in comments if comment]
    known_comments.sort(key=lambda comment: comment.at or datetime.min.replace(tzinfo=UTC))
    return tuple(known_comments[-MAX_FETCHED_COMMENTS:])


def split_bounded_lines(text: str) -> tuple[str, ...]:
    lines = [show_invisible(line).replace("\t", " ").strip() for line in split_lines(redact_start(text, MAX_READ_CHARS))]
    clipped_lines = [line if len(line) <= MAX_LINE_CHARS else f"{line[: MAX_LINE_CHARS - 1]}…" for line in lines if line]
    kept_lines: list[str] = []
    for line in clipped_lines[:MAX_COMMENT_LINES]:
        if sum(map(len, kept_lines)) + len(line) > MAX_TEXT_CHARS:
            break
        kept_lines.append(line)
    if len(clipped_lines) > len(kept_lines) or len(text) > MAX_READ_CHARS:
        kept_lines.append(CUT_TEXT)
    return tuple(kept_lines)


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


def hash_comments(comments: Collection[RemoteComment]) -> str:
    """Return a hash of the comments' ids; empty without comments."""
    if not comments:
        return ""
    return sha256(" ".join(comment.id_hash for comment in comments).encode()).hexdigest()[:16]


def get_rows_at(data: Any, *path: str) -> Sequence[Any]:
    """Return the list at this path of keys; empty if there is none."""
    for key in path:
        data = data.get(key) if isinstance(data, dict) else None
    return data if isinstance(data, list) else ()


def extract_adf_text(document: Any) -> str:
    """Return an Atlassian document's text, of at most MAX_ADF_NODES nodes."""
    texts: list[str] = []
    pending_nodes: list[Any] = [document]
    for _ in range(MAX_ADF_NODES):
        if not pending_nodes:
            break
        node = pending_nodes.pop()
        if isinstance(node, str):
            texts.append(node)
        elif isinstance(node, dict):
            kind = str(node.get("type"))
            texts.append(get_text_at(node, "text") if kind == "text" else get_text_at(node, "attrs", _TEXT_ATTRIBUTES.get(kind, "")))
            if kind in _BLOCK_NODE_TYPES:
                pending_nodes.append("\n")
            pending_nodes += reversed(get_rows_at(node, "content"))
    return "".join(texts)
