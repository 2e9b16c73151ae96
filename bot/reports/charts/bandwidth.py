"""Chart of all-reduce bandwidth by message size: the expected band, the slowest hosts by name, the others as thin lines."""

from collections.abc import Sequence
from math import log2
from typing import Final

from bot.reports.charts import canvas as palette
from bot.reports.charts.canvas import Canvas, ImageFormat, estimate_text_width
from tools.bandwidth import MIN_BANDWIDTH_RATIO, MIN_JUDGED_BYTES, BandwidthCurve, Bandwidths, format_size, summarize_bandwidths
from tools.inventory.host_ranges import fold_host_names

TITLE: Final = "All-reduce bus bandwidth by message size"
MAX_NAMED_HOSTS = 8
MAX_THIN_LINES = 120
MAX_BANDS = 3  # expected bands, one for each GPU model
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


def render_bandwidth_chart(bandwidths: Bandwidths, kind: ImageFormat = "png") -> bytes:
    canvas = Canvas(
        PLOT_LEFT + PLOT_WIDTH + NAMES_WIDTH, PLOT_TOP + PLOT_HEIGHT + 62, TITLE, summarize_bandwidths(bandwidths) or EMPTY_TEXT
    )
    canvas.draw_text(20, 28, f"{TITLE}, GB/s", size=15)
    canvas.draw_text(20, 47, _format_notes(bandwidths), size=10, fill=palette.FAINT, room=canvas.width - 40)
    if not bandwidths.curves:
        canvas.draw_text(20, 84, EMPTY_TEXT, size=12)
        canvas.height = 108
        return canvas.render(kind)
    plot = _Plot(canvas, bandwidths)
    plot.draw_grid()
    plot.draw_bands()
    slowest = bandwidths.select_slowest(MAX_NAMED_HOSTS)
    other_curves = [curve for curve in bandwidths.curves if curve not in slowest]
    for curve in other_curves[:MAX_THIN_LINES]:
        plot.draw_thin_line(curve)
    plot.draw_named_lines(slowest)
    return canvas.render(kind)


def _format_notes(bandwidths: Bandwidths) -> str:
    slowest = bandwidths.select_slowest(MAX_NAMED_HOSTS)
    unnamed = [curve for curve in bandwidths.curves if curve not in slowest]
    slow_count = sum(curve.is_slow for curve in unnamed)
    fast_count = len(unnamed) - slow_count
    notes = (
        f"{slow_count} slow hosts more as thin red lines, named in the table" if slow_count else "",
        f"{fast_count} faster hosts as thin lines" if fast_count else "",
        f"{len(unnamed) - MAX_THIN_LINES} of them not drawn" if len(unnamed) > MAX_THIN_LINES else "",
        f"bands of {len(bandwidths.bands) - MAX_BANDS} models more in the table" if len(bandwidths.bands) > MAX_BANDS else "",
        f"not measured: {fold_host_names(bandwidths.blind)}" if bandwidths.blind else "",
        "what the model reaches is not written down" if bandwidths.curves and not bandwidths.bands else "",
    )
    return "; ".join(note for note in notes if note)


