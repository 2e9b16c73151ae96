"""A page as values: sections of paragraphs, lists, tables, quotes and figures, and charts as tables. Pure."""

import base64
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, Literal

from kb.needle_search import split_lines
from kb.redact import redact_once, redact_start, show_invisible

# A page as values: sections of paragraphs, lists, tables, quotes and figures.

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
    return next((one for one in page.sections if one.appendix), None)


def sanitize_page(page: Page) -> Page:
    """Redact, clean and bound all text; drop empty sections. Slow: call outside the event loop."""
    sections = [
        PageSection(_sanitize_text(one.title), [_sanitize_part(part) for part in one.parts], one.appendix)
        for one in page.sections
        if one.parts
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


def _cut_text(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}… (+{len(text) - most:,})"


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
            {"title": one.title, "appendix": one.appendix, "parts": [_build_part_document(part) for part in one.parts]}
            for one in page.sections
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


# Charts as tables that fit on paper.

TABLES_TITLE: Final = "The pictures as tables"
MAX_COLUMNS = 10  # columns of a table beside its first
MAX_ADJACENT_TABLES = 2  # parts of a wide table


def build_tables_section(page: Page) -> PageSection | None:
    figures = [part for section in page.sections for part in section.parts if isinstance(part, Figure) and part.rows]
    return (
        PageSection(TABLES_TITLE, [part for figure in figures for part in _build_figure_tables(figure)], appendix=True) if figures else None
    )


def _build_figure_tables(figure: Figure) -> Iterator[PagePart]:
    yield Paragraph(figure.title, strong=True)
    yield Paragraph(figure.words)
    head, *rows = figure.rows
    names = [row[0] if row else "" for row in (head, *rows)]
    wide = max(map(len, figure.rows)) - 1
    for begin in range(0, max(1, min(wide, MAX_COLUMNS * MAX_ADJACENT_TABLES)), MAX_COLUMNS):
        cells = [[name, *_slice_cells(row, begin, wide)] for name, row in zip(names, figure.rows, strict=True)]
        yield PageTable(cells[0], cells[1:])
    yield from (Paragraph(omission) for omission in list_omissions(figure, wide - MAX_COLUMNS * MAX_ADJACENT_TABLES))


def _slice_cells(row: Sequence[str], begin: int, wide: int) -> list[str]:
    count = min(MAX_COLUMNS, wide - begin)
    cells = list(row[1 + begin : 1 + begin + count])
    return cells + [""] * (count - len(cells))


def list_omissions(figure: Figure, columns: int = 0) -> list[str]:
    rows = [f"… and {figure.more} more rows."] if figure.more > 0 else []
    return [*rows, *([f"… and {columns} more columns."] if columns > 0 else [])]
