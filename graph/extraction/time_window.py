"""Parse a reporter's times: "since 03:10", "around 14:05 UTC", "10 minutes ago", "last night". Pure.

A clock time without a day is the last such time before now; without a zone it is UTC.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

TimeWindow = tuple[datetime | None, datetime | None]

_UTC_OFFSET_ROWS = (
    "z=0 utc=0 gmt=0 bst=1 cet=1 cest=2 eet=2 eest=3 msk=3 ist=5.5 sgt=8 jst=9 kst=9 est=-5 edt=-4 cdt=-5 mst=-7 mdt=-6 pst=-8 pdt=-7 pt=-8"
)
_UTC_OFFSET_HOURS: Mapping[str, float] = {
    name: float(hours) for name, _, hours in (pair.partition("=") for pair in _UTC_OFFSET_ROWS.split(" "))
}
_UNIT_SECONDS: Mapping[str, int] = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_COUNT_WORDS: Mapping[str, float] = {
    "a": 1,
    "an": 1,
    "one": 1,
    "couple": 2,
    "two": 2,
    "few": 3,
    "three": 3,
    "four": 4,
    "five": 5,
    "six": 6,
    "ten": 10,
    "half": 0.5,
}
_AROUND_MARGIN = timedelta(minutes=10)

_CLOCK_PATTERN = (
    r"(?P<{0}h>2[0-3]|[01]?\d)(?![\d-])(?:[:h](?P<{0}m>[0-5]\d)(?::[0-5]\d)?)?[ ]?(?P<{0}half>[ap]\.?m\b\.?)?"
    r"(?:[ ]?(?P<{0}zone>[a-z]{{1,4}}\b|[+-]\d\d:?\d\d))?"
)
_DAY_PATTERN = (
    r"(?:(?P<{0}date>\d{{4}}-\d\d-\d\d)[ t]+(?:at )?|(?P<{0}day>today|yesterday|this morning|last night)(?:,| at| around|,? since)? ?)?"
)
_format_point_pattern = (_DAY_PATTERN + _CLOCK_PATTERN).format
_SINCE_PATTERN = re.compile(
    rf"\b(?P<how>since|from|starting(?: at| from)?|started(?: at| around)?|after|as of|"
    rf"beginning(?: at)?)[ ~]{{1,3}}(?:about |around |roughly |approx\.? )?{_format_point_pattern('a')}"
)
_BETWEEN_PATTERN = re.compile(
    rf"\b(?:between|from)[ ~]{{1,3}}{_format_point_pattern('a')} ?(?:and|to|until|till|-|–) ?{_format_point_pattern('b')}"
)
_AROUND_PATTERN = re.compile(
    rf"(?:\b(?P<how>around|about|approx\.?|approximately|circa|near|at|@)|(?P<tilde>~))[ ~]{{0,3}}{_format_point_pattern('a')}"
)
_UNTIL_PATTERN = re.compile(rf"\b(?:until|till|up to|ended(?: at)?|before|by)[ ~]{{1,3}}{_format_point_pattern('a')}")
_TIMESTAMP_PATTERN = re.compile(r"\b(\d{4}-\d\d-\d\d)[ t](\d\d:\d\d)(?::\d\d)?(?:\.\d+)? ?(z\b|utc\b|[+-]\d\d:?\d\d)?")
_AGO_PATTERN = re.compile(
    r"\b(?P<count>\d{1,4}(?:\.\d)?|an?|one|two|three|four|five|six|ten|half an|(?:a )?couple(?: of)?|(?:a )?few)\s{0,2}"
    r"(?P<unit>s|m|h|d|w|sec|min|hr)(?:onds?|utes?|ours?|ays?|eeks?|s|rs)?\.? ago\b"
)
_DURATION_PATTERN = re.compile(
    r"\b(?:for|over|during|within)(?: the)?(?: last| past)?(?: about| around| roughly| ~| over)? "
    r"(?P<count>\d{1,4}(?:\.\d)?|an?|one|two|three|few|couple(?: of)?) ?"
    r"(?P<unit>m|h|d)(?:in(?:ute)?|ours?|rs?|ays?)?s?\b(?! (?:each|per|timeout|ttl))|\b(?:the )?(?:last|past) "
    r"(?P<unit2>hour|day|minute)\b"
)

# Before a duration in which all was well, which is not the trouble's start.
_HEALTHY_PATTERN = re.compile(
    r"\b(?:fine|ok|okay|good|well|stable|healthy|worked|ran|running|up)(?: (?:it|has|had|been|was|smoothly|just|at least)){0,3} ?$"
)


def parse_time_window(text: str, now: datetime) -> TimeWindow:
    """Return start and end, None where the words do not say."""
    words = text.lower()
    now = now.astimezone(UTC) if now.tzinfo else now.replace(tzinfo=UTC)
    return _parse_between(words, now) or (_parse_since(words, now), _parse_until(words, now))


def _parse_between(words: str, now: datetime) -> TimeWindow | None:
    for match in _BETWEEN_PATTERN.finditer(words):
        if _is_time(match, "a") or _is_time(match, "b"):
            end = _parse_point(match, "b", now)
            start = _parse_point(match, "a", end or now)
            if start and end:
                return start, end
    return None


def _parse_since(words: str, now: datetime) -> datetime | None:
    for pattern, early in ((_SINCE_PATTERN, timedelta()), (_AROUND_PATTERN, _AROUND_MARGIN)):
        for match in pattern.finditer(words):
            if _is_time(match, "a") and (point := _parse_point(match, "a", now)):
                return point - early
    if stamp := _TIMESTAMP_PATTERN.search(words):
        point = _build_moment(stamp[1], int(stamp[2][:2]), int(stamp[2][3:]), _parse_utc_offset(stamp[3]))
        return point - _AROUND_MARGIN if point else None
    return _parse_ago(words, now) or _parse_named_time(words, now)


def _parse_until(words: str, now: datetime) -> datetime | None:
    until_match = next((match for match in _UNTIL_PATTERN.finditer(words) if _is_time(match, "a")), None)
    if until_match:
        return _parse_point(until_match, "a", now)
    if "last night" in words and not _SINCE_PATTERN.search(words):
        return _get_last_morning(now)
    return None


def _is_time(found: re.Match[str], name: str) -> bool:
    """A bare number needs minutes, am/pm, a day or a zone: "from 8 to 16 nodes" is no time."""
    zone = found[f"{name}zone"]
    return (
        any(found[f"{name}{part}"] for part in ("m", "half", "date", "day"))
        or (zone or "") in _UTC_OFFSET_HOURS
        or bool(zone and zone[0] in "+-")
    )


def _parse_point(found: re.Match[str], name: str, now: datetime) -> datetime | None:
    hour, minute = int(found[f"{name}h"]), int(found[f"{name}m"] or 0)
    half = (found[f"{name}half"] or "")[:1]
    hour = hour % 12 + (12 if half == "p" else 0) if half else hour
    offset = _parse_utc_offset(found[f"{name}zone"])
    local_now = now + timedelta(hours=offset)
    if date := found[f"{name}date"]:
        return _build_moment(date, hour, minute, offset)
    day = found[f"{name}day"]
    back = 1 if day == "yesterday" or (day == "last night" and hour >= 12) else 0
    point = _build_moment((local_now - timedelta(days=back)).date().isoformat(), hour, minute, offset)
    return point - timedelta(days=1) if point and point > now + timedelta(minutes=5) else point


def _parse_utc_offset(zone: str | None) -> float:
    """Return hours east of UTC."""
    if not zone:
        return 0.0
    if zone[0] in "+-":
        hours, minutes = int(zone[1:3]), int(zone[-2:])
        return (hours + minutes / 60) * (-1 if zone[0] == "-" else 1)
    return _UTC_OFFSET_HOURS.get(zone, 0.0)


def _build_moment(day: str, hour: int, minute: int, offset: float) -> datetime | None:
    try:
        return datetime.fromisoformat(f"{day}T{hour:02}:{minute:02}:00+00:00") - timedelta(hours=offset)
    except ValueError:
        return None


def _parse_ago(words: str, now: datetime) -> datetime | None:
    for pattern in (_AGO_PATTERN, _DURATION_PATTERN):
        if match := next(
            (one for one in pattern.finditer(words) if not _HEALTHY_PATTERN.search(words, max(0, one.start() - 40), one.start())), None
        ):
            match_groups = match.groupdict()
            unit = match_groups["unit"] or match_groups.get("unit2") or "m"
            seconds = _parse_count(match_groups["count"] or "one") * _UNIT_SECONDS[unit[0]]
            return now - timedelta(seconds=seconds)
    return None


def _parse_count(word: str) -> float:
    first = next((part for part in word.split() if part in _COUNT_WORDS and part not in ("a", "an")), word.split()[0])
    return _COUNT_WORDS.get(first) or float(first)


def _parse_named_time(words: str, now: datetime) -> datetime | None:
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    if "last night" in words or "overnight" in words:
        return _get_last_morning(now) - timedelta(hours=12)
    if "this morning" in words:
        return midnight + timedelta(hours=5)
    if "yesterday" in words:
        return midnight - timedelta(days=1)
    return midnight if "since midnight" in words or re.search(r"\b(?:since|earlier) today\b", words) else None


def _get_last_morning(now: datetime) -> datetime:
    """Return 06:00 today, or now if earlier."""
    six = now.replace(hour=6, minute=0, second=0, microsecond=0)
    return min(six, now)
