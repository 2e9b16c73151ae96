"""Error counters that rose between two readings: a flapping link may be up at every reading."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Final

from graph.engine.fact_history import get_last_seen
from tools.fact import Fact, Status

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
    old_readings = {_get_counter_key(fact): fact for fact in old if fact.key in MIN_COUNTER_RISES and fact.status is Status.OK}
    if not old_readings:
        return list(new)
    return [
        _compare_readings(old_readings[_get_counter_key(fact)], fact)
        if fact.key in MIN_COUNTER_RISES and _get_counter_key(fact) in old_readings
        else fact
        for fact in new
    ]


def format_rise(fact: Fact) -> str:
    """Return `rose from 12 to 14 in 60 s`, or an empty string."""
    return f"rose from {fact.attrs['before']} to {_get_reading(fact)} in {fact.attrs['seconds']} s" if has_risen(fact) else ""


def _compare_readings(old_fact: Fact, fact: Fact) -> Fact:
    earlier, later = (get_last_seen(old_fact) or old_fact.time, get_last_seen(fact) or fact.time)
    reading, since = _get_reading(fact), _get_reading(old_fact)
    if fact.status is not Status.OK or earlier is None or later is None or reading is None or since is None:
        return fact
    seconds = later - earlier
    if has_risen(old_fact) and seconds < MIN_READING_GAP:  # a repeated reading keeps the older one to compare with
        seconds, since = seconds + timedelta(seconds=int(old_fact.attrs["seconds"])), int(old_fact.attrs["before"])
    if not MIN_READING_GAP <= seconds <= MAX_READING_GAP or reading - since < MIN_COUNTER_RISES[fact.key]:
        return fact
    return replace(fact, attrs={**fact.attrs, "before": since, "seconds": round(seconds.total_seconds())})


def _get_reading(fact: Fact) -> int | None:
    """Return the counter, or the count of a kernel event."""
    value = fact.attrs.get("count") if fact.key.startswith("kernel.") else fact.value
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _get_counter_key(fact: Fact) -> tuple[str, ...]:
    return fact.host, fact.check, fact.key, fact.device or "", str(fact.value) if fact.key.startswith("kernel.") else ""
