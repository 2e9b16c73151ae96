"""Chart of labels first seen per month. Few new labels mean that the taxonomy covers the site."""

from collections.abc import Mapping
from typing import Final

from bot.reports.charts import canvas
from bot.reports.charts.canvas import Canvas, ImageFormat

TITLE: Final = "Labels met for the first time"
CHART_WIDTH = 860
CHART_HEIGHT = 280
LEFT_MARGIN = 56
TOP_MARGIN = 56
RIGHT_MARGIN = 24
BOTTOM_MARGIN = 44
BASELINE_Y = CHART_HEIGHT - BOTTOM_MARGIN
BAR_AREA_HEIGHT = BASELINE_Y - TOP_MARGIN
BAR_WIDTH = 0.8  # share of a bar's place
EMPTY_HEIGHT = 90
LABEL_FONT_SIZE = 11
MAX_BARS: Final = 60  # months; longer spans are drawn by year
MAX_BAR_LABELS: Final = 12


def render_new_labels_chart(by_month: Mapping[str, int], kind: ImageFormat = "png") -> bytes:
    """Return the image. `by_month`: `2024-03` → count."""
    counts = fill_months(by_month)
    legend = ", ".join(f"{name}: {count}" for name, count in counts.items() if count)
    sheet = Canvas(CHART_WIDTH, CHART_HEIGHT if counts else EMPTY_HEIGHT, TITLE, f"{TITLE}. {legend or 'No time is known.'}")
    sheet.draw_text(20, 28, TITLE, size=15)
    if counts:
        _draw_axis(sheet, max(counts.values()))
        _draw_bars(sheet, counts)
    else:
        sheet.draw_text(20, 60, "No incident has a time, so there is nothing to draw.")
    return sheet.render(kind)


def _draw_axis(sheet: Canvas, largest: int) -> None:
    for tick in (0, largest):
        y = BASELINE_Y - BAR_AREA_HEIGHT * tick / largest
        sheet.draw_path([(LEFT_MARGIN, y), (CHART_WIDTH - 20, y)], canvas.UNKNOWN)
        sheet.draw_text(LEFT_MARGIN - 8, y + 4, str(tick), size=LABEL_FONT_SIZE, anchor="end", fill=canvas.FAINT)


def _draw_bars(sheet: Canvas, counts: Mapping[str, int]) -> None:
    largest = max(counts.values())
    bar_step = (CHART_WIDTH - LEFT_MARGIN - RIGHT_MARGIN) / len(counts)
    label_step = -(-len(counts) // MAX_BAR_LABELS)
    for number, (name, count) in enumerate(counts.items()):
        x, height = LEFT_MARGIN + number * bar_step, BAR_AREA_HEIGHT * count / largest
        if count:
            sheet.draw_box(x + bar_step * (1 - BAR_WIDTH) / 2, BASELINE_Y - height, bar_step * BAR_WIDTH, height, canvas.GOOD)
        if number % label_step == 0:
            sheet.draw_text(x + bar_step / 2, BASELINE_Y + 18, name, size=LABEL_FONT_SIZE, anchor="middle", fill=canvas.FAINT)


def fill_months(by_month: Mapping[str, int]) -> dict[str, int]:
    """Return counts of all months, or of years above MAX_BARS months."""
    if not by_month:
        return {}
    numbers = [int(month[:4]) * 12 + int(month[5:7]) - 1 for month in (min(by_month), max(by_month))]
    if numbers[1] - numbers[0] < MAX_BARS:
        months = (f"{number // 12:04}-{number % 12 + 1:02}" for number in range(numbers[0], numbers[1] + 1))
        return {month: by_month.get(month, 0) for month in months}
    years = [int(month[:4]) for month in (min(by_month), max(by_month))]
    first = max(years[0], years[1] - MAX_BARS + 1)
    return {str(year): sum(times for month, times in by_month.items() if month[:4] == f"{year:04}") for year in range(first, years[1] + 1)}
