"""Decodes NVLink 5 errors (Blackwell, Xid 144 to 150): which unit, how bad, what to do. Pure.

The message's first hex word (intrInfo) selects unit and reason by a bit pattern that changed with driver branch R575, the second
(errorStatus) the error.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal

from kb.catalogues.table import rows

CODES = range(144, 151)
Severity = Literal["fatal", "link", "nonfatal"]
_WORST: Mapping[str, int] = {"fatal": 2, "link": 1, "nonfatal": 0}


@dataclass(frozen=True, slots=True)
class Decoded:
    """`action` is for now, `investigate` for later."""

    xid: int
    unit: str
    action: str
    investigate: str
    severity: Severity


@dataclass(frozen=True, slots=True)
class _Row:
    decoded: Decoded
    old: str
    new: str
    status: tuple[int, ...]

    def fits(self, intrinfo: int, errorstatus: int, before_r575: bool) -> bool:
        return _matches(self.old if before_r575 else self.new, intrinfo) and _has(self.status, errorstatus)


def decode(xid: int, intrinfo: int | str, errorstatus: int | str, driver: str = "") -> Decoded | None:
    """What an error means, or None where the table does not say. Of several errors reported at once the worst.

    Words may be numbers or hex text. `driver` (`570.86.15`) selects the layout; without it the newer one is tried first.
    """
    try:
        words = _number(intrinfo), _number(errorstatus)
    except ValueError:
        return None
    layouts = (True, False) if driver and _branch(driver) < 575 else (False, True)
    for before_r575 in layouts[:1] if driver else layouts:
        found = [row.decoded for row in _rows() if row.decoded.xid == xid and row.fits(*words, before_r575)]
        if found:
            return max(found, key=lambda row: _WORST[row.severity])
    return None


@cache
def _rows() -> tuple[_Row, ...]:
    return tuple(row for fields in rows("nvlink5") for row in _read(fields))


def _read(row: Mapping[str, str]) -> Iterable[_Row]:
    status = tuple(int(word, 16) for word in row["errorstatus"].split("/") if word)
    yield _Row(_decoded(row, row["action"]), row["intrinfo_before_r575"], row["intrinfo"], status)
    if row["action2"]:
        yield _Row(_decoded(row, row["action2"]), row["action2_intrinfo_before_r575"], row["action2_intrinfo"], status)


def _decoded(row: Mapping[str, str], action: str) -> Decoded:
    return Decoded(
        xid=int(row["xid"]),
        unit=row["unit"],
        action=action,
        investigate=row["investigate"],
        severity=row["severity"],  # type: ignore[arg-type]  # a test reads the whole table
    )


def _matches(pattern: str, word: int) -> bool:
    bits = f"{word & 0xFFFFFFFF:032b}"
    return bool(pattern) and all(want in ("-", have) for want, have in zip(pattern, bits, strict=True))


def _has(wanted: tuple[int, ...], status: int) -> bool:
    """An empty column fits anything. One-bit errors may be reported together; numbers must be equal."""
    return not wanted or any(status == want or (_one_bit(want) and status & want) for want in wanted)


def _one_bit(number: int) -> bool:
    return number.bit_count() == 1


def _number(word: int | str) -> int:
    return word if isinstance(word, int) else int(word, 16)


def _branch(driver: str) -> int:
    head = driver.partition(".")[0]
    return int(head) if head.isdigit() else 575