class _Plot:
    """The plot area. Its x axis is the logarithm of the message size."""

    def __init__(self, canvas: Canvas, bandwidths: Bandwidths) -> None:
        self._canvas = canvas
        self._bandwidths = bandwidths
        sizes = bandwidths.sizes
        self._low = log2(sizes[0])
        self._high = log2(sizes[-1])
        highest = max([*(curve.best for curve in bandwidths.curves), *bandwidths.bands, 1.0])
        self._step = _choose_grid_step(highest)
        self._top = self._step * (int(highest / self._step) + 1)

    def _scale_x(self, size: float) -> float:
        span = self._high - self._low
        position = (log2(size) - self._low) / span if span else 1.0
        return PLOT_LEFT + 14 + (PLOT_WIDTH - 28) * position

    def _scale_y(self, speed: float) -> float:
        return PLOT_TOP + PLOT_HEIGHT * (1 - speed / self._top)

    def draw_grid(self) -> None:
        for number in range(int(self._top / self._step) + 1):
            y = self._scale_y(number * self._step)
            self._canvas.draw_path(((PLOT_LEFT, y), (PLOT_LEFT + PLOT_WIDTH, y)), palette.UNKNOWN)
            self._canvas.draw_text(PLOT_LEFT - 8, y + 4, f"{number * self._step:g}", size=10, fill=palette.FAINT, anchor="end")
        last_x = float("-inf")
        for size in self._bandwidths.sizes:
            if (x := self._scale_x(size)) - last_x >= 48:
                self._canvas.draw_path(((x, PLOT_TOP + PLOT_HEIGHT), (x, PLOT_TOP + PLOT_HEIGHT + 4)), palette.FRAME)
                self._canvas.draw_text(x, PLOT_TOP + PLOT_HEIGHT + 18, format_size(size), size=10, fill=palette.FAINT, anchor="middle")
                last_x = x
        self._canvas.draw_text(
            PLOT_LEFT + PLOT_WIDTH / 2, PLOT_TOP + PLOT_HEIGHT + 40, "size of a message", size=10, fill=palette.FAINT, anchor="middle"
        )

    def draw_bands(self) -> None:
        """Draw the expected bandwidth and the least acceptable one, from the size at which it is judged."""
        right = PLOT_LEFT + PLOT_WIDTH
        sizes = self._bandwidths.sizes
        left = self._scale_x(max(MIN_JUDGED_BYTES, sizes[0])) if sizes[-1] >= MIN_JUDGED_BYTES else right
        bands = self._bandwidths.bands[:MAX_BANDS]
        for band in bands:
            top, bottom = self._scale_y(band), self._scale_y(MIN_BANDWIDTH_RATIO * band)
            self._canvas.draw_box(left - 8, top, right - left + 8, bottom - top, palette.UNKNOWN)
        for band in bands:
            top, bottom = self._scale_y(band), self._scale_y(MIN_BANDWIDTH_RATIO * band)
            self._canvas.draw_path(((PLOT_LEFT, top), (right, top)), palette.GOOD, width=1.5, dashes="6 4")
            self._canvas.draw_path(((left - 8, bottom), (right, bottom)), palette.BAD, width=1.5, dashes="2 4")
        self._draw_labels(bands)

    def _draw_labels(self, bands: Sequence[float]) -> None:
        band_labels: list[tuple[float, str, str]] = []
        for number, band in enumerate(bands):
            slow = MIN_BANDWIDTH_RATIO * band
            band_labels.append((band, f"{'another' if number else 'the'} model reaches {band:g}", palette.GOOD))
            band_labels.append((slow, f"slow below {slow:g} in large messages", palette.BAD))
        band_labels.sort(reverse=True)
        places = _spread_places([self._scale_y(speed) - 5 for speed, _, _ in band_labels], PLOT_TOP + 8, PLOT_TOP + PLOT_HEIGHT, LABEL_STEP)
        for (_, text, colour), place in zip(band_labels, places, strict=True):
            self._canvas.draw_box(PLOT_LEFT + 3, place - 9, estimate_text_width(text, 10) + 6, 12, palette.BACKGROUND)
            self._canvas.draw_text(PLOT_LEFT + 6, place, text, size=10, fill=colour)

    def draw_thin_line(self, curve: BandwidthCurve) -> None:
        self._canvas.draw_path(self._compute_points(curve), palette.BAD if curve.is_slow else palette.FRAME, width=0.7)

    def draw_named_lines(self, curves: Sequence[BandwidthCurve]) -> None:
        ends = sorted((self._compute_points(curve)[-1][1], number) for number, curve in enumerate(curves))
        places = _spread_places([y for y, _ in ends], PLOT_TOP + 4, PLOT_TOP + PLOT_HEIGHT, NAME_STEP)
        for (y, number), place in zip(ends, places, strict=True):
            curve, points = curves[number], self._compute_points(curves[number])
            colour = palette.BAD if curve.is_slow else palette.LINES[number % len(palette.LINES)]
            self._canvas.draw_path(
                points,
                colour,
                width=2.4 if curve.is_slow else 1.6,
                dashes=DASH_PATTERNS[number % len(DASH_PATTERNS)] if len(points) > 1 else "",
            )
            for x, dot in points:
                self._canvas.draw_dot(x, dot, 3, colour)
            self._canvas.draw_path(((points[-1][0] + 5, y), (PLOT_LEFT + PLOT_WIDTH + 8, place - 4)), colour, width=0.7)
            speed = f"{'✗ slow ' if curve.is_slow else ''}{curve.best:.4g}"  # drawn apart from the name, which may be right-to-left
            speed_width = estimate_text_width(speed, 11) + 6
            self._canvas.draw_text(PLOT_LEFT + PLOT_WIDTH + 12, place, speed, size=11, fill=colour)
            self._canvas.draw_text(
                PLOT_LEFT + PLOT_WIDTH + 12 + speed_width, place, curve.host, size=11, fill=colour, room=NAMES_WIDTH - 24 - speed_width
            )

    def _compute_points(self, curve: BandwidthCurve) -> list[tuple[float, float]]:
        points = curve.points[-MAX_SIZES:]
        return [(self._scale_x(size), self._scale_y(speed)) for size, speed in points]


def _choose_grid_step(highest: float) -> float:
    """Return a step of 1, 2 or 5 times a power of ten that needs about five grid lines."""
    power = 1.0
    while power * 50 <= highest:
        power *= 10
    steps = (0.2, 0.5, 1, 2, 5, 10, 20)
    return next(step * power for step in steps if step * power * 6 >= highest)


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
