"""How fast hosts are at each message size, as an image: what the model reaches as a band, each slow host by name, the rest as thin lines."""

from collections.abc import Sequence
from math import log2
from typing import Final

from bot.pictures import palette
from bot.pictures.canvas import Canvas, Kind, width_of
from tools.bandwidth import JUDGED, LEAST, BandwidthCurve, Bandwidths, in_words, size_in_words
from tools.inventory.ranges import fold

TITLE: Final = "All-reduce bus bandwidth by message size"
NAMED, FAINT, BANDS, MOST_SIZES = 8, 120, 3, 64
"""Hosts with a name of their own, others as thin lines, bands of models, and points of a line."""
LEFT, TOP, WIDE, TALL, NAMES = 62, 66, 520, 300, 250
STEP, LABEL_STEP = 18, 13
DASHES: Final = ("", "7 3", "2 3", "9 3 2 3")
"""Beside its colour each line has a stroke of its own."""
NOTHING: Final = "Nothing was measured, so there is nothing to draw."


def picture(all_of: Bandwidths, kind: Kind = "png") -> bytes:
    """The image; what is drawn is bounded."""
    sheet = Canvas(LEFT + WIDE + NAMES, TOP + TALL + 62, TITLE, in_words(all_of) or NOTHING)
    sheet.write(20, 28, f"{TITLE}, GB/s", size=15)
    sheet.write(20, 47, _notes(all_of), size=10, fill=palette.FAINT, room=sheet.width - 40)
    if not all_of.curves:
        sheet.write(20, 84, NOTHING, size=12)
        sheet.height = 108
        return sheet.drawn(kind)
    plot = _Plot(sheet, all_of)
    plot.grid()
    plot.bands()
    named = all_of.telling(NAMED)
    for row in [row for row in all_of.curves if row not in named][:FAINT]:
        plot.thin(row)
    plot.named(named)
    return sheet.drawn(kind)


def _notes(all_of: Bandwidths) -> str:
    named = all_of.telling(NAMED)
    rest = [row for row in all_of.curves if row not in named]
    slow = sum(row.slow for row in rest)
    parts = (
        f"{slow} slow hosts more as thin red lines, named in the table" if slow else "",
        f"{len(rest) - slow} faster hosts as thin lines" if len(rest) > slow else "",
        f"{len(rest) - FAINT} of them not drawn" if len(rest) > FAINT else "",
        f"bands of {len(all_of.bands) - BANDS} models more in the table" if len(all_of.bands) > BANDS else "",
        f"not measured: {fold(all_of.blind)}" if all_of.blind else "",
        "what the model reaches is not written down" if all_of.curves and not all_of.bands else "",
    )
    return "; ".join(part for part in parts if part)


