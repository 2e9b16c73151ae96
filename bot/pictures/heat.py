"""A heat map as an image. Each cell says its number, so that nothing depends on telling colours apart."""

from collections.abc import Sequence
from typing import Final

from bot.pictures import palette
from bot.pictures.canvas import Canvas, Kind, fitting, width_of
from bot.pictures.palette import blended, ink_on
from tools.heat import Heat, in_words

MOST_COLUMNS, NAME = 40, 260
"""Columns that are drawn, and how wide a name in the margin may be."""
PICTURED = 16
"""Columns up to which cells say their numbers in the usual size."""
ROW, TOP, SMALL, USUAL = 24, 62, 7.5, 11
NOTHING: Final = "Nothing was read, so there is nothing to draw."


def scale(values: Sequence[float]) -> tuple[float, float]:
    """Where the colours begin and end: at least a quarter of the middle value apart, so that small differences look small."""
    if not values:
        return 0.0, 1.0
    low, high = min(values), max(values)
    middle = (low + high) / 2
    reach = max((high - low) / 2, abs(middle) / 8, 0.5)
    return middle - reach, middle + reach


def picture(heat: Heat, kind: Kind = "png") -> bytes:
    """The image; what is drawn is bounded."""
    if not heat.known():
        sheet = Canvas(max(420, 40 + width_of(heat.says, 15)), 90, heat.says, NOTHING)
        sheet.write(20, 28, heat.says, size=15)
        sheet.write(20, 60, NOTHING)
        return sheet.drawn(kind)
    hosts, columns = heat.telling(), heat.columns[:MOST_COLUMNS]
    cells = [heat.row(host, columns) for host in hosts]
    low, high = scale([value for row in cells for value in row if value is not None])
    wide = 54 if len(columns) <= PICTURED else 32
    left = 24 + min(NAME, max((width_of(host[:80], USUAL) for host in hosts), default=0))
    head = 14 + 0.72 * min(NAME / 2, max(width_of(column[:80], 10) for column in columns))
    notes = f"?: not known{_hidden(heat, hosts)}"
    unit = f", {heat.unit}" if heat.unit else ""
    width = max(left + wide * len(columns) + 130, 40 + width_of(f"{heat.says}{unit}", 15), 40 + width_of(notes, 10))
    sheet = Canvas(width, TOP + head + ROW * len(hosts) + 24, heat.says, in_words(heat))
    sheet.write(20, 28, f"{heat.says}{unit}", size=15, room=width - 40)
    sheet.write(20, 46, notes, size=10, fill=palette.FAINT, room=width - 40)
    down = TOP + head
    for x, column in enumerate(columns):
        sheet.write(left + wide * x + wide / 2 - 4, down - 6, fitting(column, 10, NAME / 2), size=10, fill=palette.FAINT, turn=-40)
    for y, (host, row) in enumerate(zip(hosts, cells, strict=True)):
        sheet.write(left - 8, down + ROW * y + 16, host, size=USUAL, anchor="end", room=left - 16)
        for x, value in enumerate(row):
            _cell(sheet, left + wide * x, down + ROW * y, wide, value, low, high)
    _scale(sheet, left + wide * len(columns) + 24, down, max(ROW * len(hosts), 60), low, high)
    sheet.height = max(sheet.height, down + 84)
    return sheet.drawn(kind)


def _hidden(heat: Heat, hosts: Sequence[str]) -> str:
    hidden = len(heat.known()) - len(hosts)
    return f"; {hidden} hosts nearer the median are not shown" if hidden > 0 else ""


def _cell(sheet: Canvas, x: float, y: float, wide: float, value: float | None, low: float, high: float) -> None:
    colour = palette.UNKNOWN if value is None else blended(palette.HEAT, (value - low) / (high - low))
    words = "?" if value is None else f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}" if abs(value) < 10**6 else f"{value:.1e}"
    sheet.box(x, y, wide - 2, ROW - 2, colour, round_by=2)
    ink = palette.INK if value is None else ink_on(colour)
    sheet.write(x + wide / 2 - 1, y + 15, words, size=USUAL if wide > 40 and len(words) < 7 else SMALL, fill=ink, anchor="middle")


def _scale(sheet: Canvas, x: float, y: float, tall: float, low: float, high: float) -> None:
    steps = 24
    for step in range(steps):
        sheet.box(x, y + tall * step / steps, 14, tall / steps + 0.6, blended(palette.HEAT, 1 - step / (steps - 1)))
    for part in (0.0, 0.5, 1.0):
        sheet.write(
            x + 20, y + tall * (1 - part) + (9 if part == 1 else 0 if part == 0 else 4), f"{low + part * (high - low):.4g}", size=10
        )
