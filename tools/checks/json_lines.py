"""Programs that print one JSON object a line, among whatever else stands there."""

import json
from collections.abc import Iterator, Mapping
from typing import Any


def objects(text: str, longest: int | None = None) -> Iterator[Mapping[str, Any]]:
    """The objects in their order; a line that is none, or has `longest` characters or more, is passed over."""
    for line in text.splitlines():
        if not line.lstrip().startswith("{") or (longest and len(line) >= longest):
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(row, dict):
            yield row
