"""What commands print on: as wide as the terminal, or as wide as what is written where somebody pipes it on. Nothing is cut for a pipe."""

import json
import re
import shutil
import sys
from typing import Final

from rich.console import Console, RenderableType
from rich.constrain import Constrain
from rich.padding import Padding
from rich.rule import Rule
from rich.text import TextType

from kb.redact import visible

PIPED = 10_000
"""Characters of a line that no terminal wraps; what is longer than that was bounded before."""
LINE = 80
_ODD: Final = re.compile(r"[^\x20-\x7e]")


def paper(*, whole: bool = False) -> Console:
    """Standard output. COLUMNS wins over both, except for what is `whole` where it is no terminal: a table in which a script looks for words."""
    return Console(width=PIPED if whole and not sys.stdout.isatty() else shutil.get_terminal_size((PIPED, 50)).columns)


def json_line(row: object) -> str:
    """A document on one line. Signs that a terminal would act upon and those that nobody sees are escaped; whoever reads it as JSON gets them back."""
    return _ODD.sub(_escaped, json.dumps(row, default=str, ensure_ascii=False))


def _escaped(found: re.Match[str]) -> str:
    sign = found[0]
    return sign if visible(sign) == sign else json.dumps(sign)[1:-1]


def line(title: TextType = "", style: str = "rule.line") -> RenderableType:
    """A line across, never longer than people expect one."""
    return Constrain(Rule(title, style=style), LINE)


def indented(content: RenderableType) -> RenderableType:
    """Two characters from the left, and no blanks at its right."""
    return Padding(content, (0, 0, 0, 2), expand=False)
