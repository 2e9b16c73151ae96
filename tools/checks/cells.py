"""What tools print where a value should be: numbers with units, switches, and the words that stand for "no value"."""

import re
from functools import lru_cache
from typing import Literal

from kb.scan import lines_in
from tools.fact import Status, Value

Reads = Literal["int", "float", "flag", "text"]

_ABSENT = {"n/a", "", "not supported", "not available", "requested functionality has been deprecated", "not found", "unsupported", "-"}
_BROKEN = {"unknown error", "err!", "error", "gpu requires reset", "gpu is lost", "unknown"}
_NUMBER = re.compile(r"[+-]?\d{1,18}(?:\.\d{1,9})?(?:[eE][+-]?\d{1,3})?")
_ON = {"active", "enabled", "yes", "true", "on"}
_OFF = {"not active", "disabled", "no", "false", "off"}


def standing(text: str) -> Status:
    """OK when the cell holds a value; else what the word in its place means. Words nobody knows are values."""
    word = text.strip()
    return _meaning(word) if len(word) <= 80 else Status.OK


@lru_cache(maxsize=4096)
def _meaning(cell: str) -> Status:
    """Machines of a fleet print the same few hundred cells over and over."""
    word = cell.strip("[]").strip().lower()
    if word in _ABSENT:
        return Status.ABSENT
    if word in _BROKEN:
        return Status.UNREADABLE
    if word == "insufficient permissions":
        return Status.DENIED
    return Status.OK


def number(text: str) -> float | None:
    """The number a cell starts with: `16x`, `1980 MHz`, `-2 C`, `1.04858e+06`."""
    match = _NUMBER.match(text.strip())
    return float(match[0]) if match else None


def flag(text: str) -> bool | None:
    """On or off, in any of the spellings of nvidia-smi."""
    word = text.strip().lower()
    return True if word in _ON else False if word in _OFF else None


def read(text: str, reads: Reads) -> Value:
    """The cell as the wanted type, None when it is not of that type."""
    if reads == "text":
        return text.strip()[:200]
    if reads == "flag":
        return flag(text)
    value = number(text)
    if value is None or abs(value) > 1e18:
        return None
    return int(value) if reads == "int" else value


def first_line(text: str) -> str:
    """The first line that is not blank, shortened: what to show of a text that cannot be read."""
    return next((line.strip()[:160] for line in lines_in(text) if line.strip()), "")
