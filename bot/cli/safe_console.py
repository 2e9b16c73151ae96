"""Consoles and tables of commands: as wide as the terminal; in a pipe 100 columns for tables, unwrapped for texts.

Cells wrap between words, and ids are not broken.
"""

import json
import re
import shutil
import sys
from collections.abc import Iterable, Sequence
from typing import Final

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType
from rich.constrain import Constrain
from rich.padding import Padding
from rich.rule import Rule
from rich.segment import Segment
from rich.table import Table
from rich.text import Text, TextType

from bot.cli.command_runtime import replace_surrogates
from kb.redact import show_invisible

PIPED_WIDTH_COLUMNS = 10_000  # wider than any bounded line
PIPED_TABLE_COLUMNS = 100
MIN_TABLE_COLUMNS = 80
MAX_RULE_COLUMNS = 80
_NON_ASCII_PATTERN: Final = re.compile(r"[^\x20-\x7e]")
MAX_UNBROKEN_CHARS = 60  # a longer id is broken, so that other columns keep room
Cell = str | Text


class SafeConsole(Console):
    """Shows hidden characters as codes and never interprets markup."""

    def __init__(self, *, width: int | None = None, stderr: bool = False) -> None:
        super().__init__(width=width, stderr=stderr, markup=False, emoji=False)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Clean before layout and on output."""
        for segment in super().render(_sanitize_renderable(renderable), options):
            yield segment if segment.control else Segment(sanitize_text(segment.text), segment.style)


def _sanitize_renderable(renderable: RenderableType) -> RenderableType:
    if isinstance(renderable, str):
        return sanitize_text(renderable)
    if isinstance(renderable, Text) and (plain := sanitize_text(renderable.plain)) != renderable.plain:
        plain_copy = renderable.blank_copy(plain)  # styles of parts are dropped, as their positions moved
        plain_copy.stylize(renderable.style)
        return plain_copy
    return renderable


def sanitize_text(text: str) -> str:
    """Return the text with hidden characters as codes."""
    return show_invisible(replace_surrogates(text))


def open_console(*, whole: bool = False) -> SafeConsole:
    """Return a console for texts. COLUMNS wins, except for piped `whole` texts, which scripts search."""
    return SafeConsole(
        width=PIPED_WIDTH_COLUMNS if whole and not sys.stdout.isatty() else shutil.get_terminal_size((PIPED_WIDTH_COLUMNS, 50)).columns
    )


def open_table_console() -> SafeConsole:
    """Return a console for tables: as wide as COLUMNS or the terminal says, 100 columns in a pipe, never below 80."""
    return SafeConsole(width=max(MIN_TABLE_COLUMNS, shutil.get_terminal_size((PIPED_TABLE_COLUMNS, 50)).columns))


def format_json_line(row: object) -> str:
    """Return one line of JSON with hidden characters escaped."""
    return escape_json_text(json.dumps(row, default=str, ensure_ascii=False))


def escape_json_text(text: str) -> str:
    return _NON_ASCII_PATTERN.sub(_escape_char, text)


def _escape_char(match: re.Match[str]) -> str:
    sign = match[0]
    return sign if show_invisible(sign) == sign else json.dumps(sign)[1:-1]


def render_rule(title: TextType = "", style: str = "rule.line") -> RenderableType:
    return Constrain(Rule(title, style=style), MAX_RULE_COLUMNS)


def indent_renderable(content: RenderableType) -> RenderableType:
    return Padding(content, (0, 0, 0, 2), expand=False)


def build_text_table(head: Sequence[str], rows: Iterable[Sequence[Cell]], *, title: str = "", id_column: int = 0) -> Table:
    """Return a table whose `id_column` is never broken, as far as its ids are of sensible length.

    Cells are cleaned here: rich measures columns before `SafeConsole` shows hidden characters as codes, which makes texts longer.
    """
    cells = [[_clean_cell(cell) for cell in row] for row in rows]
    table = Table(
        title=_clean_cell(title) if title else None,
        min_width=len(title) or None,  # the title wraps within the table
        title_justify="left",
        title_style="bold",
        header_style="bold",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
    )
    for index, name in enumerate(head):
        unbroken = index == id_column and max((cell[index].cell_len for cell in cells), default=0) <= MAX_UNBROKEN_CHARS
        table.add_column(name, overflow="fold", no_wrap=unbroken)
    for cell in cells:
        table.add_row(*cell)
    return table


def _clean_cell(cell: Cell) -> Text:
    if isinstance(cell, Text) and sanitize_text(cell.plain) == cell.plain:
        return cell
    return Text(sanitize_text(cell.plain), cell.style) if isinstance(cell, Text) else Text(sanitize_text(cell))


def clip_cell(text: str, max_width: int) -> str:
    """Cut a text between words; `…` says that it goes on."""
    if len(text) <= max_width:
        return text
    clipped = text[: max_width - 1]
    return f"{clipped.rsplit(' ', 1)[0] if ' ' in clipped else clipped[:-1]} …"
