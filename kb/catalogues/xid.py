"""Xid error codes of GPUs: meaning, action, and what repeats imply."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, Literal, Protocol

from kb.catalogues.table import load_table

Critical = Literal["yes", "watch", "no"]
Repeat = Literal["same_tpc", "same_gpu", "scattered"]
SAME_OCCASION_SECONDS = 60.0  # errors this close in time count as one occasion
# occasions of Xid 13 or 31 needed before their pattern counts; one crash prints dozens of lines and is one occasion
MIN_REPEAT_OCCASIONS = 3


@dataclass(frozen=True, slots=True)
class Xid:
    """One code. `immediate` and `investigate` are NVIDIA's action classes; `kind` is the subject."""

    code: int
    mnemonic: str
    meaning: str
    immediate: str
    investigate: str
    kind: str
    critical: Critical


class Occurrence(Protocol):
    """An Xid event, as kb.logs.log_events.LogEvent."""

    @property
    def kind(self) -> str: ...
    @property
    def value(self) -> Any: ...
    @property
    def device(self) -> str | None: ...
    @property
    def time(self) -> datetime | None: ...
    @property
    def boot_id(self) -> str: ...
    @property
    def attrs(self) -> Mapping[str, Any]: ...


@cache
def load_xids() -> Mapping[int, Xid]:
    """Return all codes, 1 to 172."""
    return {xid.code: xid for xid in map(_parse_xid_row, load_table("xid"))}


def find_xid(code: int) -> Xid | None:
    """Return a code's row, or None."""
    return load_xids().get(code)


def classify_repeats(events: Iterable[Occurrence], codes: Sequence[int] = (13, 31)) -> dict[str, Repeat]:
    """Classify how application-like errors repeat, per device with enough occasions.

    The same GPC and TPC each time means hardware. One GPU makes hardware likely, several the program.
    """
    device_events: dict[str, list[Occurrence]] = {}
    for event in events:
        if event.kind == "kernel.xid" and event.value in codes and event.device:
            device_events.setdefault(event.device, []).append(event)
    occasion_counts = {device: _count_occasions(device_events[device]) for device in sorted(device_events)}
    is_repeated = sum(occasion_counts.values()) >= MIN_REPEAT_OCCASIONS
    if len(occasion_counts) > 1 and is_repeated and not _has_dominant_device(occasion_counts):
        return dict.fromkeys(occasion_counts, "scattered")
    return {
        device: "same_tpc" if _is_one_place(device_events[device]) else "same_gpu"
        for device, occasion_count in occasion_counts.items()
        if occasion_count >= MIN_REPEAT_OCCASIONS
    }


def _parse_xid_row(row: Mapping[str, str]) -> Xid:
    return Xid(
        code=int(row["xid"]),
        mnemonic=row["mnemonic"],
        meaning=row["meaning"],
        immediate=row["immediate"],
        investigate=row["investigate"],
        kind=row["class"],
        critical=row["critical"],  # type: ignore[arg-type]  # a test reads the whole table
    )


def _count_occasions(events: Sequence[Occurrence]) -> int:
    """Count processes or moments more than SAME_OCCASION_SECONDS apart; without either, single events."""
    pids: set[Any] = set()
    for event in events:
        pids.update(event.attrs.get("pids") or [event.attrs.get("pid")])
    pids.discard(None)
    time_spans = sorted(time_span for event in events if (time_span := _get_time_span(event)))
    if not pids and not time_spans:
        return len(events)
    moment_count, latest_end = 0, None
    for first, last, event_count in time_spans:
        if latest_end is None or (first - latest_end).total_seconds() > SAME_OCCASION_SECONDS:
            moment_count += 1
        moment_count += min(event_count - 1, int((last - first).total_seconds() // SAME_OCCASION_SECONDS))
        latest_end = max(last, latest_end or last)
    return max(moment_count, len(pids))


def _get_time_span(event: Occurrence) -> tuple[datetime, datetime, int] | None:
    """Return the first time, the last time and the number of errors that an event stands for; None for an undated event."""
    first, last = event.attrs.get("first"), event.attrs.get("last")
    if isinstance(first, str) and isinstance(last, str):
        return datetime.fromisoformat(first), datetime.fromisoformat(last), int(event.attrs.get("count", 1))
    return (event.time, event.time, 1) if event.time else None


def _is_one_place(events: Sequence[Occurrence]) -> bool:
    """Return whether all exceptions that name a GPC and TPC name the same one, on enough occasions."""
    located_events = [event for event in events if event.attrs.get("gpc") is not None and event.attrs.get("tpc") is not None]
    places = {(event.attrs["gpc"], event.attrs["tpc"], event.attrs.get("mig")) for event in located_events}
    if len(places) != 1 or any("migs" in event.attrs for event in located_events):
        return False  # each MIG instance counts its own GPCs, so equal numbers of several instances are different places
    return _count_occasions(located_events) >= MIN_REPEAT_OCCASIONS


def _has_dominant_device(occasion_counts: Mapping[str, int]) -> bool:
    """Return whether one device has at least three quarters of the occasions, so that a stray error elsewhere does not clear it."""
    highest_count = max(occasion_counts.values())
    return highest_count >= MIN_REPEAT_OCCASIONS and highest_count >= 0.75 * sum(occasion_counts.values())
