"""Secrets in escaped texts, such as JSON in JSON, decoded level by level."""

import re
from array import array
from collections.abc import Callable, Sequence

from kb.secrets.disguise import apply_redactions

MAX_ESCAPE_LEVELS = 4  # JSON in JSON in JSON, quoted by a log
_ESCAPED_PATTERN = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|x([0-9A-Fa-f]{2})|(.))", re.DOTALL)
_ESCAPE_MEANINGS = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"}
_CODED_PATTERN = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|x([0-9A-Fa-f]{2}))")
_BACKSLASH_MARK = "\x01"


def has_escapes(text: str) -> bool:
    return "\\" in text


def unescape_once(text: str) -> str:
    """Decode one level, fast and without positions."""
    if _BACKSLASH_MARK in text:
        return _unescape_with_places(text)[0]
    text = text.replace("\\\\", _BACKSLASH_MARK)
    if "\\u" in text or "\\x" in text:
        text = _CODED_PATTERN.sub(lambda found: chr(int(found[1] or found[2], 16)), text)
    for sign, means in _ESCAPE_MEANINGS.items():
        text = text.replace(f"\\{sign}", means)
    return text.replace("\\", "").replace(_BACKSLASH_MARK, "\\")


def redact_escaped(line: str, clean: Callable[[str], str]) -> str:
    """Redact what `clean` finds at any level; keep all else as written."""
    level, depth, plain = 0, 0, line
    places: Sequence[int] = range(len(line) + 1)
    while level < MAX_ESCAPE_LEVELS:
        level += 1
        while depth < level:
            before = plain
            plain, further = _unescape_with_places(plain)
            places = array("q", (places[at] for at in further))
            depth += 1
            if plain == before:  # a backslash that escapes nothing
                return line
        redacted = clean(plain)
        if redacted != plain:
            line = apply_redactions(line, plain, places, redacted)
            depth, plain, places = 0, line, range(len(line) + 1)
        elif not has_escapes(plain):
            break
    return line


def _unescape_with_places(text: str) -> tuple[str, Sequence[int]]:
    parts: list[str] = []
    places = array("q")
    at = 0
    for match in _ESCAPED_PATTERN.finditer(text):
        code, sign = match[1] or match[2], match[3]
        parts += (text[at : match.start()], chr(int(code, 16)) if code else _ESCAPE_MEANINGS.get(sign, sign))
        places.extend(range(at, match.start()))
        places.append(match.start())
        at = match.end()
    parts.append(text[at:])
    places.extend(range(at, len(text) + 1))
    return "".join(parts), places
