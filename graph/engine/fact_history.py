"""Facts over time: the age of events, facts that a remedy made stale, and error counters that rose. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from graph.state import Remediation
from tools.fact import Fact, Status

# Age of events: one old event decides nothing, a recurring error is a chronic cause. Pure.
#
# Sets `attrs` of machine events: `aged` (last seen long before the report), `chronic` (count, first and last occurrence
# over days; it decides at any age).

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
    last = get_last_seen(fact)
    days = (now - last).days if last else 0
    when = f"{days} days ago" if days > 1 else f"{last:%Y-%m-%d %H:%M} UTC" if last else "at an unknown time"
    return f"{fact.format_sentence()}, {when}, not since"


def is_old(fact: Fact) -> bool:
    """Return whether a machine event is old and does not recur."""
    return bool(fact.attrs) and bool(fact.attrs.get("aged")) and _is_fading(fact)


def _is_fading(fact: Fact) -> bool:
    return fact.key.startswith(MACHINE_EVENT_KEY_PREFIXES) and fact.key not in BOOT_EVENT_KEYS


def _mark_fact(fact: Fact, series: Mapping[tuple[str, ...], EventOccurrences], opened: datetime) -> Fact:
    last = get_last_seen(fact)
    if last is None or fact.status is not Status.OK or fact.key in BOOT_EVENT_KEYS:
        return fact
    before = max(opened, _parse_moment(fact.attrs.get(LOG_END_ATTRIBUTE)) or opened)
    if not _is_fading(fact):
        return replace(fact, attrs={**fact.attrs, "aged": True}) if fact.time and fact.time < before - OLD_AFTER else fact
    event_series = series.get(_get_event_key(fact))
    if event_series is not None and not fact.stale and event_series.is_recurring(before):
        return replace(fact, attrs={**fact.attrs, "chronic": event_series.format_occurrences()})
    return replace(fact, attrs={**fact.attrs, "aged": True}) if last < before - OLD_AFTER else fact


def _find_series(facts: Iterable[Fact]) -> dict[tuple[str, ...], EventOccurrences]:
    """Group recurring events. Stale ones were repaired or rebooted away and start no series."""
    groups: dict[tuple[str, ...], list[Fact]] = defaultdict(list)
    for fact in facts:
        if _is_fading(fact) and fact.time and fact.status is Status.OK and not fact.stale:
            groups[_get_event_key(fact)].append(fact)
    return {name: _count_occurrences(rows) for name, rows in groups.items()}


def _count_occurrences(rows: Sequence[Fact]) -> EventOccurrences:
    moments = [moment for row in rows for moment in (row.time, _parse_moment(row.attrs.get("first")), get_last_seen(row)) if moment]
    counts = [row.attrs.get("count", 1) for row in rows]
    return EventOccurrences(sum(count if isinstance(count, int) else 1 for count in counts), min(moments), max(moments))


def _get_event_key(fact: Fact) -> tuple[str, ...]:
    return fact.host, fact.key, fact.device or "", repr(fact.value)


def _parse_moment(text: object) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return moment if moment is not None and moment.tzinfo else None


# Mark facts that a remedy made stale: those of its host from before the claim. Pure.
#
# Old kernel lines outlive a reset and would fail every proof. Logs use the host's clock and claims RackMedic's, so
# cursors are shifted by the known skew.

KERNEL_KEY_PREFIX = "kernel."


def find_repair_cursors(remediations: Iterable[Remediation]) -> dict[str, datetime]:
    """Return host → time of the last claim on it."""
    cursor_by_host: dict[str, datetime] = {}
    for remediation in remediations:
        if remediation.since is not None:
            cursor_by_host[remediation.target] = max(remediation.since, cursor_by_host.get(remediation.target, remediation.since))
    return cursor_by_host


def mark_stale_after_repairs(
    facts: Sequence[Fact], since: Mapping[str, datetime], skews: Mapping[str, timedelta] | None = None
) -> list[Fact]:
    """Return the facts, those last seen before their host's cursor marked stale."""
    apart = find_clock_skews(facts) if skews is None else skews
    return [replace(fact, stale=True) if _is_before(fact, since.get(fact.host), apart) else fact for fact in facts]


@dataclass(frozen=True, slots=True)
class ProvenRemedyRun:
    """A proven remedy of any incident: host, time of claim, and all names of the changed devices.

    No names (`gpu3`, `0000:5d:00.0`) means the whole host.
    """

    host: str
    at: datetime
    names: tuple[str, ...] = ()

    def covers_device(self, device: str | None) -> bool:
        """Return whether it covers a device of its host; a fact without a device needs a whole-host run."""
        return not self.names or (device or "").rpartition("/")[2] in self.names


