"""A number of every GPU as a heat map, hosts × GPUs: a picture and a table. What is not known is drawn as not known, never as zero."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from rich.table import Table
from rich.text import Text

from bot.terminal.requests import picture_kind
from kb.keys import find
from tools.fact import Fact, Status
from tools.inventory.ranges import fold

MOST_ROWS = 40
"""Hosts that the terminal shows: those that stand out most."""


@dataclass(slots=True)
class Heat:
    """The values of one key. GPUs are columns, in the order of their numbers."""

    key: str
    hosts: Sequence[str]
    _values: dict[tuple[str, str], float] = field(default_factory=dict)

    def add(self, facts: Iterable[Fact]) -> None:
        """Take what these facts say of the key; where several do, the largest counts."""
        for fact in facts:
            if fact.key == self.key and fact.status is Status.OK and not fact.stale and isinstance(fact.value, (int, float)):
                place = (fact.host, fact.device or "")
                self._values[place] = max(float(fact.value), self._values.get(place, float("-inf")))

    @property
    def gpus(self) -> list[str]:
        """The columns."""
        return sorted({gpu for _, gpu in self._values}, key=lambda gpu: (len(gpu), gpu))

    @property
    def unit(self) -> str:
        row = find(self.key)
        return row.unit if row else ""

    def row(self, host: str) -> list[float | None]:
        """One host's values; None where nothing is known."""
        return [self._values.get((host, gpu)) for gpu in self.gpus]

    def spread(self) -> tuple[float, float, float] | None:
        """Least, median and largest value; None where nothing is known."""
        known = list(self._values.values())
        return (min(known), median(known), max(known)) if known else None


def heat_table(heat: Heat) -> Table:
    """The map in the terminal: the hosts farthest from the median, coloured from blue over the median to red."""
    spread = heat.spread()
    if spread is None:
        return Table("host", title=f"{heat.key}: no value was read", caption=f"no value: {fold(heat.hosts)}", title_justify="left")
    low, middle, high = spread
    gpus = heat.gpus
    rows = {host: heat.row(host) for host in heat.hosts}
    known = {host: row for host, row in rows.items() if any(value is not None for value in row)}
    shown = sorted(known, key=lambda host: -max(abs(value - middle) for value in known[host] if value is not None))[:MOST_ROWS]
    unit = f" {heat.unit}" if heat.unit else ""
    title = f"{heat.key}{unit}: {low:g} to {high:g}, median {middle:g}"
    rest = [host for host in known if host not in set(shown)]
    blind = [host for host in heat.hosts if host not in known]
    notes = ([f"nearer the median: {fold(rest)}"] if rest else []) + ([f"no value: {fold(blind)}"] if blind else [])
    table = Table("host", *gpus, title=title, caption="\n".join(notes) or None, title_justify="left", caption_justify="left")
    for host in sorted(shown, key=list(heat.hosts).index):
        table.add_row(host, *(_cell(value, low, high) for value in known[host]))
    return table


def _cell(value: float | None, low: float, high: float) -> Text:
    if value is None:
        return Text("?", style="dim")
    part = (value - low) / (high - low) if high > low else 0.0
    red, blue = round(90 + 165 * part), round(255 - 175 * part)
    return Text(f"{value:g}", style=f"rgb({red},{round(200 - 110 * part)},{blue})" + (" bold" if part > 0.8 else ""))


def scale(values: Sequence[float]) -> tuple[float, float]:
    """Where the colours begin and end: at least a quarter of the middle value apart, so that small differences look small."""
    if not values:
        return 0.0, 1.0
    low, high = min(values), max(values)
    middle = (low + high) / 2
    reach = max((high - low) / 2, abs(middle) / 8, 0.5)
    return middle - reach, middle + reach


def draw(heat: Heat, out: Path) -> None:
    """Write the picture. Matplotlib is slow to import and needed only here."""
    from matplotlib.figure import Figure

    gpus = heat.gpus or ["gpu0"]
    cells = [[float("nan") if value is None else value for value in heat.row(host)] or [float("nan")] for host in heat.hosts]
    height = min(40.0, max(2.5, 0.22 * len(heat.hosts) + 1.4))
    figure = Figure(figsize=(3.2 + 0.55 * len(gpus), height), layout="constrained")
    axes = figure.subplots()
    axes.set_facecolor("#bbbbbb")
    low, high = scale([value for host in heat.hosts for value in heat.row(host) if value is not None])
    image = axes.imshow(cells, aspect="auto", interpolation="nearest", cmap="viridis", vmin=low, vmax=high)
    axes.set_xticks(range(len(gpus)), gpus, rotation=45)
    step = max(1, len(heat.hosts) // 150)
    axes.set_yticks(range(0, len(heat.hosts), step), heat.hosts[::step], fontsize=7)
    axes.set_title(f"{heat.key}\n(grey: not known)", fontsize=9)
    figure.colorbar(image, ax=axes, label=heat.unit or "count")
    figure.savefig(out, format=picture_kind(out), dpi=120)
