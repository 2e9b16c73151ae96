"""Decode NVLink 5 errors (Blackwell, Xid 144 to 150).

The first hex word (intrInfo) selects unit and reason by bits that changed with driver branch R575; the second
(errorStatus) is the error.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal

from kb.catalogues.table import load_table

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
