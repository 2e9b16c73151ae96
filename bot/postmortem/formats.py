"""The formats that a page is written in: one row each."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from bot.postmortem.html import html
from bot.postmortem.markdown import markdown
from bot.postmortem.page import Page
from bot.postmortem.pdf import pdf

PageFormat = Literal["md", "html", "pdf"]


@dataclass(frozen=True, slots=True)
class FormatRow:
    """`text`: whether a terminal can show it; `dark`: whether it knows its reader's theme."""

    write: Callable[[Page], bytes]
    says: str
    text: bool = True
    dark: bool = False


FORMATS: Final[Mapping[PageFormat, FormatRow]] = {
    "md": FormatRow(markdown, "Markdown"),
    "html": FormatRow(html, "HTML", dark=True),
    "pdf": FormatRow(pdf, "PDF", text=False),
}
