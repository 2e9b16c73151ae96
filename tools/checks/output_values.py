"""Values in tool output: numbers, switches, placeholders for missing values, JSON lines."""

import json
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Literal

from kb.needle_search import split_lines
from tools.checks.check_types import Format
from tools.fact import Status, Value

# Cells of tool output: numbers, switches, and placeholders for missing values.

CellType = Literal["int", "float", "flag", "text"]
_ABSENT_WORDS = {
    "n/a",
    "",
    "not supported",
    "not available",
    "requested functionality has been deprecated",
    "not found",
    "unsupported",
    "-",
}
_BROKEN_WORDS = {"unknown error", "err!", "error", "gpu requires reset", "gpu is lost", "unknown"}
_NUMBER_PATTERN = re.compile(r"[+-]?\d{1,18}(?:\.\d{1,9})?(?:[eE][+-]?\d{1,3})?")
_ON_WORDS = {"active", "enabled", "yes", "true", "on"}
_OFF_WORDS = {"not active", "disabled", "no", "false", "off"}


def classify_cell(text: str) -> Status:
    """Return OK for a value, else the placeholder's meaning. Unknown words are values."""
    word = text.strip()
    return _classify_word(word) if len(word) <= 80 else Status.OK


@lru_cache(maxsize=4096)
def _classify_word(cell: str) -> Status:
    """Cached: a fleet prints the same few hundred cells."""
    word = cell.strip("[]").strip().lower()
    if word in _ABSENT_WORDS:
        return Status.ABSENT
    if word in _BROKEN_WORDS:
        return Status.UNREADABLE
    if word == "insufficient permissions":
        return Status.DENIED
    return Status.OK


def parse_number(text: str) -> float | None:
    """Return the leading number: `16x`, `1980 MHz`, `-2 C`, `1.04858e+06`."""
    match = _NUMBER_PATTERN.match(text.strip())
    return float(match[0]) if match else None


def parse_flag(text: str) -> bool | None:
    """Return on or off in nvidia-smi's spellings."""
    word = text.strip().lower()
    return True if word in _ON_WORDS else False if word in _OFF_WORDS else None


def parse_cell(text: str, reads: CellType) -> Value:
    """Return the cell as the type, None if it does not fit."""
    if reads == "text":
        return text.strip()[:200]
    if reads == "flag":
        return parse_flag(text)
    value = parse_number(text)
    if value is None or abs(value) > 1e18:
        return None
    return int(value) if reads == "int" else value


def get_first_line(text: str) -> str:
    """Return the first non-blank line, shortened."""
    return next((line.strip()[:160] for line in split_lines(text) if line.strip()), "")


# JSON-lines output, and journals without entries.


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
