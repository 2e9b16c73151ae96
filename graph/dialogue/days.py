"""Find the day that a text names, in five languages: tomorrow, next week, or a day of the week. Pure."""

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from graph.dialogue.spelling import LONGEST, strip_accents

MORNING_HOUR: Final = 8  # UTC; a day without a time begins here.
# fmt: off
_IN_DAYS: Final[Mapping[int, str]] = {
    2: "day after tomorrow|ubermorgen|apres demain|apres-demain|pasado manana|后天",
    1: "tomorrow|in the morning|(?<!heute )(?<!jeden )(?<!guten )morgen|demain|manana|明天|明早|明日",
}
_NEXT_WEEK: Final = (
    "next week|after the weekend|over the weekend|nachste woche|nach dem wochenende|semaine prochaine|apres le week-?end|"
    "semana que viene|proxima semana|(?:下周|下星期)(?![一二三四五六日天])"
)
_WEEKDAYS: Final = (
    "monday|montag|lundi|lunes|(?:周|星期|礼拜)一",
    "tuesday|dienstag|mardi|martes|(?:周|星期|礼拜)二",
    "wednesday|mittwoch|mercredi|miercoles|(?:周|星期|礼拜)三",
    "thursday|donnerstag|jeudi|jueves|(?:周|星期|礼拜)四",
    "friday|freitag|vendredi|viernes|(?:周|星期|礼拜)五",
    "saturday|samstag|sonnabend|samedi|sabado|(?:周|星期|礼拜)六",
    "sunday|sonntag|dimanche|domingo|(?:周|星期|礼拜)[日天]",
)
# fmt: on


def _compile(words: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![a-z])(?:{words})(?![a-z])")


_DAY_PATTERNS: Final = [(days, _compile(words)) for days, words in _IN_DAYS.items()]
_WEEKDAY_PATTERNS: Final = [_compile(words) for words in _WEEKDAYS]
_NEXT_WEEK_PATTERN: Final = _compile(_NEXT_WEEK)


def find_named_day(text: str, now: datetime) -> datetime | None:
    """Return the morning of the coming day that is named, or None. Next week begins on Monday."""
    words = strip_accents(text[:LONGEST].lower())
    weekday = next((day for day, pattern in enumerate(_WEEKDAY_PATTERNS) if pattern.search(words)), None)
    if weekday is None and _NEXT_WEEK_PATTERN.search(words):
        weekday = 0
    if weekday is not None:
        return get_morning(now, (weekday - now.weekday() - 1) % 7 + 1)
    days = next((days for days, pattern in _DAY_PATTERNS if pattern.search(words)), 0)
    return get_morning(now, days) if days else None


def get_morning(now: datetime, days: int) -> datetime:
    return (now + timedelta(days=days)).replace(hour=MORNING_HOUR, minute=0, second=0, microsecond=0)
