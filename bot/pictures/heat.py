"""A heat map as an image. Each cell says its number, so that nothing depends on telling colours apart."""

import io
from collections.abc import Sequence
from typing import Literal

from tools.heat import MOST_ROWS, Heat

MOST_COLUMNS, NAME = 40, 40
"""Columns that are drawn, and how long a name in the margin may be."""
PICTURED = 16
"""Columns up to which cells say their numbers in the usual size."""


def scale(values: Sequence[float]) -> tuple[float, float]:
    """Where the colours begin and end: at least a quarter of the middle value apart, so that small differences look small."""
    if not values:
        return 0.0, 1.0
    low, high = min(values), max(values)
    middle = (low + high) / 2
    reach = max((high - low) / 2, abs(middle) / 8, 0.5)
    return middle - reach, middle + reach


def picture(heat: Heat, kind: Literal["png", "svg"] = "png") -> bytes:
    """The image. Matplotlib is slow to import and needed only here; what it draws is bounded."""
    from matplotlib.figure import Figure

    hosts, columns = heat.telling() or list(heat.hosts[:MOST_ROWS]), heat.columns[:MOST_COLUMNS] or ["gpu0"]
    cells = [[float("nan") if value is None else value for value in heat.row(host, columns)] for host in hosts]
    rows, tops = [_name(host) for host in hosts], [_name(column) for column in columns]
    left, below = 0.3 + 0.075 * max(map(len, rows)), 0.35 + 0.06 * max(map(len, tops))
    wide, tall = left + max(2.4, 0.55 * len(columns)) + 1.1, 0.6 + max(0.6, 0.3 * len(hosts)) + below
    figure = Figure(figsize=(wide, tall))
    axes = figure.add_axes((left / wide, below / tall, (wide - left - 1.1) / wide, 1 - (0.6 + below) / tall))
    axes.set_facecolor("#bbbbbb")
    low, high = scale([value for row in cells for value in row if value == value])  # nan is not itself
    image = axes.imshow(cells, aspect="auto", interpolation="nearest", cmap="viridis", vmin=low, vmax=high)
    axes.set_xticks(range(len(columns)), tops, rotation=45, fontsize=8)
    axes.set_yticks(range(len(hosts)), rows, fontsize=8)
    hidden = len(heat.known()) - len(hosts)
    more = f"; {hidden} hosts nearer the median are not shown" if hidden > 0 else ""
    axes.set_title(f"{_plain(heat.says)}{f', {heat.unit}' if heat.unit else ''}\n(?: not known{more})", fontsize=9)
    for y, row in enumerate(cells):
        for x, value in enumerate(row):
            dark = value == value and value < (low + high) / 2
            words = f"{value:.3g}" if value == value and abs(value) < 1000 else f"{value:.0f}" if value == value else "?"
            axes.text(
                x, y, words, ha="center", va="center", fontsize=8 if len(columns) <= PICTURED else 5, color="white" if dark else "black"
            )
    beside = figure.add_axes(((wide - 0.95) / wide, below / tall, 0.15 / wide, 1 - (0.6 + below) / tall))
    figure.colorbar(image, cax=beside, label=heat.unit or "count")
    drawn = io.BytesIO()
    figure.savefig(drawn, format=kind, dpi=120)
    return drawn.getvalue()


def _name(name: str) -> str:
    return _plain(name if len(name) <= NAME else f"{name[: NAME // 2 - 1]}…{name[-NAME // 2 :]}")


def _plain(text: str) -> str:
    """Words as they are: a dollar would begin a formula, and of letters that a font may lack only a question mark is left."""
    return "".join(char if char.isprintable() and (char < "\u0250" or char == "…") else "?" for char in text).replace("$", r"\$")
