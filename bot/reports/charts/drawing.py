"""A chart before it is drawn. Pure."""

import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bot.reports.charts import bandwidth, heatmap, timeline, walk
from bot.reports.charts.canvas import ImageFormat
from graph.search_trace import SearchTree, summarize_search_tree
from graph.timeline import Timeline, summarize_timeline
from kb.redact import show_invisible
from tools.bandwidth import Bandwidths, summarize_bandwidths
from tools.heatmap import Heatmap, summarize_heatmap

# The rows of a chart as monospace text.

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


@dataclass(frozen=True, slots=True)
class Drawing:
    """`name`: file name without suffix; `words`: a one-line description; `rows`: all data with a header."""

    name: str
    title: str
    words: str
    rows: Sequence[Sequence[str]]
    draw: Callable[[ImageFormat], bytes]  # slow: call outside the event loop

    @property
    def text(self) -> str:
        return render_text_table(self.title, self.rows)

    @property
    def cells(self) -> list[list[str]]:
        """Rows that the text shows."""
        return limit_cells(self.rows)

    @property
    def more(self) -> int:
        """Number of rows beyond."""
        return len(self.rows) - len(self.cells)


def build_heatmap_drawing(row: Heatmap) -> Drawing:
    words = summarize_heatmap(row) or heatmap.EMPTY_TEXT
    return Drawing(row.key, row.says, words, row.build_table(), lambda kind: heatmap.render_heatmap(row, kind))


def build_bandwidth_drawing(row: Bandwidths) -> Drawing:
    words = summarize_bandwidths(row) or bandwidth.EMPTY_TEXT
    return Drawing("bandwidth", bandwidth.TITLE, words, row.build_table(), lambda kind: bandwidth.render_bandwidth_chart(row, kind))


def build_trace_drawing(row: SearchTree) -> Drawing:
    return Drawing("tree", walk.TITLE, summarize_search_tree(row), row.to_table(), lambda kind: walk.render_trace_chart(row, kind))


def build_timeline_drawing(row: Timeline) -> Drawing:
    words = summarize_timeline(row) or timeline.EMPTY_TEXT
    return Drawing("timeline", timeline.TITLE, words, row.to_table(), lambda kind: timeline.render_timeline_chart(row, kind))
