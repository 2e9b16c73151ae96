"""What people write below a ticket there, as it may be shown here: bounded, without secrets, by whom and when. Pure.

It is a note for people and nothing else: no incident, no question and no diagnosis is made of it.
"""

from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Final

from bot.cards.text import MOST_URL, WEB
from bot.trackers.tracker import OURS, RemoteRemark
from bot.trackers.wire import text_at, words_of
from kb.redact import cleaned_start, visible
from kb.scan import lines_in

FETCHED: Final = 20
"""Of the newest so many are looked at."""
MOST_READ, MOST_TEXT, MOST_LINES, MOST_LINE, MOST_NODES = 8_000, 1500, 12, 300, 4000
_ENDS = frozenset(
    {"paragraph", "heading", "codeBlock", "listItem", "tableRow", "blockquote", "rule", "hardBreak", "mediaSingle", "mediaGroup"}
)
_SAYS = {"mention": "text", "emoji": "text", "status": "text", "inlineCard": "url", "blockCard": "url", "embedCard": "url"}


def closing_words(incident: str, cause: str) -> str:
    """What we write there when an incident is closed."""
    return f"{OURS}{incident} is closed: {cause}"


def remark_of(id_: str, by: str, text: str, at: str = "", url: str = "", kind: str = "comment") -> RemoteRemark | None:
    """A comment as it may be shown; None for one that has no id or says nothing."""
    lines, link = bounded(text), url if len(url) <= MOST_URL and WEB.fullmatch(url) else ""
    return RemoteRemark(id_, words_of(by, 60), lines, moment_of(at), link, kind) if 0 < len(id_) <= 200 and lines else None


def newest(remarks: Iterable[RemoteRemark | None]) -> tuple[RemoteRemark, ...]:
    """The newest of them, oldest first; those of one time in their order here, those without a time come first, as they stand."""
    known = [remark for remark in remarks if remark]
    return tuple(sorted(known, key=lambda remark: remark.at or datetime.min.replace(tzinfo=UTC))[-FETCHED:])


def bounded(text: str) -> tuple[str, ...]:
    """Its lines as they may be shown, blank ones left out."""
    lines = [visible(line).replace("\t", " ").strip() for line in lines_in(cleaned_start(text, MOST_READ))]
    said = [line if len(line) <= MOST_LINE else f"{line[: MOST_LINE - 1]}…" for line in lines if line]
    kept: list[str] = []
    for line in said[:MOST_LINES]:
        if sum(map(len, kept)) + len(line) > MOST_TEXT:
            break
        kept.append(line)
    cut = len(said) > len(kept) or len(text) > MOST_READ
    return (*kept, *(["… more of it stands there"] if cut else []))


def moment_of(text: str) -> datetime | None:
    """A time as JSON has it, or as ServiceNow writes it, in UTC where it says no zone; None for what is none."""
    try:
        at = datetime.fromisoformat(text[:40])
    except ValueError:
        return None
    try:
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(UTC)
    except (OverflowError, ValueError):
        return None


def signs_of(remarks: Collection[RemoteRemark]) -> str:
    """What tells these comments from any others."""
    return sha256(" ".join(remark.sign for remark in remarks).encode()).hexdigest()[:16] if remarks else ""


def rows_at(data: Any, *way: str) -> Sequence[Any]:
    """A list inside an answer; empty where the answer has another shape."""
    for step in way:
        data = data.get(step) if isinstance(data, dict) else None
    return data if isinstance(data, list) else ()


def adf_text(document: Any) -> str:
    """The words of a document of Atlassian's, however deep it is, and of so many nodes."""
    said: list[str] = []
    waiting: list[Any] = [document]
    for _ in range(MOST_NODES):
        if not waiting:
            break
        node = waiting.pop()
        if isinstance(node, str):
            said.append(node)
        elif isinstance(node, dict):
            kind = str(node.get("type"))
            said.append(text_at(node, "text") if kind == "text" else text_at(node, "attrs", _SAYS.get(kind, "")))
            waiting += ["\n"] if kind in _ENDS else []
            waiting += reversed(rows_at(node, "content"))
    return "".join(said)
