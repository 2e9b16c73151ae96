"""Charts as tables that fit on paper."""

from collections.abc import Iterator, Sequence
from typing import Final

from bot.reports.page import Figure, Page, PagePart, PageSection, PageTable, Paragraph

TABLES_TITLE: Final = "The pictures as tables"
MAX_COLUMNS = 10  # columns of a table beside its first
MAX_ADJACENT_TABLES = 2  # parts of a wide table


def build_tables_section(page: Page) -> PageSection | None:
    figures = [part for section in page.sections for part in section.parts if isinstance(part, Figure) and part.rows]
    return (
        PageSection(TABLES_TITLE, [part for figure in figures for part in _build_figure_tables(figure)], appendix=True) if figures else None
    )


def _build_figure_tables(figure: Figure) -> Iterator[PagePart]:
    yield Paragraph(figure.title, strong=True)
    yield Paragraph(figure.words)
    head, *rows = figure.rows
    names = [row[0] if row else "" for row in (head, *rows)]
    wide = max(map(len, figure.rows)) - 1
    for begin in range(0, max(1, min(wide, MAX_COLUMNS * MAX_ADJACENT_TABLES)), MAX_COLUMNS):
        cells = [[name, *_slice_cells(row, begin, wide)] for name, row in zip(names, figure.rows, strict=True)]
        yield PageTable(cells[0], cells[1:])
    yield from (Paragraph(omission) for omission in list_omissions(figure, wide - MAX_COLUMNS * MAX_ADJACENT_TABLES))


def _slice_cells(row: Sequence[str], begin: int, wide: int) -> list[str]:
    count = min(MAX_COLUMNS, wide - begin)
    cells = list(row[1 + begin : 1 + begin + count])
    return cells + [""] * (count - len(cells))


def list_omissions(figure: Figure, columns: int = 0) -> list[str]:
    rows = [f"… and {figure.more} more rows."] if figure.more > 0 else []
    return [*rows, *([f"… and {columns} more columns."] if columns > 0 else [])]
