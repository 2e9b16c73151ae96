"""Heat map as an image. Each cell shows its number, as colours may look alike."""

from collections.abc import Sequence
from typing import Final

from bot.reports.charts import canvas as palette
from bot.reports.charts.canvas import Canvas, ImageFormat, blend_colours, choose_ink, estimate_text_width, fit_text
from tools.heatmap import Heatmap, summarize_heatmap

MAX_COLUMNS = 40  # columns drawn
MAX_NAME_WIDTH = 260  # width of a name in the margin
MAX_WIDE_COLUMNS = 16  # above it cells and their font are smaller
ROW_HEIGHT = 24
TOP_MARGIN = 62
SMALL_FONT_SIZE = 7.5
FONT_SIZE = 11
EMPTY_TEXT: Final = "Nothing was read, so there is nothing to draw."


def compute_scale(values: Sequence[float]) -> tuple[float, float]:
    """Return the scale's ends, a quarter of the middle value apart or more: small differences look small."""
    if not values:
        return 0.0, 1.0
    low, high = min(values), max(values)
    middle = (low + high) / 2
    reach = max((high - low) / 2, abs(middle) / 8, 0.5)
    return middle - reach, middle + reach


def render_heatmap(heatmap: Heatmap, kind: ImageFormat = "png") -> bytes:
    if not heatmap.list_known_hosts():
        sheet = Canvas(max(420, 40 + estimate_text_width(heatmap.says, 15)), 90, heatmap.says, EMPTY_TEXT)
        sheet.draw_text(20, 28, heatmap.says, size=15)
        sheet.draw_text(20, 60, EMPTY_TEXT)
        return sheet.render(kind)
    hosts, columns = heatmap.list_outlier_hosts(), heatmap.columns[:MAX_COLUMNS]
    cells = [heatmap.get_row(host, columns) for host in hosts]
    low, high = compute_scale([value for row in cells for value in row if value is not None])
    wide = 54 if len(columns) <= MAX_WIDE_COLUMNS else 32
    left_margin = 24 + min(MAX_NAME_WIDTH, max((estimate_text_width(host[:80], FONT_SIZE) for host in hosts), default=0))
    head = 14 + 0.72 * min(MAX_NAME_WIDTH / 2, max(estimate_text_width(column[:80], 10) for column in columns))
    notes = f"?: not known{_format_hidden_count(heatmap, hosts)}"
    unit = f", {heatmap.unit}" if heatmap.unit else ""
    width = max(
        left_margin + wide * len(columns) + 130, 40 + estimate_text_width(f"{heatmap.says}{unit}", 15), 40 + estimate_text_width(notes, 10)
    )
    sheet = Canvas(width, TOP_MARGIN + head + ROW_HEIGHT * len(hosts) + 24, heatmap.says, summarize_heatmap(heatmap))
    sheet.draw_text(20, 28, f"{heatmap.says}{unit}", size=15, room=width - 40)
    sheet.draw_text(20, 46, notes, size=10, fill=palette.FAINT, room=width - 40)
    down = TOP_MARGIN + head
    for x, column in enumerate(columns):
        sheet.draw_text(
            left_margin + wide * x + wide / 2 - 4, down - 6, fit_text(column, 10, MAX_NAME_WIDTH / 2), size=10, fill=palette.FAINT, turn=-40
        )
    for y, (host, row) in enumerate(zip(hosts, cells, strict=True)):
        sheet.draw_text(left_margin - 8, down + ROW_HEIGHT * y + 16, host, size=FONT_SIZE, anchor="end", room=left_margin - 16)
        for x, value in enumerate(row):
            _draw_cell(sheet, left_margin + wide * x, down + ROW_HEIGHT * y, wide, value, low, high)
    _draw_scale(sheet, left_margin + wide * len(columns) + 24, down, max(ROW_HEIGHT * len(hosts), 60), low, high)
    sheet.height = max(sheet.height, down + 84)
    return sheet.render(kind)


def _format_hidden_count(heatmap: Heatmap, hosts: Sequence[str]) -> str:
    hidden = len(heatmap.list_known_hosts()) - len(hosts)
    return f"; {hidden} hosts nearer the median are not shown" if hidden > 0 else ""


def _draw_cell(canvas: Canvas, x: float, y: float, wide: float, value: float | None, low: float, high: float) -> None:
    colour = palette.UNKNOWN if value is None else blend_colours(palette.HEAT_SCALE, (value - low) / (high - low))
    words = "?" if value is None else f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}" if abs(value) < 10**6 else f"{value:.1e}"
    canvas.draw_box(x, y, wide - 2, ROW_HEIGHT - 2, colour, round_by=2)
    ink = palette.INK if value is None else choose_ink(colour)
    canvas.draw_text(
        x + wide / 2 - 1, y + 15, words, size=FONT_SIZE if wide > 40 and len(words) < 7 else SMALL_FONT_SIZE, fill=ink, anchor="middle"
    )


def _draw_scale(canvas: Canvas, x: float, y: float, tall: float, low: float, high: float) -> None:
    steps = 24
    for step in range(steps):
        canvas.draw_box(x, y + tall * step / steps, 14, tall / steps + 0.6, blend_colours(palette.HEAT_SCALE, 1 - step / (steps - 1)))
    for part in (0.0, 0.5, 1.0):
        canvas.draw_text(
            x + 20, y + tall * (1 - part) + (9 if part == 1 else 0 if part == 0 else 4), f"{low + part * (high - low):.4g}", size=10
        )
