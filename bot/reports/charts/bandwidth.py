"""Chart of all-reduce bandwidth by message size: expected band, named slow hosts, thin lines."""

from collections.abc import Sequence
from math import log2
from typing import Final

from bot.reports.charts import canvas as palette
from bot.reports.charts.canvas import Canvas, ImageFormat, estimate_text_width
from tools.bandwidth import MIN_BANDWIDTH_RATIO, MIN_JUDGED_BYTES, BandwidthCurve, Bandwidths, format_size, summarize_bandwidths
from tools.inventory.host_ranges import fold_host_names

TITLE: Final = "All-reduce bus bandwidth by message size"
MAX_NAMED_HOSTS = 8  # named hosts
MAX_THIN_LINES = 120  # thin lines
MAX_BANDS = 3  # bands of models
MAX_SIZES = 64  # points per line
PLOT_LEFT = 62
PLOT_TOP = 66
PLOT_WIDTH = 520
PLOT_HEIGHT = 300
NAMES_WIDTH = 250
NAME_STEP = 18
LABEL_STEP = 13
DASH_PATTERNS: Final = ("", "7 3", "2 3", "9 3 2 3")  # lines differ by stroke as well as by colour
EMPTY_TEXT: Final = "Nothing was measured, so there is nothing to draw."


def render_bandwidth_chart(all_of: Bandwidths, kind: ImageFormat = "png") -> bytes:
    sheet = Canvas(PLOT_LEFT + PLOT_WIDTH + NAMES_WIDTH, PLOT_TOP + PLOT_HEIGHT + 62, TITLE, summarize_bandwidths(all_of) or EMPTY_TEXT)
    sheet.draw_text(20, 28, f"{TITLE}, GB/s", size=15)
    sheet.draw_text(20, 47, _format_notes(all_of), size=10, fill=palette.FAINT, room=sheet.width - 40)
    if not all_of.curves:
        sheet.draw_text(20, 84, EMPTY_TEXT, size=12)
        sheet.height = 108
        return sheet.render(kind)
    plot = _Plot(sheet, all_of)
    plot.draw_grid()
    plot.draw_bands()
    slowest = all_of.select_slowest(MAX_NAMED_HOSTS)
    for row in [row for row in all_of.curves if row not in slowest][:MAX_THIN_LINES]:
        plot.draw_thin_line(row)
    plot.draw_named_lines(slowest)
    return sheet.render(kind)


def _format_notes(all_of: Bandwidths) -> str:
    slowest = all_of.select_slowest(MAX_NAMED_HOSTS)
    rest = [row for row in all_of.curves if row not in slowest]
    slow = sum(row.is_slow for row in rest)
    parts = (
        f"{slow} slow hosts more as thin red lines, named in the table" if slow else "",
        f"{len(rest) - slow} faster hosts as thin lines" if len(rest) > slow else "",
        f"{len(rest) - MAX_THIN_LINES} of them not drawn" if len(rest) > MAX_THIN_LINES else "",
        f"bands of {len(all_of.bands) - MAX_BANDS} models more in the table" if len(all_of.bands) > MAX_BANDS else "",
        f"not measured: {fold_host_names(all_of.blind)}" if all_of.blind else "",
        "what the model reaches is not written down" if all_of.curves and not all_of.bands else "",
    )
    return "; ".join(part for part in parts if part)


