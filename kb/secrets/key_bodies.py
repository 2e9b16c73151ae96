"""Lines of a PEM key without header, recognised by length and randomness. Lines under a public header stay.

Changes lines in place; each is read a bounded number of times.
"""

import re
from collections.abc import Sequence

from kb.secrets.spread import REDACTED

KEY_LINE_SIZES = frozenset({64, 70, 76})  # full line lengths of PEM, OpenSSH and MIME
_TRAILING_CHARS = "\"',;)]} \t\r\\="
_PARTS_PATTERN = re.compile(r"[\s\"'|>\]\[({]")
_WORD_PATTERN = re.compile(r"[A-Za-z0-9+/]+")
_CHANGES_PATTERN = re.compile(r"(?<=[a-z])[A-Z0-9]|(?<=[A-Z])[a-z0-9]|(?<=[0-9])[A-Za-z]")
_HEX_CHARS = frozenset("0123456789abcdefABCDEF")
_PUBLIC_PATTERN = re.compile(r"-{4,5} ?BEGIN (?![^-]{0,40}PRIVATE)[A-Z0-9 ]{1,60}-{4,5}")
MAX_HEADER_DISTANCE = 6  # lines from a header to the first body line
MIN_LAST_LINE_CHARS = 8  # minimum length of a key's last line
# Of a line of random base64: distinct characters, letters of each case, and changes of character class. All of 100,000
# random lines have more; paths, digests and identifiers have fewer.
MIN_DISTINCT_CHARS = 26
MIN_CHARS_PER_CASE = 9
MIN_CHANGES = 20


def may_be_key_body(masked: str) -> bool:
    """Test a masked line. Cheap for other lines."""
    tail = masked[-100:].rstrip(_TRAILING_CHARS)
    if len(tail) < 64 or " " in tail[-64:] or not (tail[-1].isalnum() or tail[-1] in "+/"):
        return False
    return _measure_last_word(tail) in KEY_LINE_SIZES and not _HEX_CHARS.issuperset(tail[-64:])


def redact_key_bodies(lines: list[str], some: Sequence[int]) -> None:
    """Redact the keys that these lines belong to."""
    redacted_to = -1
    for at in some:
        if at <= redacted_to or not _is_random(_find_base64_word(lines[at])):
            continue
        first = at
        while first > max(redacted_to + 1, 0) and _has_key_shape(lines[first - 1]):
            first -= 1
        redacted_to = at
        while redacted_to + 1 < len(lines) and _has_key_shape(lines[redacted_to + 1]):
            redacted_to += 1
        if (redacted_to > first or _is_alone_on_line(lines[at])) and not _has_public_header(lines, first):
            _redact_span(lines, first, redacted_to)


def _redact_span(lines: list[str], first: int, last: int) -> None:
    after = lines[last + 1] if last + 1 < len(lines) else ""
    word = _find_base64_word(after)
    ends = MIN_LAST_LINE_CHARS <= len(word) < 76 and (after.rstrip("\"', \t\r").endswith("=") or _is_mixed(word))
    for at in range(first, last + 1 + ends):
        start = lines[at].rfind(_find_base64_word(lines[at]))
        rest = lines[at][start + len(_find_base64_word(lines[at])) :].lstrip("=")
        lines[at] = f"{lines[at][:start]}{REDACTED}{rest}"


def _find_base64_word(line: str) -> str:
    """The last word if pure base64, else ""."""
    last_part = _PARTS_PATTERN.split(line[-120:].rstrip(_TRAILING_CHARS))[-1]
    return last_part if _WORD_PATTERN.fullmatch(last_part) else ""


def _measure_last_word(said: str) -> int:
    return len(_PARTS_PATTERN.split(said)[-1])


def _has_key_shape(line: str) -> bool:
    word = _find_base64_word(line)
    return len(word) in KEY_LINE_SIZES and not _HEX_CHARS.issuperset(word)


def _is_alone_on_line(line: str) -> bool:
    return len(line.strip(" \t\r\"',+;\\=")) in KEY_LINE_SIZES


def _is_random(word: str) -> bool:
    if len(word) not in KEY_LINE_SIZES or len(set(word)) < MIN_DISTINCT_CHARS or len(_CHANGES_PATTERN.findall(word)) < MIN_CHANGES:
        return False
    return sum(map(str.isupper, word)) >= MIN_CHARS_PER_CASE and sum(map(str.islower, word)) >= MIN_CHARS_PER_CASE


def _is_mixed(word: str) -> bool:
    return any(map(str.isdigit, word)) and any(map(str.isupper, word)) and any(map(str.islower, word))


def _has_public_header(lines: Sequence[str], first: int) -> bool:
    """A certificate, public key or signature."""
    return any(_PUBLIC_PATTERN.search(line[-200:]) for line in lines[max(0, first - MAX_HEADER_DISTANCE) : first])