class _Plot:
    """The axes of one picture: sizes double from left to right."""

    def __init__(self, sheet: Canvas, all_of: Bandwidths) -> None:
        self._sheet, self._all = sheet, all_of
        sizes = all_of.sizes
        self._low, self._high = log2(sizes[0]), log2(sizes[-1])
        most = max([*(row.best for row in all_of.curves), *all_of.bands, 1.0])
        self._step = _round_step(most)
        self._top = self._step * (int(most / self._step) + 1)

    def _x(self, size: float) -> float:
        reach = self._high - self._low
        return LEFT + 14 + (WIDE - 28) * ((log2(size) - self._low) / reach if reach else 1.0)

    def _y(self, speed: float) -> float:
        return TOP + TALL * (1 - speed / self._top)

    def grid(self) -> None:
        """Lines at round speeds, and sizes below."""
        for number in range(int(self._top / self._step) + 1):
            y = self._y(number * self._step)
            self._sheet.path(((LEFT, y), (LEFT + WIDE, y)), palette.UNKNOWN)
            self._sheet.write(LEFT - 8, y + 4, f"{number * self._step:g}", size=10, fill=palette.FAINT, anchor="end")
        last = float("-inf")
        for size in self._all.sizes:
            if (x := self._x(size)) - last >= 48:
                self._sheet.path(((x, TOP + TALL), (x, TOP + TALL + 4)), palette.FRAME)
                self._sheet.write(x, TOP + TALL + 18, size_in_words(size), size=10, fill=palette.FAINT, anchor="middle")
                last = x
        self._sheet.write(LEFT + WIDE / 2, TOP + TALL + 40, "size of a message", size=10, fill=palette.FAINT, anchor="middle")

    def bands(self) -> None:
        """What a model reaches, and the least of it that is well: from the size on from which it counts."""
        begin = self._x(max(JUDGED, self._all.sizes[0])) if self._all.sizes[-1] >= JUDGED else LEFT + WIDE
        bands = self._all.bands[:BANDS]
        for band in bands:
            top, low = self._y(band), self._y(LEAST * band)
            self._sheet.box(begin - 8, top, LEFT + WIDE - begin + 8, low - top, palette.UNKNOWN)
        for band in bands:
            self._sheet.path(((LEFT, self._y(band)), (LEFT + WIDE, self._y(band))), palette.GOOD, width=1.5, dashes="6 4")
            low = self._y(LEAST * band)
            self._sheet.path(((begin - 8, low), (LEFT + WIDE, low)), palette.BAD, width=1.5, dashes="2 4")
        self._labels(bands)

    def _labels(self, bands: Sequence[float]) -> None:
        """What the lines of the bands are: one below the other, on the picture's ground, whatever lies below them."""
        says = [(band, f"{'the' if number == 0 else 'another'} model reaches {band:g}", palette.GOOD) for number, band in enumerate(bands)]
        says += [(LEAST * band, f"slow below {LEAST * band:g} in large messages", palette.BAD) for band in bands]
        says.sort(reverse=True)
        places = _apart([self._y(speed) - 5 for speed, _, _ in says], TOP + 8, TOP + TALL, LABEL_STEP)
        for (_, words, colour), place in zip(says, places, strict=True):
            self._sheet.box(LEFT + 3, place - 9, width_of(words, 10) + 6, 12, palette.GROUND)
            self._sheet.write(LEFT + 6, place, words, size=10, fill=colour)

    def thin(self, row: BandwidthCurve) -> None:
        """A host that is told by its line alone."""
        self._sheet.path(self._points(row), palette.BAD if row.slow else palette.FRAME, width=0.7)

    def named(self, rows: Sequence[BandwidthCurve]) -> None:
        """The others, each line with its host at its end; names do not cover one another."""
        ends = sorted((self._points(row)[-1][1], number) for number, row in enumerate(rows))
        places = _apart([y for y, _ in ends], TOP + 4, TOP + TALL, STEP)
        for (y, number), place in zip(ends, places, strict=True):
            row, points = rows[number], self._points(rows[number])
            lines = palette.LINES
            colour = palette.BAD if row.slow else lines[number % len(lines)]
            self._sheet.path(points, colour, width=2.4 if row.slow else 1.6, dashes=DASHES[number % len(DASHES)] if len(points) > 1 else "")
            for x, dot in points:
                self._sheet.dot(x, dot, 3, colour)
            self._sheet.path(((points[-1][0] + 5, y), (LEFT + WIDE + 8, place - 4)), colour, width=0.7)
            speed = f"{'✗ slow ' if row.slow else ''}{row.best:.4g}"  # apart from the name, which may read from right to left
            wide = width_of(speed, 11) + 6
            self._sheet.write(LEFT + WIDE + 12, place, speed, size=11, fill=colour)
            self._sheet.write(LEFT + WIDE + 12 + wide, place, row.host, size=11, fill=colour, room=NAMES - 24 - wide)

    def _points(self, row: BandwidthCurve) -> list[tuple[float, float]]:
        kept = row.points[-MOST_SIZES:]
        return [(self._x(size), self._y(speed)) for size, speed in kept]


def _round_step(most: float) -> float:
    """Between lines of the grid: 1, 2 or 5 of a power of ten, some five of them."""
    power = 1.0
    while power * 50 <= most:
        power *= 10
    return next(step * power for step in (0.2, 0.5, 1, 2, 5, 10, 20) if step * power * 6 >= most)


def _apart(wanted: Sequence[float], top: float, low: float, step: float) -> list[float]:
    """Places one below the other, each as near as can be to the one that it wants."""
    places: list[float] = []
    for y in wanted:
        places.append(max(y, places[-1] + step if places else top))
    floor = low
    for at in range(len(places) - 1, -1, -1):
        places[at] = min(places[at], floor)
        floor = places[at] - step
    return places
