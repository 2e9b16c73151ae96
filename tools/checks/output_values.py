"""Read values in tool output: numbers, switches, placeholders for missing values, JSON lines, empty journals."""

import json
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Literal

from kb.needle_search import split_lines
from tools.checks.check_types import Format
from tools.fact import Status, Value

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
    """Return OK for a value, else what the placeholder means. A word that is no known placeholder is a value."""
    word = text.strip()
    return _classify_word(word) if len(word) <= 80 else Status.OK


@lru_cache(maxsize=4096)
def _classify_word(cell: str) -> Status:
    # Cached, because a fleet prints the same few hundred cells.
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
    """Return whether the cell means on, in any spelling of nvidia-smi; None if it is no switch."""
    word = text.strip().lower()
    if word in _ON_WORDS:
        return True
    return False if word in _OFF_WORDS else None


def parse_cell(text: str, reads: CellType) -> Value:
    """Return the cell's value as the given type; None if the text is no such value."""
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


def parse_json_lines(text: str, max_chars: int | None = None) -> Iterator[Mapping[str, Any]]:
    """Yield the JSON objects in order. Skip other lines, and lines of `max_chars` characters or more."""
    for line in split_lines(text):
        if not line.lstrip().startswith("{") or (max_chars and len(line) >= max_chars):
            continue
        try:
            document = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(document, dict):
            yield document


def is_empty_journal(text: str) -> bool:
    return text.strip() == "-- No entries --"


# journalctl found nothing: an answer without facts
EMPTY_JOURNAL_FORMAT = Format("no entries", is_empty_journal, lambda text: ())