def mark_stale_after_remedies(facts: Sequence[Fact], treatments: Sequence[ProvenRemedyRun]) -> list[Fact]:
    """Mark kernel lines from before a proven remedy of their device stale, so that no other thread repeats it.

    Other logs (jobs, BMC) report what no such remedy reaches.
    """
    if not treatments:
        return list(facts)
    skews = find_clock_skews(facts)
    return [replace(fact, stale=True) if _was_remedied(fact, treatments, skews) else fact for fact in facts]


def _was_remedied(fact: Fact, treatments: Sequence[ProvenRemedyRun], skews: Mapping[str, timedelta]) -> bool:
    if not fact.key.startswith(KERNEL_KEY_PREFIX):
        return False
    return any(row.host == fact.host and row.covers_device(fact.device) and _is_before(fact, row.at, skews) for row in treatments)


def find_clock_skews(facts: Iterable[Fact]) -> dict[str, timedelta]:
    """Return how far each host's clock is ahead of RackMedic's."""
    return {
        fact.host: timedelta(seconds=fact.value - fact.time.timestamp())
        for fact in facts
        if fact.key == "time.clock" and fact.host and fact.time and isinstance(fact.value, int | float)
    }


def _is_before(fact: Fact, cursor: datetime | None, skews: Mapping[str, timedelta]) -> bool:
    if cursor is None or fact.stale or fact.status.blind:
        return False
    last = _parse_iso_text(fact.attrs.get("last")) or fact.time
    written_there = fact.key.startswith(EVENT_KEY_PREFIXES)
    return last is not None and last < cursor + (skews.get(fact.host, timedelta()) if written_there else timedelta())


def _parse_iso_text(text: object) -> datetime | None:
    try:
        return datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None


# Error counters that rose between two readings: a flapping link may be up at every reading.

# counter → smallest abnormal rise between two readings; healthy links have occasional bit errors
MIN_COUNTER_RISES: Final[Mapping[str, int]] = {
    "ib.link_downed": 1,
    "ib.link_error_recovery": 1,
    "ib.symbol_error": 10,
    "ib.link_integrity_errors": 10,
    "ib.port_rcv_errors": 10,
    "ib.ack_timeouts": 10,
    "ib.roce_adp_retrans": 100,
    "net.rx_errors": 10,
    "nvlink.crc_errors": 10,
    "nvlink.replay_errors": 10,
    "gpu.pcie.replay": 10,
    "gpu.ecc.dram_uncorrectable": 1,
    "gpu.ecc.sram_uncorrectable": 1,
    "kernel.aer": 3,
}
MIN_READING_GAP: Final = timedelta(seconds=20)  # readings closer together count as one
MAX_READING_GAP: Final = timedelta(hours=1)  # readings further apart say nothing about now


def has_risen(fact: Fact) -> bool:
    return bool(fact.attrs) and "before" in fact.attrs and fact.key in MIN_COUNTER_RISES


def mark_counter_rises(old: Sequence[Fact], new: Sequence[Fact]) -> list[Fact]:
    """Return the new facts; a risen counter gets `before` (the older reading) and `seconds` between them."""
    before = {_get_counter_key(fact): fact for fact in old if fact.key in MIN_COUNTER_RISES and fact.status is Status.OK}
    if not before:
        return list(new)
    return [
        _compare_readings(before[_get_counter_key(fact)], fact)
        if fact.key in MIN_COUNTER_RISES and _get_counter_key(fact) in before
        else fact
        for fact in new
    ]


def format_rise(fact: Fact) -> str:
    """Return `rose from 12 to 14 in 60 s`, or an empty string."""
    return f"rose from {fact.attrs['before']} to {_get_reading(fact)} in {fact.attrs['seconds']} s" if has_risen(fact) else ""


def _compare_readings(was: Fact, now: Fact) -> Fact:
    earlier, later = (get_last_seen(was) or was.time, get_last_seen(now) or now.time)
    reading, since = _get_reading(now), _get_reading(was)
    if now.status is not Status.OK or earlier is None or later is None or reading is None or since is None:
        return now
    seconds = later - earlier
    if has_risen(was) and seconds < MIN_READING_GAP:  # a repeated reading keeps the older one to compare with
        seconds, since = seconds + timedelta(seconds=int(was.attrs["seconds"])), int(was.attrs["before"])
    if not MIN_READING_GAP <= seconds <= MAX_READING_GAP or reading - since < MIN_COUNTER_RISES[now.key]:
        return now
    return replace(now, attrs={**now.attrs, "before": since, "seconds": round(seconds.total_seconds())})


def _get_reading(fact: Fact) -> int | None:
    """Return the counter, or the count of a kernel event."""
    value = fact.attrs.get("count") if fact.key.startswith("kernel.") else fact.value
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _get_counter_key(fact: Fact) -> tuple[str, ...]:
    return fact.host, fact.check, fact.key, fact.device or "", str(fact.value) if fact.key.startswith("kernel.") else ""
