"""The rows behind a picture as monospace text, for who cannot see it. Pure."""

import unicodedata
from collections.abc import Sequence

from kb.redact import visible

LONGEST_CELL, MOST_LINES = 160, 400


def as_cells(cells: Sequence[Sequence[str]]) -> list[list[str]]:
    """As many of the rows as are shown, the head among them: one line each, nothing that hides, bounded."""
    return [[_cell(cell) for cell in row] for row in cells[: MOST_LINES + 1]]


def as_text(title: str, cells: Sequence[Sequence[str]]) -> str:
    """Columns below a title, the first row as their heads; what does not fit is counted."""
    rows = as_cells(cells)
    wide = [max(_width(row[at]) for row in rows if at < len(row)) for at in range(max(map(len, rows), default=0))]
    lines = ["  ".join(cell + " " * (wide[at] - _width(cell)) for at, cell in enumerate(row)).rstrip() for row in rows]
    rest = len(cells) - len(rows)
    return "\n".join([_cell(title), "", *lines, *([f"… and {rest} more"] if rest > 0 else [])]) + "\n"


def _cell(text: str) -> str:
    line = " ".join(visible(text[: 4 * LONGEST_CELL]).split())
    return line if len(line) <= LONGEST_CELL else f"{line[: LONGEST_CELL - 1]}…"


def _width(text: str) -> int:
    """Columns of a terminal."""
    return sum(0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)
