"""Xid: the driver's error numbers. What each means, what to do, and which of several came first. Pure look-ups and rules.

The first error in time on a GPU is the cause; channel resets, containment and the like follow from it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, Literal, Protocol, TypeVar

from kb.catalogues.table import rows

Critical = Literal["yes", "watch", "no"]
Repeat = Literal["same_tpc", "same_gpu", "scattered"]

TOGETHER_S = 60.0
"""Errors this close in time belong to one event; without times the order of the log decides."""
ENOUGH_TO_REPEAT = 3
"""Occasions on which Xid 13 or 31 must come before its pattern says anything. One crash prints dozens of lines: that is one occasion."""
FOLLOWS_ANY, FOLLOWS_SXID = -1, -2
"""In `sympathetic_to`: follows whatever came before; follows a fatal NVSwitch error of the host."""


@dataclass(frozen=True, slots=True)
class Xid:
    """One code. `immediate` and `investigate` name NVIDIA's action classes; `kind` what it is about."""

    code: int
    mnemonic: str
    meaning: str
    immediate: str
    investigate: str
    kind: str
    critical: Critical
    sympathetic_to: frozenset[int]
    generations: tuple[str, ...]


class Seen(Protocol):
    """An Xid or SXid event in a kernel log (kb.logs.event.Event has it)."""

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


Event = TypeVar("Event", bound=Seen)


@cache
def catalogue() -> Mapping[int, Xid]:
    """Every code, 1 to 172."""
    return {xid.code: xid for xid in map(_read, rows("xid"))}


def find(code: int) -> Xid | None:
    """What a code means, or None where the catalogue does not know it."""
    return catalogue().get(code)


def follows(code: int, earlier: int) -> bool:
    """Whether `code` is a known consequence of `earlier` on the same GPU."""
    xid, before = find(code), find(earlier)
    if xid is None or before is None or code == earlier:
        return False
    return earlier in xid.sympathetic_to or (FOLLOWS_ANY in xid.sympathetic_to and not before.sympathetic_to & {code, FOLLOWS_ANY})


def first_causes(events: Iterable[Event]) -> list[Event]:
    """The Xid and SXid events that follow from no other, in the order given. Other kinds of event are left out."""
    ordered = [event for event in events if event.kind in ("kernel.xid", "kernel.sxid")]
    return [event for at, event in enumerate(ordered) if not any(_explains(earlier, event) for earlier in ordered[:at])]


def repeats(events: Iterable[Seen], codes: Sequence[int] = (13, 31)) -> dict[str, Repeat]:
    """Device → how its application-looking errors repeat, for devices with enough of them.

    The same GPC and TPC on every occasion is hardware. One GPU only makes hardware likely; several GPUs make the program likely.
    """
    by_device: dict[str, list[Seen]] = {}
    for event in events:
        if event.kind == "kernel.xid" and event.value in codes and event.device:
            by_device.setdefault(event.device, []).append(event)
    times = {device: _occasions(own) for device, own in sorted(by_device.items())}
    if len(times) > 1 and sum(times.values()) >= ENOUGH_TO_REPEAT and not _dominates(times):
        return dict.fromkeys(times, "scattered")
    return {
        device: "same_tpc" if _one_place(by_device[device]) else "same_gpu"
        for device, occasions in times.items()
        if occasions >= ENOUGH_TO_REPEAT
    }


def _read(row: Mapping[str, str]) -> Xid:
    return Xid(
        code=int(row["xid"]),
        mnemonic=row["mnemonic"],
        meaning=row["meaning"],
        immediate=row["immediate"],
        investigate=row["investigate"],
        kind=row["class"],
        critical=row["critical"],  # type: ignore[arg-type]  # a test reads the whole table
        sympathetic_to=frozenset(_CODES.get(word) or int(word) for word in row["sympathetic_to"].split()),
        generations=tuple(row["generations"].split()),
    )


_CODES = {"any": FOLLOWS_ANY, "sxid": FOLLOWS_SXID}


def _explains(earlier: Seen, event: Seen) -> bool:
    if earlier.boot_id != event.boot_id or not _soon(earlier.time, event.time):
        return False
    if earlier.kind == "kernel.sxid":
        xid = find(int(event.value)) if event.kind == "kernel.xid" else None
        return bool(earlier.attrs.get("fatal")) and xid is not None and FOLLOWS_SXID in xid.sympathetic_to
    if event.kind == "kernel.sxid":
        return bool(earlier.value == 79)  # a GPU that fell off the bus takes its links with it
    return earlier.device == event.device and follows(int(event.value), int(earlier.value))


def _soon(then: datetime | None, now: datetime | None) -> bool:
    return then is None or now is None or 0 <= (now - then).total_seconds() <= TOGETHER_S


def _occasions(events: Sequence[Seen]) -> int:
    """How often it happened: processes that met it, or moments more than TOGETHER_S apart. Where neither is known each event is one."""
    pids = {pid for event in events for pid in (event.attrs.get("pids") or [event.attrs.get("pid")]) if pid is not None}
    spans = sorted(span for event in events if (span := _span(event)))
    if not pids and not spans:
        return len(events)
    moments, until = 0, None
    for first, last, most in spans:
        if until is None or (first - until).total_seconds() > TOGETHER_S:
            moments += 1
        moments += min(most - 1, int((last - first).total_seconds() // TOGETHER_S))
        until = max(last, until or last)
    return max(moments, len(pids))


def _span(event: Seen) -> tuple[datetime, datetime, int] | None:
    """First and last time of an event that stands for several, and how many."""
    first, last = event.attrs.get("first"), event.attrs.get("last")
    if isinstance(first, str) and isinstance(last, str):
        return datetime.fromisoformat(first), datetime.fromisoformat(last), int(event.attrs.get("count", 1))
    return (event.time, event.time, 1) if event.time else None


def _one_place(events: Sequence[Seen]) -> bool:
    """Whether every exception that names a place names the same, on enough occasions."""
    placed = [event for event in events if event.attrs.get("gpc") is not None and event.attrs.get("tpc") is not None]
    places = {(event.attrs["gpc"], event.attrs["tpc"], event.attrs.get("mig")) for event in placed}
    several = any("migs" in event.attrs for event in placed)  # each MIG instance counts its own GPCs
    return len(places) == 1 and not several and _occasions(placed) >= ENOUGH_TO_REPEAT


def _dominates(times: Mapping[str, int]) -> bool:
    """Whether one device has nearly all of them: a stray error elsewhere does not acquit it."""
    most = max(times.values())
    return most >= ENOUGH_TO_REPEAT and most >= 0.75 * sum(times.values())
