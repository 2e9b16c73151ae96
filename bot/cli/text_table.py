"""Tables that fit the terminal or a pipe: cells wrap between words, and ids are not broken."""

from collections.abc import Iterable, Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from bot.cli.safe_console import sanitize_text

MAX_UNBROKEN_CHARS = 60  # a longer id is broken, so that other columns keep room

Cell = str | Text


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
        unbroken = index == id_column and max((row[index].cell_len for row in cells), default=0) <= MAX_UNBROKEN_CHARS
        table.add_column(name, overflow="fold", no_wrap=unbroken)
    for row in cells:
        table.add_row(*row)
    return table


def _clean_cell(cell: Cell) -> Text:
    if isinstance(cell, Text) and sanitize_text(cell.plain) == cell.plain:
        return cell
    return Text(sanitize_text(cell.plain), cell.style) if isinstance(cell, Text) else Text(sanitize_text(cell))


def clip_cell(text: str, most: int) -> str:
    """Cut a text between words; `…` says that it goes on."""
    if len(text) <= most:
        return text
    clipped = text[: most - 1]
    return f"{clipped.rsplit(' ', 1)[0] if ' ' in clipped else clipped[:-1]} …"
