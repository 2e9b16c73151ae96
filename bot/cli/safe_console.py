"""The consoles of commands: as wide as the terminal; in a pipe 100 columns for tables, unwrapped for texts."""

import json
import re
import shutil
import sys
from collections.abc import Iterable
from typing import Final

from rich.console import Console, ConsoleOptions, RenderableType
from rich.constrain import Constrain
from rich.padding import Padding
from rich.rule import Rule
from rich.segment import Segment
from rich.text import Text, TextType

from bot.cli.command_runtime import replace_surrogates
from kb.redact import show_invisible

PIPED_WIDTH_COLUMNS = 10_000  # wider than any bounded line
PIPED_TABLE_COLUMNS = 100
MIN_TABLE_COLUMNS = 80
MAX_RULE_COLUMNS = 80
_NON_ASCII_PATTERN: Final = re.compile(r"[^\x20-\x7e]")


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


def _escape_char(found: re.Match[str]) -> str:
    sign = found[0]
    return sign if show_invisible(sign) == sign else json.dumps(sign)[1:-1]


def render_rule(title: TextType = "", style: str = "rule.line") -> RenderableType:
    return Constrain(Rule(title, style=style), MAX_RULE_COLUMNS)


def indent_renderable(content: RenderableType) -> RenderableType:
    return Padding(content, (0, 0, 0, 2), expand=False)