class _Plot:
    """Axes with a logarithmic message size."""

    def __init__(self, canvas: Canvas, all_of: Bandwidths) -> None:
        self._sheet, self._all = canvas, all_of
        sizes = all_of.sizes
        self._low, self._high = log2(sizes[0]), log2(sizes[-1])
        most = max([*(row.best for row in all_of.curves), *all_of.bands, 1.0])
        self._step = _choose_grid_step(most)
        self._top = self._step * (int(most / self._step) + 1)

    def _scale_x(self, size: float) -> float:
        reach = self._high - self._low
        return PLOT_LEFT + 14 + (PLOT_WIDTH - 28) * ((log2(size) - self._low) / reach if reach else 1.0)

    def _scale_y(self, speed: float) -> float:
        return PLOT_TOP + PLOT_HEIGHT * (1 - speed / self._top)

    def draw_grid(self) -> None:
        for number in range(int(self._top / self._step) + 1):
            y = self._scale_y(number * self._step)
            self._sheet.draw_path(((PLOT_LEFT, y), (PLOT_LEFT + PLOT_WIDTH, y)), palette.UNKNOWN)
            self._sheet.draw_text(PLOT_LEFT - 8, y + 4, f"{number * self._step:g}", size=10, fill=palette.FAINT, anchor="end")
        last = float("-inf")
        for size in self._all.sizes:
            if (x := self._scale_x(size)) - last >= 48:
                self._sheet.draw_path(((x, PLOT_TOP + PLOT_HEIGHT), (x, PLOT_TOP + PLOT_HEIGHT + 4)), palette.FRAME)
                self._sheet.draw_text(x, PLOT_TOP + PLOT_HEIGHT + 18, format_size(size), size=10, fill=palette.FAINT, anchor="middle")
                last = x
        self._sheet.draw_text(
            PLOT_LEFT + PLOT_WIDTH / 2, PLOT_TOP + PLOT_HEIGHT + 40, "size of a message", size=10, fill=palette.FAINT, anchor="middle"
        )

    def draw_bands(self) -> None:
        """Draw the expected bandwidth and the least acceptable one, from the size at which it is judged."""
        begin = (
            self._scale_x(max(MIN_JUDGED_BYTES, self._all.sizes[0])) if self._all.sizes[-1] >= MIN_JUDGED_BYTES else PLOT_LEFT + PLOT_WIDTH
        )
        bands = self._all.bands[:MAX_BANDS]
        for band in bands:
            top, low = self._scale_y(band), self._scale_y(MIN_BANDWIDTH_RATIO * band)
            self._sheet.draw_box(begin - 8, top, PLOT_LEFT + PLOT_WIDTH - begin + 8, low - top, palette.UNKNOWN)
        for band in bands:
            self._sheet.draw_path(
                ((PLOT_LEFT, self._scale_y(band)), (PLOT_LEFT + PLOT_WIDTH, self._scale_y(band))), palette.GOOD, width=1.5, dashes="6 4"
            )
            low = self._scale_y(MIN_BANDWIDTH_RATIO * band)
            self._sheet.draw_path(((begin - 8, low), (PLOT_LEFT + PLOT_WIDTH, low)), palette.BAD, width=1.5, dashes="2 4")
        self._draw_labels(bands)

    def _draw_labels(self, bands: Sequence[float]) -> None:
        band_labels = [
            (band, f"{'the' if number == 0 else 'another'} model reaches {band:g}", palette.GOOD) for number, band in enumerate(bands)
        ]
        band_labels += [
            (MIN_BANDWIDTH_RATIO * band, f"slow below {MIN_BANDWIDTH_RATIO * band:g} in large messages", palette.BAD) for band in bands
        ]
        band_labels.sort(reverse=True)
        places = _spread_places([self._scale_y(speed) - 5 for speed, _, _ in band_labels], PLOT_TOP + 8, PLOT_TOP + PLOT_HEIGHT, LABEL_STEP)
        for (_, words, colour), place in zip(band_labels, places, strict=True):
            self._sheet.draw_box(PLOT_LEFT + 3, place - 9, estimate_text_width(words, 10) + 6, 12, palette.BACKGROUND)
            self._sheet.draw_text(PLOT_LEFT + 6, place, words, size=10, fill=colour)

    def draw_thin_line(self, row: BandwidthCurve) -> None:
        self._sheet.draw_path(self._compute_points(row), palette.BAD if row.is_slow else palette.FRAME, width=0.7)

    def draw_named_lines(self, rows: Sequence[BandwidthCurve]) -> None:
        ends = sorted((self._compute_points(row)[-1][1], number) for number, row in enumerate(rows))
        places = _spread_places([y for y, _ in ends], PLOT_TOP + 4, PLOT_TOP + PLOT_HEIGHT, NAME_STEP)
        for (y, number), place in zip(ends, places, strict=True):
            row, points = rows[number], self._compute_points(rows[number])
            lines = palette.LINES
            colour = palette.BAD if row.is_slow else lines[number % len(lines)]
            self._sheet.draw_path(
                points,
                colour,
                width=2.4 if row.is_slow else 1.6,
                dashes=DASH_PATTERNS[number % len(DASH_PATTERNS)] if len(points) > 1 else "",
            )
            for x, dot in points:
                self._sheet.draw_dot(x, dot, 3, colour)
            self._sheet.draw_path(((points[-1][0] + 5, y), (PLOT_LEFT + PLOT_WIDTH + 8, place - 4)), colour, width=0.7)
            speed = f"{'✗ slow ' if row.is_slow else ''}{row.best:.4g}"  # drawn apart from the name, which may be right-to-left
            wide = estimate_text_width(speed, 11) + 6
            self._sheet.draw_text(PLOT_LEFT + PLOT_WIDTH + 12, place, speed, size=11, fill=colour)
            self._sheet.draw_text(PLOT_LEFT + PLOT_WIDTH + 12 + wide, place, row.host, size=11, fill=colour, room=NAMES_WIDTH - 24 - wide)

    def _compute_points(self, row: BandwidthCurve) -> list[tuple[float, float]]:
        points = row.points[-MAX_SIZES:]
        return [(self._scale_x(size), self._scale_y(speed)) for size, speed in points]


def _choose_grid_step(most: float) -> float:
    """Return 1, 2 or 5 times a power of ten, for about five lines."""
    power = 1.0
    while power * 50 <= most:
        power *= 10
    return next(step * power for step in (0.2, 0.5, 1, 2, 5, 10, 20) if step * power * 6 >= most)


def _spread_places(wanted: Sequence[float], top: float, low: float, step: float) -> list[float]:
    """Return non-overlapping positions near the wanted ones."""
    places: list[float] = []
    for y in wanted:
        places.append(max(y, places[-1] + step if places else top))
    floor = low
    for at in range(len(places) - 1, -1, -1):
        places[at] = min(places[at], floor)
        floor = places[at] - step
    return places
