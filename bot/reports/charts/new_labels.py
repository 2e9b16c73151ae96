"""Chart of labels first seen per month: where it falls, little new is left to learn."""

from collections.abc import Mapping
from typing import Final

from bot.reports.charts import canvas
from bot.reports.charts.canvas import Canvas, ImageFormat

TITLE: Final = "Labels met for the first time"
CHART_WIDTH = 860
CHART_HEIGHT = 280
LEFT_MARGIN = 56
TOP_MARGIN = 56
BOTTOM_MARGIN = 44
MAX_BARS: Final = 60  # months; longer spans are drawn by year
MAX_BAR_LABELS: Final = 12


def render_new_labels_chart(by_month: Mapping[str, int], kind: ImageFormat = "png") -> bytes:
    """Return the image. `by_month`: `2024-03` → count."""
    rows = fill_months(by_month)
    legend = ", ".join(f"{name}: {times}" for name, times in rows.items() if times)
    sheet = Canvas(CHART_WIDTH, CHART_HEIGHT if rows else 90, TITLE, f"{TITLE}. {legend or 'No time is known.'}")
    sheet.draw_text(20, 28, TITLE, size=15)
    if not rows:
        sheet.draw_text(20, 60, "No incident has a time, so there is nothing to draw.")
        return sheet.render(kind)
    most, step = max(rows.values()), (CHART_WIDTH - LEFT_MARGIN - 24) / len(rows)
    low = CHART_HEIGHT - BOTTOM_MARGIN
    for share in (0, most):
        y = low - (low - TOP_MARGIN) * share / most
        sheet.draw_path([(LEFT_MARGIN, y), (CHART_WIDTH - 20, y)], canvas.UNKNOWN)
        sheet.draw_text(LEFT_MARGIN - 8, y + 4, str(share), size=11, anchor="end", fill=canvas.FAINT)
    label_step = -(-len(rows) // MAX_BAR_LABELS)
    for at, (name, times) in enumerate(rows.items()):
        x, tall = LEFT_MARGIN + at * step, (low - TOP_MARGIN) * times / most
        if times:
            sheet.draw_box(x + step * 0.1, low - tall, step * 0.8, tall, canvas.GOOD)
        if at % label_step == 0:
            sheet.draw_text(x + step / 2, low + 18, name, size=11, anchor="middle", fill=canvas.FAINT)
    return sheet.render(kind)


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
