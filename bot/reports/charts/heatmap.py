"""Heat map as an image. Each cell shows its number, as colours may look alike."""

from collections.abc import Sequence
from dataclasses import dataclass
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
NOTES_FONT_SIZE = 10
TITLE_FONT_SIZE = 15
BORDER = 20  # left and right of the texts
BOTTOM_MARGIN = 24
TITLE_Y = 28
NOTES_Y = 46
EMPTY_WIDTH = 420
EMPTY_HEIGHT = 90
EMPTY_TEXT_Y = 60
WIDE_CELL = 54
NARROW_CELL = 32
NAME_GAP = 16  # left and right of a host's name together
MAX_NAME_CHARS = 80  # of a name that are measured
MAX_LARGE_CHARS = 7  # longer numbers are written smaller
COLUMN_TURN = -40  # degrees
SLANTED_HEIGHT = 0.72  # height of a turned name, as a share of its length
SCALE_GAP = 24
SCALE_WIDTH = 130  # of gap, bar and labels
SCALE_BAR_WIDTH = 14
SCALE_STEPS = 24
SCALE_OVERLAP = 0.6  # hides the seams between steps
SCALE_LABELS = ((0.0, 0), (0.5, 4), (1.0, 9))  # part of the scale, and how far below it the label's baseline is
MIN_SCALE_HEIGHT = 60
EMPTY_TEXT: Final = "Nothing was read, so there is nothing to draw."


def compute_scale(values: Sequence[float]) -> tuple[float, float]:
    """Return the scale's ends, a quarter of the middle value apart or more: small differences look small."""
    if not values:
        return 0.0, 1.0
    low, high = min(values), max(values)
    middle = (low + high) / 2
    reach = max((high - low) / 2, abs(middle) / 8, 0.5)
    return middle - reach, middle + reach


@dataclass(frozen=True, slots=True)
class _Layout:
    """Sizes of one heat map. `grid_left` and `grid_top` are the corner of the first cell."""

    width: float
    height: float
    cell_width: float
    grid_left: float
    grid_top: float
    grid_right: float
    scale_height: float


def render_heatmap(heatmap: Heatmap, kind: ImageFormat = "png") -> bytes:
    if not heatmap.list_known_hosts():
        return _draw_empty(heatmap).render(kind)
    hosts, columns = heatmap.list_outlier_hosts(), heatmap.columns[:MAX_COLUMNS]
    rows = [heatmap.get_row(host, columns) for host in hosts]
    low, high = compute_scale([value for row in rows for value in row if value is not None])
    title = f"{heatmap.says}, {heatmap.unit}" if heatmap.unit else heatmap.says
    notes = f"?: not known{_format_hidden_count(heatmap, hosts)}"
    layout = _compute_layout(hosts, columns, title, notes)
    sheet = Canvas(layout.width, layout.height, heatmap.says, summarize_heatmap(heatmap))
    room = layout.width - 2 * BORDER
    sheet.draw_text(BORDER, TITLE_Y, title, size=TITLE_FONT_SIZE, room=room)
    sheet.draw_text(BORDER, NOTES_Y, notes, size=NOTES_FONT_SIZE, fill=palette.FAINT, room=room)
    _draw_column_names(sheet, layout, columns)
    for number, (host, row) in enumerate(zip(hosts, rows, strict=True)):
        top = layout.grid_top + ROW_HEIGHT * number
        sheet.draw_text(layout.grid_left - 8, top + 16, host, size=FONT_SIZE, anchor="end", room=layout.grid_left - NAME_GAP)
        for column, value in enumerate(row):
            _draw_cell(sheet, layout.grid_left + layout.cell_width * column, top, layout.cell_width, value, low, high)
    _draw_scale(sheet, layout.grid_right + SCALE_GAP, layout.grid_top, layout.scale_height, low, high)
    return sheet.render(kind)


def _draw_empty(heatmap: Heatmap) -> Canvas:
    width = max(EMPTY_WIDTH, 2 * BORDER + estimate_text_width(heatmap.says, TITLE_FONT_SIZE))
    sheet = Canvas(width, EMPTY_HEIGHT, heatmap.says, EMPTY_TEXT)
    sheet.draw_text(BORDER, TITLE_Y, heatmap.says, size=TITLE_FONT_SIZE)
    sheet.draw_text(BORDER, EMPTY_TEXT_Y, EMPTY_TEXT)
    return sheet


