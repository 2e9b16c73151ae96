"""The output formats of a page."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from bot.reports.markdown_writer import write_markdown
from bot.reports.page import Page
from bot.reports.pdf_writer import write_pdf

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
