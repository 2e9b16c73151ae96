"""Timeline chart: a strip to scale with lanes, and the events below in words."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from bot.reports.charts import canvas as palette
from bot.reports.charts.canvas import Canvas, ImageFormat
from graph.timeline import LANES_BY_KIND, Timeline, TimelineEvent, TimelineKind, TimelineLane, summarize_timeline

TITLE: Final = "What happened, and when (UTC)"
EMPTY_TEXT: Final = "No moment is known, so there is nothing to draw."
MAX_ROWS = 26
MAX_DOTS = 160
CHART_WIDTH = 860
LEFT_MARGIN = 92
TOP_MARGIN = 56
LANE_HEIGHT = 26
ROW_HEIGHT = 20
LANE_MARKS: Final[dict[TimelineLane, str]] = {"hosts": "■", "people": "●", "RackMedic": "◆"}
BAD_KINDS: Final[frozenset[TimelineKind]] = frozenset({"found", "failed", "denied"})
GOOD_KINDS: Final[frozenset[TimelineKind]] = frozenset({"proved", "well", "approved", "closed"})
# steps between marks; longer spans use multiples of the last
TICK_SECONDS: Final = (1, 5, 15, 60, 300, 600, 1800, 3600, 3 * 3600, 6 * 3600, 86_400, 7 * 86_400)


class MomentGroup(NamedTuple):
    """Consecutive similar events: the first, the last one's time, their count."""

    first: TimelineEvent
    until: datetime
    times: int = 1


def render_timeline_chart(line: Timeline, kind: ImageFormat = "png") -> bytes:
    if not line.events:
        sheet = Canvas(CHART_WIDTH, 90, TITLE, EMPTY_TEXT)
        sheet.draw_text(20, 28, TITLE, size=15)
        sheet.draw_text(20, 60, EMPTY_TEXT)
        return sheet.render(kind)
    shown_rows, hidden = select_rows(fold_events(line.events), MAX_ROWS)
    down = TOP_MARGIN + LANE_HEIGHT * len(LANE_MARKS) + 46
    sheet = Canvas(CHART_WIDTH, down + ROW_HEIGHT * (len(shown_rows) + bool(hidden or line.left_out)) + 14, TITLE, summarize_timeline(line))
    sheet.draw_text(20, 28, TITLE, size=15)
    _draw_strip(sheet, line.events)
    when = _choose_time_format([at for row in shown_rows for at in (row.first.at, row.until)])
    for number, row in enumerate(shown_rows):
        _draw_row(sheet, down + ROW_HEIGHT * number, row, when)
    if rest := "; ".join(
        filter(
            None, (f"{hidden} more, in the table" * bool(hidden), f"{line.left_out} more that were logged or said" * bool(line.left_out))
        )
    ):
        sheet.draw_text(24, down + ROW_HEIGHT * len(shown_rows) + 12, f"… and {rest}", size=11, fill=palette.FAINT)
    return sheet.render(kind)


def _choose_time_format(moments: Sequence[datetime]) -> str:
    if len({at.year for at in moments}) > 1:
        return "%Y-%m-%d %H:%M"
    return "%m-%d %H:%M:%S" if len({at.date() for at in moments}) > 1 else "%H:%M:%S"


def fold_events(events: Sequence[TimelineEvent]) -> list[MomentGroup]:
    rows: list[MomentGroup] = []
    for event in events:
        last = rows[-1] if rows else None
        if last and event.kind == last.first.kind and event.kind != "said" and _strip_digits(event) == _strip_digits(last.first):
            rows[-1] = MomentGroup(last.first, event.at, last.times + 1)
        else:
            rows.append(MomentGroup(event, event.at))
    return rows


def _strip_digits(event: TimelineEvent) -> str:
    return "".join(char for char in event.says if not char.isdigit())


def select_rows(groups: Sequence[MomentGroup], max_rows: int) -> tuple[list[MomentGroup], int]:
    """Return shown rows and the count of hidden events. Logged and said ones go first, then the middle."""
    if len(groups) <= max_rows:
        return list(groups), 0
    ranked = sorted(range(len(groups)), key=lambda at: (groups[at].first.kind in ("logged", "said"), min(at, len(groups) - 1 - at)))
    kept_rows = sorted(ranked[:max_rows])
    return [groups[at] for at in kept_rows], sum(group.times for group in groups) - sum(groups[at].times for at in kept_rows)