def _compute_layout(hosts: Sequence[str], columns: Sequence[str], title: str, notes: str) -> _Layout:
    cell_width = WIDE_CELL if len(columns) <= MAX_WIDE_COLUMNS else NARROW_CELL
    host_width = max((estimate_text_width(host[:MAX_NAME_CHARS], FONT_SIZE) for host in hosts), default=0)
    column_width = max(estimate_text_width(column[:MAX_NAME_CHARS], NOTES_FONT_SIZE) for column in columns)
    grid_left = 24 + min(MAX_NAME_WIDTH, host_width)
    grid_right = grid_left + cell_width * len(columns)
    grid_top = TOP_MARGIN + 14 + SLANTED_HEIGHT * min(MAX_NAME_WIDTH / 2, column_width)
    grid_height = ROW_HEIGHT * len(hosts)
    return _Layout(
        width=max(
            grid_right + SCALE_WIDTH,
            2 * BORDER + estimate_text_width(title, TITLE_FONT_SIZE),
            2 * BORDER + estimate_text_width(notes, NOTES_FONT_SIZE),
        ),
        height=grid_top + max(grid_height, MIN_SCALE_HEIGHT) + BOTTOM_MARGIN,
        cell_width=cell_width,
        grid_left=grid_left,
        grid_top=grid_top,
        grid_right=grid_right,
        scale_height=max(grid_height, MIN_SCALE_HEIGHT),
    )


def _draw_column_names(sheet: Canvas, layout: _Layout, columns: Sequence[str]) -> None:
    for number, column in enumerate(columns):
        x = layout.grid_left + layout.cell_width * number + layout.cell_width / 2 - 4
        name = fit_text(column, NOTES_FONT_SIZE, MAX_NAME_WIDTH / 2)
        sheet.draw_text(x, layout.grid_top - 6, name, size=NOTES_FONT_SIZE, fill=palette.FAINT, turn=COLUMN_TURN)


def _format_hidden_count(heatmap: Heatmap, hosts: Sequence[str]) -> str:
    hidden = len(heatmap.list_known_hosts()) - len(hosts)
    return f"; {hidden} hosts nearer the median are not shown" if hidden > 0 else ""


def _draw_cell(sheet: Canvas, x: float, y: float, width: float, value: float | None, low: float, high: float) -> None:
    colour = palette.UNKNOWN if value is None else blend_colours(palette.HEAT_SCALE, (value - low) / (high - low))
    ink = palette.INK if value is None else choose_ink(colour)
    words = _format_value(value)
    size = FONT_SIZE if width > NARROW_CELL and len(words) < MAX_LARGE_CHARS else SMALL_FONT_SIZE
    sheet.draw_box(x, y, width - 2, ROW_HEIGHT - 2, colour, round_by=2)
    sheet.draw_text(x + width / 2 - 1, y + 15, words, size=size, fill=ink, anchor="middle")


def _format_value(value: float | None) -> str:
    if value is None:
        return "?"
    if abs(value) < 1000:
        return f"{value:.3g}"
    return f"{value:.0f}" if abs(value) < 10**6 else f"{value:.1e}"


def _draw_scale(sheet: Canvas, x: float, y: float, height: float, low: float, high: float) -> None:
    step_height = height / SCALE_STEPS
    for step in range(SCALE_STEPS):
        colour = blend_colours(palette.HEAT_SCALE, 1 - step / (SCALE_STEPS - 1))
        sheet.draw_box(x, y + height * step / SCALE_STEPS, SCALE_BAR_WIDTH, step_height + SCALE_OVERLAP, colour)
    for part, baseline_shift in SCALE_LABELS:
        text = f"{low + part * (high - low):.4g}"
        sheet.draw_text(x + SCALE_BAR_WIDTH + 6, y + height * (1 - part) + baseline_shift, text, size=NOTES_FONT_SIZE)
