"""The rows of a chart as monospace text. Pure."""

import unicodedata
from collections.abc import Sequence

from kb.redact import show_invisible

MAX_CELL_CHARS = 160
MAX_ROWS = 400


def limit_cells(cells: Sequence[Sequence[str]]) -> list[list[str]]:
    """Return the shown rows with header, cleaned and bounded."""
    return [[_format_cell(cell) for cell in row] for row in cells[: MAX_ROWS + 1]]


def render_text_table(title: str, cells: Sequence[Sequence[str]]) -> str:
    """Return aligned columns, counting omitted rows."""
    rows = limit_cells(cells)
    wide = [max(_measure_columns(row[at]) for row in rows if at < len(row)) for at in range(max(map(len, rows), default=0))]
    lines = ["  ".join(cell + " " * (wide[at] - _measure_columns(cell)) for at, cell in enumerate(row)).rstrip() for row in rows]
    rest = len(cells) - len(rows)
    return "\n".join([_format_cell(title), "", *lines, *([f"… and {rest} more"] if rest > 0 else [])]) + "\n"


def _format_cell(text: str) -> str:
    line = " ".join(show_invisible(text[: 4 * MAX_CELL_CHARS]).split())
    return line if len(line) <= MAX_CELL_CHARS else f"{line[: MAX_CELL_CHARS - 1]}…"


def _measure_columns(text: str) -> int:
    return sum(0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)
