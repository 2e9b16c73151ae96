"""What tools print where a value should be: numbers with units, switches, and the words that stand for "no value"."""

import re
from functools import lru_cache
from typing import Literal

from kb.scan import split_lines
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
    """OK when the cell holds a value; else what the word in its place means. Words nobody knows are values."""
    word = text.strip()
    return _classify_word(word) if len(word) <= 80 else Status.OK


@lru_cache(maxsize=4096)
def _classify_word(cell: str) -> Status:
    """Machines of a fleet print the same few hundred cells over and over."""
    word = cell.strip("[]").strip().lower()
    if word in _ABSENT_WORDS:
        return Status.ABSENT
    if word in _BROKEN_WORDS:
        return Status.UNREADABLE
    if word == "insufficient permissions":
        return Status.DENIED
    return Status.OK


def parse_number(text: str) -> float | None:
    """The number a cell starts with: `16x`, `1980 MHz`, `-2 C`, `1.04858e+06`."""
    match = _NUMBER_PATTERN.match(text.strip())
    return float(match[0]) if match else None


def parse_flag(text: str) -> bool | None:
    """On or off, in any of the spellings of nvidia-smi."""
    word = text.strip().lower()
    return True if word in _ON_WORDS else False if word in _OFF_WORDS else None


def parse_cell(text: str, reads: CellType) -> Value:
    """The cell as the wanted type, None when it is not of that type."""
    if reads == "text":
        return text.strip()[:200]
    if reads == "flag":
        return parse_flag(text)
    value = parse_number(text)
    if value is None or abs(value) > 1e18:
        return None
    return int(value) if reads == "int" else value


def get_first_line(text: str) -> str:
    """The first line that is not blank, shortened: what to show of a text that cannot be read."""
    return next((line.strip()[:160] for line in split_lines(text) if line.strip()), "")
