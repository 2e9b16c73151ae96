"""The formats that a page is written in: one row each."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from bot.postmortem.markdown import markdown
from bot.postmortem.page import Page
from bot.postmortem.pdf import pdf

PageFormat = Literal["md", "pdf"]


@dataclass(frozen=True, slots=True)
class FormatRow:
    """`text`: whether a terminal can show it."""

    write: Callable[[Page], bytes]
    says: str
    text: bool = True


FORMATS: Final[Mapping[PageFormat, FormatRow]] = {
    "md": FormatRow(markdown, "Markdown"),
    "pdf": FormatRow(pdf, "PDF", text=False),
}

_MARKDOWN = re.compile(r"\b(?:markdown|md)\b", re.IGNORECASE)
LONGEST_WISH: Final = 400


def format_asked(text: str) -> PageFormat:
    """Return the format that a wish for the page names; PDF where it names none."""
    return "md" if _MARKDOWN.search(text[:LONGEST_WISH]) else "pdf"
