"""When what happened in an incident, as an image: a strip to scale with a lane each for hosts, people and RackMedic, and the moments below it in words."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from bot.pictures import palette
from bot.pictures.canvas import Canvas, Kind
from graph.timeline import LANES, Lane, Timeline, TimelineEvent, TimelineKind, in_words

TITLE: Final = "What happened, and when (UTC)"
NOTHING: Final = "No moment is known, so there is nothing to draw."
MOST_ROWS, MOST_DOTS = 26, 160
WIDE, LEFT, TOP, LANE, ROW = 860, 92, 56, 26, 20
SHAPES: Final[dict[Lane, str]] = {"hosts": "■", "people": "●", "RackMedic": "◆"}
GRAVE: Final[frozenset[TimelineKind]] = frozenset({"found", "failed", "denied"})
WELL: Final[frozenset[TimelineKind]] = frozenset({"proved", "well", "approved", "closed"})
TICKS: Final = (1, 5, 15, 60, 300, 600, 1800, 3600, 3 * 3600, 6 * 3600, 86_400, 7 * 86_400)
"""Seconds between marks of the strip; beyond the last one, as many times it as are needed."""


class Moments(NamedTuple):
    """Alike ones that follow each other: the first, when the last of them was, and how many."""

    first: TimelineEvent
    until: datetime
    times: int = 1


def picture(line: Timeline, kind: Kind = "png") -> bytes:
    """The image; what is drawn is bounded."""
    if not line.events:
        sheet = Canvas(WIDE, 90, TITLE, NOTHING)
        sheet.write(20, 28, TITLE, size=15)
        sheet.write(20, 60, NOTHING)
        return sheet.drawn(kind)
    shown, hidden = telling(folded(line.events), MOST_ROWS)
    down = TOP + LANE * len(SHAPES) + 46
    sheet = Canvas(WIDE, down + ROW * (len(shown) + bool(hidden or line.left_out)) + 14, TITLE, in_words(line))
    sheet.write(20, 28, TITLE, size=15)
    _strip(sheet, line.events)
    when = _when([at for row in shown for at in (row.first.at, row.until)])
    for number, row in enumerate(shown):
        _row(sheet, down + ROW * number, row, when)
    if rest := "; ".join(
        filter(
            None, (f"{hidden} more, in the table" * bool(hidden), f"{line.left_out} more that were logged or said" * bool(line.left_out))
        )
    ):
        sheet.write(24, down + ROW * len(shown) + 12, f"… and {rest}", size=11, fill=palette.FAINT)
    return sheet.drawn(kind)


def _when(moments: Sequence[datetime]) -> str:
    """How moments are told apart: by their time, by their day too, or by their year."""
    if len({at.year for at in moments}) > 1:
        return "%Y-%m-%d %H:%M"
    return "%m-%d %H:%M:%S" if len({at.date() for at in moments}) > 1 else "%H:%M:%S"


def folded(events: Sequence[TimelineEvent]) -> list[Moments]:
    """What is of one kind and says the same, one after another, in one row."""
    rows: list[Moments] = []
    for event in events:
        last = rows[-1] if rows else None
        if last and event.kind == last.first.kind and event.kind != "said" and _stem(event) == _stem(last.first):
            rows[-1] = Moments(last.first, event.at, last.times + 1)
        else:
            rows.append(Moments(event, event.at))
    return rows


def _stem(event: TimelineEvent) -> str:
    """Its words without numbers: what alike lines of many hosts have in common."""
    return "".join(char for char in event.says if not char.isdigit())


def telling(rows: Sequence[Moments], most: int) -> tuple[list[Moments], int]:
    """What is shown, oldest first, and how many moments are not: what machines printed and people said goes first, the middle of the rest then."""
    if len(rows) <= most:
        return list(rows), 0
    ranked = sorted(range(len(rows)), key=lambda at: (rows[at].first.kind in ("logged", "said"), min(at, len(rows) - 1 - at)))
    kept = sorted(ranked[:most])
    return [rows[at] for at in kept], sum(row.times for row in rows) - sum(rows[at].times for at in kept)


def _strip(sheet: Canvas, events: Sequence[TimelineEvent]) -> None:
    right = WIDE - 44
    begin, end = events[0].at, max(events[-1].at, events[0].at + timedelta(minutes=1))
    reach, low = (end - begin).total_seconds(), TOP + LANE * len(SHAPES)
    for number, lane in enumerate(SHAPES):
        y = TOP + LANE * number + LANE / 2
        sheet.path(((LEFT, y), (right, y)), palette.UNKNOWN, width=2)
        sheet.write(LEFT - 12, y + 4, lane, size=11, anchor="end")
    for at in ticks(begin, end):
        x = LEFT + (right - LEFT) * (at - begin).total_seconds() / reach
        sheet.path(((x, TOP), (x, low + 4)), palette.UNKNOWN)
        words = (
            f"{at:%Y-%m-%d}"
            if begin.year != end.year
            else f"{at:%m-%d %H:%M}"
            if reach > 86_400
            else f"{at:%H:%M:%S}"
            if reach < 300
            else f"{at:%H:%M}"
        )
        sheet.write(x, low + 17, words, size=10, fill=palette.FAINT, anchor="middle")
    step = max(1, -(-len(events) // MOST_DOTS))
    kept = [event for number, event in enumerate(events) if number % step == 0 or event.kind in GRAVE | WELL]
    for event in kept[: 2 * MOST_DOTS]:
        lane = LANES[event.kind]
        x = LEFT + (right - LEFT) * (event.at - begin).total_seconds() / reach
        sheet.write(x, TOP + LANE * list(SHAPES).index(lane) + LANE / 2 + 5, SHAPES[lane], size=13, fill=_ink(event.kind), anchor="middle")


def ticks(begin: datetime, end: datetime) -> list[datetime]:
    """Round moments between two, eight at most."""
    reach = (end - begin).total_seconds()
    step = next((one for one in TICKS if reach / one <= 8), 7 * 86_400 * (int(reach / (56 * 86_400)) + 1))
    first = -(-int(begin.timestamp()) // step) * step
    marks = range(first, int(end.timestamp()) + 1, step)
    return [datetime.fromtimestamp(mark, begin.tzinfo) for mark in marks if mark >= begin.timestamp()]


def _ink(kind: TimelineKind) -> str:
    return palette.BAD if kind in GRAVE else palette.GOOD if kind in WELL else palette.DOUBT if kind == "unsure" else palette.LINES[0]


def _row(sheet: Canvas, y: float, row: Moments, when: str) -> None:
    event, ink = row.first, _ink(row.first.kind)
    sheet.write(24, y + 12, event.at.strftime(when), size=10 if "%Y" in when else 11, fill=palette.FAINT)
    sheet.write(128, y + 12, SHAPES[LANES[event.kind]], size=11, fill=ink)
    sheet.write(146, y + 12, event.kind, size=11, fill=ink)
    sheet.write(232, y + 12, event.by or event.host or "RackMedic", size=11, room=136)
    alike = f" (and {row.times - 1} alike until {row.until.strftime(when)})" if row.times > 1 else ""
    room = WIDE - 378 - 20 - (250 if alike else 0)
    sheet.write(378, y + 12, event.says, size=11, room=room)
    if alike:
        sheet.write(WIDE - 20, y + 12, alike.strip(), size=10, fill=palette.FAINT, anchor="end", room=240)
