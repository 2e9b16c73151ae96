"""A page as values: sections of paragraphs, lists, tables, quotes and figures."""

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal

from kb.needle_search import split_lines
from kb.redact import redact_once, redact_start, show_invisible

MAX_TEXT_CHARS = 2000  # limits of a paragraph or cell
MAX_LINE_CHARS = 400  # of a quoted line
MAX_FIGURE_ROWS = 200  # of a figure's rows
SCHEMA_VERSION = 1
APPENDIX_TITLE = "Appendix"
Audience = Literal["operators", "customer"]


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A paragraph; `strong` ones are read first."""

    text: str
    strong: bool = False


@dataclass(frozen=True, slots=True)
class BulletList:
    rows: Sequence[str]


@dataclass(frozen=True, slots=True)
class PageTable:
    """`head` is empty if the first column names the second."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class QuotedLines:
    """Lines as printed, never markup."""

    lines: Sequence[str]


@dataclass(frozen=True, slots=True)
class Figure:
    title: str
    words: str
    png: bytes = field(repr=False)
    rows: Sequence[Sequence[str]] = ()  # data with a header row; empty if the page lists it elsewhere
    more: int = 0  # number of rows beyond


PagePart = Paragraph | BulletList | PageTable | QuotedLines | Figure


@dataclass(frozen=True, slots=True)
class PageSection:
    title: str
    parts: Sequence[PagePart]
    appendix: bool = False


@dataclass(frozen=True, slots=True)
class Page:
    """One sheet, then the appendix. `notes`: when it was made, what was unreadable."""

    incident: str
    audience: Audience
    title: str
    lead: str
    made: datetime
    sections: Sequence[PageSection]
    notes: Sequence[str] = ()
    language: str = "en"


def find_first_appendix_section(page: Page) -> PageSection | None:
    return next((section for section in page.sections if section.appendix), None)


def sanitize_page(page: Page) -> Page:
    """Redact, clean and bound all text; drop empty sections. Slow: call outside the event loop."""
    sections = [
        PageSection(_sanitize_text(section.title), [_sanitize_part(part) for part in section.parts], section.appendix)
        for section in page.sections
        if section.parts
    ]
    notes = [_sanitize_text(note) for note in page.notes]
    return replace(page, title=_sanitize_text(page.title), lead=_sanitize_text(page.lead), sections=tuple(sections), notes=tuple(notes))


def _sanitize_part(part: PagePart) -> PagePart:
    match part:
        case Paragraph(text, strong):
            return Paragraph(_sanitize_text(text), strong)
        case BulletList(rows):
            return BulletList([_sanitize_text(row) for row in rows])
        case PageTable(head, rows):
            return PageTable([_sanitize_text(cell) for cell in head], [[_sanitize_text(cell) for cell in row] for row in rows])
        case QuotedLines(lines):
            return QuotedLines(
                [
                    _cut_text(show_invisible(line).replace("\t", "    "), MAX_LINE_CHARS)
                    for line in split_lines(redact_once("\n".join(lines)))
                ]
            )
        case Figure(title, words, _, rows, more):
            cells = [[_sanitize_text(cell) for cell in row] for row in rows[: MAX_FIGURE_ROWS + 1]]
            return replace(part, title=_sanitize_text(title), words=_sanitize_text(words), rows=cells, more=more + len(rows) - len(cells))


def _sanitize_text(text: str) -> str:
    """Return one line: untrusted line breaks have no effect."""
    visible_text = show_invisible(re.sub(r"\s+", " ", redact_start(text, 2 * MAX_TEXT_CHARS))).strip()
    return (
        visible_text
        if len(visible_text) <= MAX_TEXT_CHARS
        else f"{visible_text[:MAX_TEXT_CHARS]}… (+{max(len(visible_text), len(text)) - MAX_TEXT_CHARS:,})"
    )


def _cut_text(text: str, max_chars: int) -> str:
    return text if len(text) <= max_chars else f"{text[:max_chars]}… (+{len(text) - max_chars:,})"


def build_page_document(page: Page) -> dict[str, Any]:
    """Return JSON for scripts; figures as base64 PNG."""
    return {
        "schema": SCHEMA_VERSION,
        "incident": page.incident,
        "audience": page.audience,
        "language": page.language,
        "title": page.title,
        "lead": page.lead,
        "made": page.made.isoformat(),
        "sections": [
            {"title": section.title, "appendix": section.appendix, "parts": [_build_part_document(part) for part in section.parts]}
            for section in page.sections
        ],
        "notes": list(page.notes),
    }


def _build_part_document(part: PagePart) -> dict[str, Any]:
    match part:
        case Paragraph(text, strong):
            return {"kind": "paragraph", "text": text, "strong": strong}
        case BulletList(rows):
            return {"kind": "list", "rows": list(rows)}
        case PageTable(head, rows):
            return {"kind": "table", "head": list(head), "rows": [list(row) for row in rows]}
        case QuotedLines(lines):
            return {"kind": "quote", "lines": list(lines)}
        case Figure(title, words, png, rows, more):
            image = base64.b64encode(png).decode()
            cells = [list(row) for row in rows]
            return {"kind": "figure", "title": title, "words": words, "rows": cells, "more": more, "png": image}
