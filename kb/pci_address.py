"""PCI addresses in one spelling: `0000:9b:00.0`."""

import re

_BDF_PATTERN = re.compile(r"(?:PCI:)?(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}):([0-9a-f]{2})(?:\.([0-7]))?", re.IGNORECASE)


def normalize_bdf(text: str) -> str | None:
    """Convert `9B:00`, `PCI:0000:9b:00`, `9b:00.0` or `00000000:9B:00.0` to `0000:9b:00.0`; else None."""
    match = _BDF_PATTERN.fullmatch(text.strip())
    if not match:
        return None
    domain, bus, slot, function = match.groups()
    return f"{int(domain or '0', 16):04x}:{bus}:{slot}.{function or 0}".lower()
