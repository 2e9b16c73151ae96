"""The output formats of a page."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from bot.cards.text import defang
from bot.reports.page import (
    APPENDIX_TITLE,
    BulletList,
    Figure,
    Page,
    PagePart,
    PageTable,
    Paragraph,
    QuotedLines,
    find_first_appendix_section,
    list_omissions,
)
from bot.reports.pdf_writer import write_pdf

# A page as Markdown. Charts become words, as Markdown embeds no images.

_MARKUP_PATTERN = re.compile(r"[\\`*_{}\[\]<>|~#&$@!]")
_LINE_START_PATTERN = re.compile(r"^(?=[-+=]|\d{1,9}[.)])")
_WWW_PATTERN = re.compile(r"(?i)\b(www)\.")
_HTML_ENTITIES = {"<": "&lt;", ">": "&gt;", "&": "&amp;", "@": "&#64;", "$": "&#36;"}


def write_markdown(page: Page) -> bytes:
    lines = [f"# {_escape_markdown(page.title)}", "", f"**{_escape_markdown(page.lead)}**", ""]
    appendix = find_first_appendix_section(page)
    for section in page.sections:
        lines += ["---", "", f"## {APPENDIX_TITLE}", ""] if section is appendix else []
        lines += [f"{'###' if section.appendix else '##'} {_escape_markdown(section.title)}", ""]
        for part in section.parts:
            lines += [*_render_part(part), ""]
    lines += ["---", "", *_render_list(page.notes)]
    return "\n".join([*lines, ""]).encode()


def _render_part(part: PagePart) -> Iterator[str]:
    match part:
        case Paragraph(text, strong):
            yield f"**{_escape_markdown(text)}**" if strong else _escape_markdown(text)
        case BulletList(rows):
            yield from _render_list(rows)
        case PageTable(head, rows):
            yield from _render_table(head, rows)
        case QuotedLines(lines):
            yield from _render_quote(lines)
        case Figure(title, words, _, rows, _):
            yield f"*{_escape_markdown(title)}*: {_escape_markdown(words)}"
            if rows:
                yield from ("", *_render_table(rows[0], rows[1:]))
                yield from (line for omission in list_omissions(part) for line in ("", _escape_markdown(omission)))


def _render_list(rows: Iterable[str]) -> Iterator[str]:
    return (f"- {_escape_markdown(row)}" for row in rows)


def _render_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    width = len(head) or max(map(len, rows), default=1)
    yield _render_row(head or [""] * width)
    yield "|" + "---|" * width
    yield from (_render_row(row) for row in rows)


def _render_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(_escape_markdown(cell) for cell in cells)} |"


def _render_quote(lines: Sequence[str]) -> Iterator[str]:
    """Yield a code block with a fence longer than any inside."""
    longest = max((len(run) for line in lines for run in re.findall("`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    yield from (f"{fence}text", *lines, fence)


def _escape_markdown(text: str) -> str:
    """Escape markup, defang addresses and disarm mentions."""
    plain = _WWW_PATTERN.sub(r"\1\.", _MARKUP_PATTERN.sub(lambda found: _HTML_ENTITIES.get(found[0], f"\\{found[0]}"), defang(text)))
    return _LINE_START_PATTERN.sub(r"\\", plain) if not plain[:1].isdigit() else re.sub(r"^(\d{1,9})([.)])", r"\1\\\2", plain)


PageFormat = Literal["md", "pdf"]


@dataclass(frozen=True, slots=True)
class PageFormatRow:
    """`text`: a terminal can show it."""

    write: Callable[[Page], bytes]
    says: str
    text: bool = True


FORMATS: Final[Mapping[PageFormat, PageFormatRow]] = {
    "md": PageFormatRow(write_markdown, "Markdown"),
    "pdf": PageFormatRow(write_pdf, "PDF", text=False),
}
_MARKDOWN_PATTERN = re.compile(r"\b(?:markdown|md)\b", re.IGNORECASE)
MAX_REQUEST_CHARS: Final = 400


def parse_page_format(text: str) -> PageFormat:
    """Return the requested format; PDF by default."""
    return "md" if _MARKDOWN_PATTERN.search(text[:MAX_REQUEST_CHARS]) else "pdf"
