"""Error numbers of GPUs and NVSwitches: Xid, SXid, and NVLink 5. Pure look-ups."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, Literal, Protocol

from kb.catalogues.table import load_table

# Xid codes: meaning, action, and what repeats imply.

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
    """An Xid event, as kb.logs.log_lines.LogEvent."""

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


# SXid error codes of NVSwitches up to Hopper. Pure look-ups.

Fatal = Literal["always", "potentially", "no", "unstated"]


@dataclass(frozen=True, slots=True)
class SXid:
    """One code. `fatal` follows the fabric manager guide; the kernel message takes precedence."""

    code: int
    name: str
    unit: str
    meaning: str
    fatal: Fatal


@cache
def load_sxids() -> Mapping[int, SXid]:
    """Return every code that the switch driver can print."""
    return {
        int(row["sxid"]): SXid(int(row["sxid"]), row["name"], row["unit"], row["meaning"], row["fatal"])  # type: ignore[arg-type]  # tested
        for row in load_table("sxid")
    }


def find_sxid(code: int) -> SXid | None:
    """Return a code's row, or None."""
    return load_sxids().get(code)


# Decode NVLink 5 errors (Blackwell, Xid 144 to 150). Pure.
#
# The first hex word (intrInfo) selects unit and reason by bits that changed with driver branch R575; the second
# (errorStatus) is the error.

NVLINK5_XIDS = range(144, 151)
Severity = Literal["fatal", "link", "nonfatal"]
_SEVERITY_RANKS: Mapping[str, int] = {"fatal": 2, "link": 1, "nonfatal": 0}


@dataclass(frozen=True, slots=True)
class NvlinkError:
    """A decoded error. `action` is immediate, `investigate` for later."""

    xid: int
    unit: str
    action: str
    investigate: str
    severity: Severity


@dataclass(frozen=True, slots=True)
class _TableRow:
    decoded: NvlinkError
    old: str
    new: str
    status: tuple[int, ...]

    def matches(self, intrinfo: int, errorstatus: int, before_r575: bool) -> bool:
        return _matches_bits(self.old if before_r575 else self.new, intrinfo) and _matches_status(self.status, errorstatus)


def decode_nvlink_error(xid: int, intrinfo: int | str, errorstatus: int | str, driver: str = "") -> NvlinkError | None:
    """Return the decoded error, the most severe of simultaneous ones, or None.

    Words are numbers or hex text. `driver` (`570.86.15`) selects the layout; without it the newer one is tried first.
    """
    try:
        words = _parse_hex(intrinfo), _parse_hex(errorstatus)
    except ValueError:
        return None
    layouts = (True, False) if driver and _parse_driver_branch(driver) < 575 else (False, True)
    for before_r575 in layouts[:1] if driver else layouts:
        matching_rows = [row.decoded for row in _load_rows() if row.decoded.xid == xid and row.matches(*words, before_r575)]
        if matching_rows:
            return max(matching_rows, key=lambda row: _SEVERITY_RANKS[row.severity])
    return None


@cache
def _load_rows() -> tuple[_TableRow, ...]:
    return tuple(row for fields in load_table("nvlink5") for row in _parse_nvlink_row(fields))


def _parse_nvlink_row(row: Mapping[str, str]) -> Iterable[_TableRow]:
    status = tuple(int(word, 16) for word in row["errorstatus"].split("/") if word)
    yield _TableRow(_build_error(row, row["action"]), row["intrinfo_before_r575"], row["intrinfo"], status)
    if row["action2"]:
        yield _TableRow(_build_error(row, row["action2"]), row["action2_intrinfo_before_r575"], row["action2_intrinfo"], status)


def _build_error(row: Mapping[str, str], action: str) -> NvlinkError:
    return NvlinkError(
        xid=int(row["xid"]),
        unit=row["unit"],
        action=action,
        investigate=row["investigate"],
        severity=row["severity"],  # type: ignore[arg-type]  # a test reads the whole table
    )


def _matches_bits(pattern: str, word: int) -> bool:
    bits = f"{word & 0xFFFFFFFF:032b}"
    return bool(pattern) and all(want in ("-", have) for want, have in zip(pattern, bits, strict=True))


def _matches_status(wanted: tuple[int, ...], status: int) -> bool:
    """Empty matches anything. Single-bit errors may be combined; numbers must be equal."""
    return not wanted or any(status == want or (_is_one_bit(want) and status & want) for want in wanted)


def _is_one_bit(number: int) -> bool:
    return number.bit_count() == 1


def _parse_hex(word: int | str) -> int:
    return word if isinstance(word, int) else int(word, 16)


def _parse_driver_branch(driver: str) -> int:
    head = driver.partition(".")[0]
    return int(head) if head.isdigit() else 575
