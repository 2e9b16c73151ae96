"""The formats that a page is written in: one row each."""

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
