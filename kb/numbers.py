"""Bounded parsing of foreign numbers:

Python rejects 4,300 digits, floats may be infinite, msgpack has 64 bits.
"""

import math
import re

MAX_INTEGER = 2**63 - 1
_WHOLE_PATTERN = re.compile(r"-?[0-9]{1,18}")
_ENDLESS_PATTERN = re.compile(r"[0-9]{19,}")
_DECIMAL_PATTERN = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,12})?")


def parse_integer(value: object) -> int | None:
    """Accept at most 18 ASCII digits, or a 64-bit int; else return None."""
    if isinstance(value, str):
        return int(value) if _WHOLE_PATTERN.fullmatch(value) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= MAX_INTEGER else None


def parse_bounded_count(value: object, most: int) -> int:
    """Clamp to 0..`most`; 0 for no number."""
    if isinstance(value, str):
        return most if _ENDLESS_PATTERN.fullmatch(value) else min(max(parse_integer(value) or 0, 0), most)
    return min(max(value, 0), most) if isinstance(value, int) and not isinstance(value, bool) else 0


def parse_seconds(value: object, most: float) -> float | None:
    """Parse a header's wait time, at most `most`; None for no number."""
    text = str(value) if isinstance(value, str | float) or parse_integer(value) is not None else ""
    return min(float(text), most) if _DECIMAL_PATTERN.fullmatch(text) else None


def is_storable(value: object) -> bool:
    """Reject infinite, NaN and over-wide numbers."""
    if isinstance(value, float):
        return math.isfinite(value)
    return not isinstance(value, int) or abs(value) <= MAX_INTEGER