def _draw_strip(canvas: Canvas, events: Sequence[TimelineEvent]) -> None:
    right = CHART_WIDTH - 44
    begin, end = events[0].at, max(events[-1].at, events[0].at + timedelta(minutes=1))
    reach, low = (end - begin).total_seconds(), TOP_MARGIN + LANE_HEIGHT * len(LANE_MARKS)
    for number, lane in enumerate(LANE_MARKS):
        y = TOP_MARGIN + LANE_HEIGHT * number + LANE_HEIGHT / 2
        canvas.draw_path(((LEFT_MARGIN, y), (right, y)), palette.UNKNOWN, width=2)
        canvas.draw_text(LEFT_MARGIN - 12, y + 4, lane, size=11, anchor="end")
    for at in compute_ticks(begin, end):
        x = LEFT_MARGIN + (right - LEFT_MARGIN) * (at - begin).total_seconds() / reach
        canvas.draw_path(((x, TOP_MARGIN), (x, low + 4)), palette.UNKNOWN)
        canvas.draw_text(x, low + 17, _format_tick(at, begin, end), size=10, fill=palette.FAINT, anchor="middle")
    step = max(1, -(-len(events) // MAX_DOTS))
    kept_events = [event for number, event in enumerate(events) if number % step == 0 or event.kind in BAD_KINDS | GOOD_KINDS]
    for event in kept_events[: 2 * MAX_DOTS]:
        lane = LANES_BY_KIND[event.kind]
        x = LEFT_MARGIN + (right - LEFT_MARGIN) * (event.at - begin).total_seconds() / reach
        canvas.draw_text(
            x,
            TOP_MARGIN + LANE_HEIGHT * list(LANE_MARKS).index(lane) + LANE_HEIGHT / 2 + 5,
            LANE_MARKS[lane],
            size=13,
            fill=_choose_ink(event.kind),
            anchor="middle",
        )


def compute_ticks(begin: datetime, end: datetime) -> list[datetime]:
    reach = (end - begin).total_seconds()
    step = next((one for one in TICK_SECONDS if reach / one <= 8), 7 * 86_400 * (int(reach / (56 * 86_400)) + 1))
    first = -(-int(begin.timestamp()) // step) * step
    marks = range(first, int(end.timestamp()) + 1, step)
    return [datetime.fromtimestamp(mark, begin.tzinfo) for mark in marks if mark >= begin.timestamp()]


def _format_tick(at: datetime, begin: datetime, end: datetime) -> str:
    """Return date or time, as precise as the timeline's length needs."""
    if begin.year != end.year:
        return f"{at:%Y-%m-%d}"
    if end - begin > timedelta(days=1):
        return f"{at:%m-%d %H:%M}"
    return f"{at:%H:%M:%S}" if end - begin < timedelta(minutes=5) else f"{at:%H:%M}"


def _choose_ink(kind: TimelineKind) -> str:
    if kind in BAD_KINDS:
        return palette.BAD
    if kind in GOOD_KINDS:
        return palette.GOOD
    return palette.DOUBT if kind == "unsure" else palette.LINES[0]


def _draw_row(canvas: Canvas, y: float, group: MomentGroup, when: str) -> None:
    event, ink = group.first, _choose_ink(group.first.kind)
    canvas.draw_text(24, y + 12, event.at.strftime(when), size=10 if "%Y" in when else 11, fill=palette.FAINT)
    canvas.draw_text(128, y + 12, LANE_MARKS[LANES_BY_KIND[event.kind]], size=11, fill=ink)
    canvas.draw_text(146, y + 12, event.kind, size=11, fill=ink)
    canvas.draw_text(232, y + 12, event.by or event.host or "RackMedic", size=11, room=136)
    repeat_note = f" (and {group.times - 1} alike until {group.until.strftime(when)})" if group.times > 1 else ""
    room = CHART_WIDTH - 378 - 20 - (250 if repeat_note else 0)
    canvas.draw_text(378, y + 12, event.says, size=11, room=room)
    if repeat_note:
        canvas.draw_text(CHART_WIDTH - 20, y + 12, repeat_note.strip(), size=10, fill=palette.FAINT, anchor="end", room=240)
