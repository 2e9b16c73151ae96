"""A picture that is still to be drawn: what it is called, what it says in words, its rows, and who draws it. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bot.pictures import bandwidth, heat, timeline, walk
from bot.pictures.canvas import Kind
from bot.pictures.table import as_cells, as_text
from graph.timeline import Timeline
from graph.timeline import in_words as timeline_in_words
from graph.walked import WalkedTree
from graph.walked import in_words as walk_in_words
from tools.bandwidth import Bandwidths
from tools.bandwidth import in_words as bandwidth_in_words
from tools.heat import Heat
from tools.heat import in_words as heat_in_words


@dataclass(frozen=True, slots=True)
class Drawing:
    """`name` is that of its files, without an ending. `words` say in a line what it shows, `rows` all of it, a head first."""

    name: str
    title: str
    words: str
    rows: Sequence[Sequence[str]]
    draw: Callable[[Kind], bytes]
    """Long work: beside the event loop."""

    @property
    def text(self) -> str:
        """The rows, for who cannot see it."""
        return as_text(self.title, self.rows)

    @property
    def cells(self) -> list[list[str]]:
        """As many of the rows as the text shows."""
        return as_cells(self.rows)

    @property
    def more(self) -> int:
        """Rows beyond those."""
        return len(self.rows) - len(self.cells)


def of_heat(row: Heat) -> Drawing:
    """A number of every GPU."""
    words = heat_in_words(row) or heat.NOTHING
    return Drawing(row.key, row.says, words, row.table(), lambda kind: heat.picture(row, kind))


def of_bandwidths(row: Bandwidths) -> Drawing:
    """How fast hosts are at each message size."""
    words = bandwidth_in_words(row) or bandwidth.NOTHING
    return Drawing("bandwidth", bandwidth.TITLE, words, row.table(), lambda kind: bandwidth.picture(row, kind))


def of_walk(row: WalkedTree) -> Drawing:
    """What was looked into."""
    return Drawing("tree", walk.TITLE, walk_in_words(row), row.table(), lambda kind: walk.picture(row, kind))


def of_timeline(row: Timeline) -> Drawing:
    """What happened when."""
    words = timeline_in_words(row) or timeline.NOTHING
    return Drawing("timeline", timeline.TITLE, words, row.table(), lambda kind: timeline.picture(row, kind))
