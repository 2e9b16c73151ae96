"""Bounded parsing of foreign numbers:

Python rejects 4,300 digits, floats may be infinite, msgpack has 64 bits. Pure.
"""

import math
import re

MAX_INTEGER = 2**63 - 1
_WHOLE_PATTERN = re.compile(r"-?[0-9]{1,18}")
_ENDLESS_PATTERN = re.compile(r"[0-9]{19,}")
_DECIMAL_PATTERN = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,12})?")


def parse_integer(said: object) -> int | None:
    """Accept at most 18 ASCII digits, or a 64-bit int; else return None."""
    if isinstance(said, str):
        return int(said) if _WHOLE_PATTERN.fullmatch(said) else None
    return said if isinstance(said, int) and not isinstance(said, bool) and abs(said) <= MAX_INTEGER else None


def parse_bounded_count(said: object, most: int) -> int:
    """Clamp to 0..`most`; 0 for no number."""
    if isinstance(said, str):
        return most if _ENDLESS_PATTERN.fullmatch(said) else min(max(parse_integer(said) or 0, 0), most)
    return min(max(said, 0), most) if isinstance(said, int) and not isinstance(said, bool) else 0


def parse_seconds(said: object, most: float) -> float | None:
    """Parse a header's wait time, at most `most`; None for no number."""
    text = str(said) if isinstance(said, str | float) or parse_integer(said) is not None else ""
    return min(float(text), most) if _DECIMAL_PATTERN.fullmatch(text) else None


def is_storable(said: object) -> bool:
    """Reject infinite, NaN and over-wide numbers."""
    if isinstance(said, float):
        return math.isfinite(said)
    return not isinstance(said, int) or abs(said) <= MAX_INTEGER
