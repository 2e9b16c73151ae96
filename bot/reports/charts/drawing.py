"""A chart before it is drawn. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bot.reports.charts import bandwidth, heatmap, timeline, walk
from bot.reports.charts.canvas import ImageFormat
from bot.reports.charts.text_table import limit_cells, render_text_table
from graph.search_trace import SearchTree, summarize_search_tree
from graph.timeline import Timeline, summarize_timeline
from tools.bandwidth import Bandwidths, summarize_bandwidths
from tools.heatmap import Heatmap, summarize_heatmap


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
