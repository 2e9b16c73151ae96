"""Parse and format amounts: 70B, 8G, 350ms. Invalid text is refused with an example."""

import math
import re

_FORM_PATTERN = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,9})?)\s{0,3}([a-zA-Zµ]{0,4})")
_COUNT_UNITS = {"": 1.0, "k": 1e3, "m": 1e6, "b": 1e9, "g": 1e9, "t": 1e12}
_BYTE_UNITS = {"": 1.0, "b": 1.0, "k": 2.0**10, "m": 2.0**20, "g": 2.0**30, "t": 2.0**40}
_SECOND_UNITS = {"": 1.0, "s": 1.0, "sec": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "min": 60.0, "m": 60.0, "h": 3600.0}
_MAX_CHARS = 40


class BadQuantity(ValueError):
    """Words that are no such amount."""


def parse_count(text: str) -> float:
    """Parse `70B`, `7.5 b` or `1300`."""
    return _parse_quantity(text, _COUNT_UNITS, "70B or 1.3T")


def parse_bytes(text: str) -> float:
    """Parse `8G` or `512MiB`, in powers of two as in nccl-tests."""
    return _parse_quantity(re.sub(r"(?i)([kmgt])i?b$", r"\1", text.strip()[:_MAX_CHARS]), _BYTE_UNITS, "8G or 512M")


def parse_seconds(text: str) -> float:
    """Parse `12.3s`, `350ms` or `2min`."""
    return _parse_quantity(text, _SECOND_UNITS, "12.3s or 350ms")


def _parse_quantity(text: str, units: dict[str, float], example: str) -> float:
    match = _FORM_PATTERN.fullmatch(text.strip()[:_MAX_CHARS])
    unit = match[2].lower() if match else None
    value = float(match[1]) * units[unit] if match and unit in units else 0.0
    if not 0 < value < math.inf:
        raise BadQuantity(f"{text[:_MAX_CHARS]!r} is no such amount; write it as {example}")
    return value


def format_duration(seconds: float) -> str:
    """`12.3 s`, `350 ms`, `41.2 µs`."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}" if seconds < 1000 * size else f"{seconds / size:,.0f} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def format_bytes(size: float) -> str:
    """`8 GiB`, `64 MiB`."""
    for unit, step in (("GiB", 2.0**30), ("MiB", 2.0**20), ("KiB", 2.0**10)):
        if size >= step:
            return f"{size / step:.4g} {unit}"
    return f"{size:.4g} B"
