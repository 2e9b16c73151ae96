"""Redact the body of a PEM key whose header is missing, recognised by the length and randomness of its lines.

Lines below the header of a certificate or public key stay. Each line is read a bounded number of times.
"""

import re
from collections.abc import Sequence

from kb.secrets.spread import REDACTED

KEY_LINE_SIZES = frozenset({64, 70, 76})  # full line lengths of PEM, OpenSSH and MIME
_TRAILING_CHARS = "\"',;)]} \t\r\\="
_SEPARATOR_PATTERN = re.compile(r"[\s\"'|>\]\[({]")
_BASE64_PATTERN = re.compile(r"[A-Za-z0-9+/]+")
_CLASS_CHANGE_PATTERN = re.compile(r"(?<=[a-z])[A-Z0-9]|(?<=[A-Z])[a-z0-9]|(?<=[0-9])[A-Za-z]")
_HEX_CHARS = frozenset("0123456789abcdefABCDEF")
_PUBLIC_HEADER_PATTERN = re.compile(r"-{4,5} ?BEGIN (?![^-]{0,40}PRIVATE)[A-Z0-9 ]{1,60}-{4,5}")
MAX_HEADER_DISTANCE = 6  # lines from a header to the first body line
MIN_LAST_LINE_CHARS = 8  # minimum length of a key's last line
# A line of random base64 has at least these; all of 100,000 random lines do, while paths, digests and identifiers do not.
MIN_DISTINCT_CHARS = 26
MIN_CHARS_PER_CASE = 9  # upper-case letters, and also lower-case letters
MIN_CLASS_CHANGES = 20  # changes between upper case, lower case and digits


def may_be_key_body(masked: str) -> bool:
    """Return whether a masked line may belong to a key. The test is cheap for other lines."""
    tail = masked[-100:].rstrip(_TRAILING_CHARS)
    if len(tail) < 64 or " " in tail[-64:] or not (tail[-1].isalnum() or tail[-1] in "+/"):
        return False
    last_word = _SEPARATOR_PATTERN.split(tail)[-1]
    return len(last_word) in KEY_LINE_SIZES and not _HEX_CHARS.issuperset(tail[-64:])


def redact_key_bodies(lines: list[str], candidates: Sequence[int]) -> None:
    """Redact, in place, the keys to which the lines with these indexes belong."""
    last = -1
    for candidate in candidates:
        if candidate <= last or not _is_random(_find_base64_word(lines[candidate])):
            continue
        first_allowed = last + 1
        first = last = candidate
        while first > first_allowed and _has_key_shape(lines[first - 1]):
            first -= 1
        while last + 1 < len(lines) and _has_key_shape(lines[last + 1]):
            last += 1
        if (last > first or _is_alone_on_line(lines[candidate])) and not _has_public_header(lines, first):
            _redact_lines(lines, first, last)


def _redact_lines(lines: list[str], first: int, last: int) -> None:
    """Redact the key's full lines, and the shorter line after them if it ends the key."""
    if last + 1 < len(lines) and _is_last_key_line(lines[last + 1]):
        last += 1
    for index in range(first, last + 1):
        line = lines[index]
        word = _find_base64_word(line)
        start = line.rfind(word)
        rest = line[start + len(word) :].lstrip("=")
        lines[index] = f"{line[:start]}{REDACTED}{rest}"


def _is_last_key_line(line: str) -> bool:
    word = _find_base64_word(line)
    if not MIN_LAST_LINE_CHARS <= len(word) < 76:
        return False
    return line.rstrip("\"', \t\r").endswith("=") or _is_mixed(word)


def _find_base64_word(line: str) -> str:
    """Return the line's last word if it is pure base64, else an empty string."""
    last_part = _SEPARATOR_PATTERN.split(line[-120:].rstrip(_TRAILING_CHARS))[-1]
    return last_part if _BASE64_PATTERN.fullmatch(last_part) else ""


def _has_key_shape(line: str) -> bool:
    word = _find_base64_word(line)
    return len(word) in KEY_LINE_SIZES and not _HEX_CHARS.issuperset(word)


def _is_alone_on_line(line: str) -> bool:
    return len(line.strip(" \t\r\"',+;\\=")) in KEY_LINE_SIZES


def _is_random(word: str) -> bool:
    if (
        len(word) not in KEY_LINE_SIZES
        or len(set(word)) < MIN_DISTINCT_CHARS
        or len(_CLASS_CHANGE_PATTERN.findall(word)) < MIN_CLASS_CHANGES
    ):
        return False
    return sum(map(str.isupper, word)) >= MIN_CHARS_PER_CASE and sum(map(str.islower, word)) >= MIN_CHARS_PER_CASE


def _is_mixed(word: str) -> bool:
    return any(map(str.isdigit, word)) and any(map(str.isupper, word)) and any(map(str.islower, word))


def _has_public_header(lines: Sequence[str], first: int) -> bool:
    """Return whether the lines before `first` hold the header of a certificate, public key or signature."""
    lines_before = lines[max(0, first - MAX_HEADER_DISTANCE) : first]
    return any(_PUBLIC_HEADER_PATTERN.search(line[-200:]) for line in lines_before)
