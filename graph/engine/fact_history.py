"""Age of events: one old event decides nothing, a recurring error is a chronic cause.

Sets `attrs` of machine events: `aged` (last seen long before the report), `chronic` (count, first and last occurrence
over days; it decides at any age).
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from tools.fact import Fact, Status

# keys of facts with an event time of their own; all others date from their observation
EVENT_KEY_PREFIXES = ("kernel.", "service.event", "job.", "site.log.", "ipmi.event")
# events that can recur and fade. A job's log is part of the report at any age; a BMC event stays until cleared.
MACHINE_EVENT_KEY_PREFIXES = ("kernel.", "service.event", "site.log.")
# messages of boot or driver load; they hold until the next one and do not fade
BOOT_EVENT_KEYS = ("kernel.bar_missing", "kernel.nouveau", "kernel.module_refused", "kernel.nvidia_absent", "kernel.driver_mismatch")
LOG_END_ATTRIBUTE = "log_end"  # time of the newest line of an uploaded log that runs past the report
OLD_AFTER = timedelta(hours=24)  # a night's fault is reported the next day; an older event did not cause it
MIN_RECURRING_COUNT = 3  # two occurrences are a coincidence; the third makes a series
MIN_RECURRING_SPAN = timedelta(hours=36)  # two days apart, less the hours by which a daily job shifts; one episode of a night is shorter
MAX_RECURRING_QUIET = timedelta(days=14)  # quiet for longer: repaired, or too rare to explain a report of today
MAX_OLD_EVENTS_LOG_ODDS = -0.85  # cap where old events are the only support: posterior 0.3, below a suspicion (0.5)


@dataclass(frozen=True, slots=True)
class EventOccurrences:
    """How often an event occurred, and its first and last time."""

    count: int
    first: datetime
    last: datetime

    def is_recurring(self, before: datetime) -> bool:
        spread = self.last - self.first >= MIN_RECURRING_SPAN
        return self.count >= MIN_RECURRING_COUNT and spread and self.last >= before - MAX_RECURRING_QUIET

    def format_occurrences(self) -> str:
        """Return `14 times, first 2026-11-18 03:00, last 2026-11-26 03:10 UTC`."""
        return f"{self.count} times, first {self.first:%Y-%m-%d %H:%M}, last {self.last:%Y-%m-%d %H:%M} UTC"


def mark_age(facts: Sequence[Fact], opened: datetime | None) -> list[Fact]:
    """Return the facts, old events marked `aged` and recurring ones `chronic`. `opened`: start of the incident."""
    if opened is None:
        return list(facts)
    series = _find_series(facts)
    return [_mark_fact(fact, series, opened) for fact in facts]


def get_last_seen(fact: Fact) -> datetime | None:
    """Return when an event last occurred; None for a fact without an event time."""
    return _parse_moment(fact.attrs.get("last")) or fact.time if fact.key.startswith(EVENT_KEY_PREFIXES) else None


def format_old_event(fact: Fact, now: datetime) -> str:
    """Return `Xid 79 on gpu3, 9 days ago, not since`."""
    return f"{fact.format_sentence()}, {_format_last_seen(get_last_seen(fact), now)}, not since"


def _format_last_seen(last: datetime | None, now: datetime) -> str:
    if last is None:
        return "at an unknown time"
    days = (now - last).days
    return f"{days} days ago" if days > 1 else f"{last:%Y-%m-%d %H:%M} UTC"


def is_old(fact: Fact) -> bool:
    """Return whether a machine event is old and does not recur."""
    return bool(fact.attrs) and bool(fact.attrs.get("aged")) and _is_fading(fact)


def _is_fading(fact: Fact) -> bool:
    return fact.key.startswith(MACHINE_EVENT_KEY_PREFIXES) and fact.key not in BOOT_EVENT_KEYS


def _mark_fact(fact: Fact, occurrences: Mapping[tuple[str, ...], EventOccurrences], opened: datetime) -> Fact:
    last = get_last_seen(fact)
    if last is None or fact.status is not Status.OK or fact.key in BOOT_EVENT_KEYS:
        return fact
    onset = max(opened, _parse_moment(fact.attrs.get(LOG_END_ATTRIBUTE)) or opened)
    if not _is_fading(fact):
        return replace(fact, attrs={**fact.attrs, "aged": True}) if fact.time and fact.time < onset - OLD_AFTER else fact
    event_series = occurrences.get(_get_event_key(fact))
    if event_series is not None and not fact.stale and event_series.is_recurring(onset):
        return replace(fact, attrs={**fact.attrs, "chronic": event_series.format_occurrences()})
    return replace(fact, attrs={**fact.attrs, "aged": True}) if last < onset - OLD_AFTER else fact


def _find_series(facts: Iterable[Fact]) -> dict[tuple[str, ...], EventOccurrences]:
    """Group recurring events. Stale ones were repaired or rebooted away and start no series."""
    groups: dict[tuple[str, ...], list[Fact]] = defaultdict(list)
    for fact in facts:
        if _is_fading(fact) and fact.time and fact.status is Status.OK and not fact.stale:
            groups[_get_event_key(fact)].append(fact)
    return {name: _count_occurrences(facts) for name, facts in groups.items()}


def _count_occurrences(facts: Sequence[Fact]) -> EventOccurrences:
    moments = [moment for fact in facts for moment in (fact.time, _parse_moment(fact.attrs.get("first")), get_last_seen(fact)) if moment]
    counts = [fact.attrs.get("count", 1) for fact in facts]
    return EventOccurrences(sum(count if isinstance(count, int) else 1 for count in counts), min(moments), max(moments))


def _get_event_key(fact: Fact) -> tuple[str, ...]:
    return fact.host, fact.key, fact.device or "", repr(fact.value)


def _parse_moment(text: object) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return moment if moment is not None and moment.tzinfo else None
