"""Outputs of many lines: one JSON object a line among whatever else stands there, and a journal that holds nothing of what was asked for."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from kb.scan import lines_in
from tools.checks.row import Format


def objects(text: str, longest: int | None = None) -> Iterator[Mapping[str, Any]]:
    """The objects in their order; a line that is none, or has `longest` characters or more, is passed over."""
    for line in lines_in(text):
        if not line.lstrip().startswith("{") or (longest and len(line) >= longest):
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(row, dict):
            yield row


def is_without_entries(text: str) -> bool:
    """Whether the journal holds no line of what was asked for."""
    return text.strip() == "-- No entries --"


WITHOUT_ENTRIES = Format("no entries", is_without_entries, lambda text: ())
"""All that journalctl prints where there is nothing to print: an answer, and no fact."""
