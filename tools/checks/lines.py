"""JSON-lines output, and journals without entries."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from kb.scan import split_lines
from tools.checks.check import Format


def parse_json_lines(text: str, longest: int | None = None) -> Iterator[Mapping[str, Any]]:
    """Yield JSON objects in order; skip other lines and lines of `longest` characters or more."""
    for line in split_lines(text):
        if not line.lstrip().startswith("{") or (longest and len(line) >= longest):
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(row, dict):
            yield row


def is_empty_journal(text: str) -> bool:
    return text.strip() == "-- No entries --"


# journalctl found nothing: an answer without facts
EMPTY_JOURNAL_FORMAT = Format("no entries", is_empty_journal, lambda text: ())
