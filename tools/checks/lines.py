"""Outputs of many lines: one JSON object a line among whatever else stands there, and a journal that holds nothing of what was asked for."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from kb.scan import split_lines
from tools.checks.check import Format


def parse_json_lines(text: str, longest: int | None = None) -> Iterator[Mapping[str, Any]]:
    """The objects in their order; a line that is none, or has `longest` characters or more, is passed over."""
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
    """Whether the journal holds no line of what was asked for."""
    return text.strip() == "-- No entries --"


EMPTY_JOURNAL_FORMAT = Format("no entries", is_empty_journal, lambda text: ())
"""All that journalctl prints where there is nothing to print: an answer, and no fact."""
