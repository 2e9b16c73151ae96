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
    by_device: dict[str, list[Occurrence]] = {}
    for event in events:
        if event.kind == "kernel.xid" and event.value in codes and event.device:
            by_device.setdefault(event.device, []).append(event)
    times = {device: _count_occasions(own) for device, own in sorted(by_device.items())}
    if len(times) > 1 and sum(times.values()) >= MIN_REPEAT_OCCASIONS and not _has_dominant_device(times):
        return dict.fromkeys(times, "scattered")
    return {
        device: "same_tpc" if _is_one_place(by_device[device]) else "same_gpu"
        for device, occasions in times.items()
        if occasions >= MIN_REPEAT_OCCASIONS
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
    pids = {pid for event in events for pid in (event.attrs.get("pids") or [event.attrs.get("pid")]) if pid is not None}
    spans = sorted(span for event in events if (span := _get_time_span(event)))
    if not pids and not spans:
        return len(events)
    moments, until = 0, None
    for first, last, most in spans:
        if until is None or (first - until).total_seconds() > SAME_OCCASION_SECONDS:
            moments += 1
        moments += min(most - 1, int((last - first).total_seconds() // SAME_OCCASION_SECONDS))
        until = max(last, until or last)
    return max(moments, len(pids))


def _get_time_span(event: Occurrence) -> tuple[datetime, datetime, int] | None:
    """Return first time, last time and count."""
    first, last = event.attrs.get("first"), event.attrs.get("last")
    if isinstance(first, str) and isinstance(last, str):
        return datetime.fromisoformat(first), datetime.fromisoformat(last), int(event.attrs.get("count", 1))
    return (event.time, event.time, 1) if event.time else None


def _is_one_place(events: Sequence[Occurrence]) -> bool:
    """All located exceptions name one GPC and TPC, often enough."""
    placed = [event for event in events if event.attrs.get("gpc") is not None and event.attrs.get("tpc") is not None]
    places = {(event.attrs["gpc"], event.attrs["tpc"], event.attrs.get("mig")) for event in placed}
    several = any("migs" in event.attrs for event in placed)  # each MIG instance counts its own GPCs
    return len(places) == 1 and not several and _count_occasions(placed) >= MIN_REPEAT_OCCASIONS


def _has_dominant_device(times: Mapping[str, int]) -> bool:
    """A stray error elsewhere does not clear the device."""
    most = max(times.values())
    return most >= MIN_REPEAT_OCCASIONS and most >= 0.75 * sum(times.values())
