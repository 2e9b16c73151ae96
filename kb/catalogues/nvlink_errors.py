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
    """A decoded error, with NVIDIA's immediate `action` and what to `investigate` later."""

    xid: int
    unit: str
    action: str
    investigate: str
    severity: Severity


@dataclass(frozen=True, slots=True)
class _ErrorPattern:
    """The bits by which an error is recognised, in both layouts of the first word."""

    error: NvlinkError
    intrinfo_before_r575: str
    intrinfo: str
    status: tuple[int, ...]

    def matches(self, intrinfo: int, errorstatus: int, before_r575: bool) -> bool:
        bit_pattern = self.intrinfo_before_r575 if before_r575 else self.intrinfo
        return _matches_bits(bit_pattern, intrinfo) and _matches_status(self.status, errorstatus)


def decode_nvlink_error(xid: int, intrinfo: int | str, errorstatus: int | str, driver: str = "") -> NvlinkError | None:
    """Return the decoded error, or None. Of several errors at once it is the most severe.

    Words are numbers or hex text. `driver` (`570.86.15`) selects the layout; without it the newer one is tried first.
    """
    try:
        words = _parse_hex(intrinfo), _parse_hex(errorstatus)
    except ValueError:
        return None
    layouts = [_parse_driver_branch(driver) < 575] if driver else [False, True]
    for before_r575 in layouts:
        errors = [
            pattern.error for pattern in _load_patterns() if pattern.error.xid == xid and pattern.matches(*words, before_r575=before_r575)
        ]
        if errors:
            return max(errors, key=lambda error: _SEVERITY_RANKS[error.severity])
    return None


@cache
def _load_patterns() -> tuple[_ErrorPattern, ...]:
    return tuple(pattern for row in load_table("nvlink5") for pattern in _parse_row(row))


def _parse_row(row: Mapping[str, str]) -> Iterable[_ErrorPattern]:
    status = tuple(int(word, 16) for word in row["errorstatus"].split("/") if word)
    yield _ErrorPattern(_build_error(row, row["action"]), row["intrinfo_before_r575"], row["intrinfo"], status)
    if row["action2"]:
        yield _ErrorPattern(_build_error(row, row["action2"]), row["action2_intrinfo_before_r575"], row["action2_intrinfo"], status)


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
    return bool(pattern) and all(expected in ("-", bit) for expected, bit in zip(pattern, bits, strict=True))


def _matches_status(expected_errors: tuple[int, ...], status: int) -> bool:
    """Return whether a status holds one of the errors. Without any expected error every status matches."""
    if not expected_errors:
        return True
    for error in expected_errors:
        is_flag = error.bit_count() == 1  # flags may be set together, other numbers must be equal
        if status == error or (is_flag and status & error):
            return True
    return False


def _parse_hex(word: int | str) -> int:
    return word if isinstance(word, int) else int(word, 16)


def _parse_driver_branch(driver: str) -> int:
    head = driver.partition(".")[0]
    return int(head) if head.isdigit() else 575
