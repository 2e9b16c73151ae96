"""Numbers that others wrote, bounded before anything is computed with them. Pure.

Python refuses to read or to print more than 4,300 digits, a float may be infinite or no number, and what is stored as msgpack has 64 bits.
"""

import math
import re

MAX_INTEGER = 2**63 - 1
_WHOLE_PATTERN = re.compile(r"-?[0-9]{1,18}")
_ENDLESS_PATTERN = re.compile(r"[0-9]{19,}")
_DECIMAL_PATTERN = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,12})?")


def parse_integer(said: object) -> int | None:
    """A whole number of at most 18 ASCII digits, or an int within 64 bits; None for anything else."""
    if isinstance(said, str):
        return int(said) if _WHOLE_PATTERN.fullmatch(said) else None
    return said if isinstance(said, int) and not isinstance(said, bool) and abs(said) <= MAX_INTEGER else None


def parse_bounded_count(said: object, most: int) -> int:
    """How many somebody says there are: no less than none, and `most` where it is more. 0 where it is no number."""
    if isinstance(said, str):
        return most if _ENDLESS_PATTERN.fullmatch(said) else min(max(parse_integer(said) or 0, 0), most)
    return min(max(said, 0), most) if isinstance(said, int) and not isinstance(said, bool) else 0


def parse_seconds(said: object, most: float) -> float | None:
    """A time to wait, as a header has it, and no longer than `most`; None where it is no number."""
    text = str(said) if isinstance(said, str | float) or parse_integer(said) is not None else ""
    return min(float(text), most) if _DECIMAL_PATTERN.fullmatch(text) else None


def is_storable(said: object) -> bool:
    """Whether a value can be stored and computed with: no number that is infinite, none at all, or wider than 64 bits."""
    if isinstance(said, float):
        return math.isfinite(said)
    return not isinstance(said, int) or abs(said) <= MAX_INTEGER
