"""Text within text: JSON in JSON, strings of programs, logs that quote logs. It is read as it was meant, one level of escapes after the other."""

import re
from array import array
from collections.abc import Callable, Sequence

from kb.secrets.disguise import apply_redactions

MAX_ESCAPE_LEVELS = 4
"""Texts within each other that are read: JSON in JSON in JSON, and the log that quotes it."""
_ESCAPED_PATTERN = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|x([0-9A-Fa-f]{2})|(.))", re.DOTALL)
_ESCAPE_MEANINGS = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"}
_CODED_PATTERN = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|x([0-9A-Fa-f]{2}))")
_BACKSLASH_MARK = "\x01"


def has_escapes(text: str) -> bool:
    return "\\" in text


def unescape_once(text: str) -> str:
    """The text with one level of its escapes read, quickly: for whoever asks whether there is anything in it."""
    if _BACKSLASH_MARK in text:
        return _unescape_with_places(text)[0]
    text = text.replace("\\\\", _BACKSLASH_MARK)
    if "\\u" in text or "\\x" in text:
        text = _CODED_PATTERN.sub(lambda found: chr(int(found[1] or found[2], 16)), text)
    for sign, means in _ESCAPE_MEANINGS.items():
        text = text.replace(f"\\{sign}", means)
    return text.replace("\\", "").replace(_BACKSLASH_MARK, "\\")


def redact_escaped(line: str, clean: Callable[[str], str]) -> str:
    """The line without the secrets that `clean` finds at any level of its escapes; all else is as it was written."""
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
        said = clean(plain)
        if said != plain:
            line = apply_redactions(line, plain, places, said)
            depth, plain, places = 0, line, range(len(line) + 1)
        elif not has_escapes(plain):
            break
    return line


def _unescape_with_places(text: str) -> tuple[str, Sequence[int]]:
    """One level read, and for each character of it (and its end) where it stands in the text."""
    parts: list[str] = []
    places = array("q")
    at = 0
    for found in _ESCAPED_PATTERN.finditer(text):
        code, sign = found[1] or found[2], found[3]
        parts += (text[at : found.start()], chr(int(code, 16)) if code else _ESCAPE_MEANINGS.get(sign, sign))
        places.extend(range(at, found.start()))
        places.append(found.start())
        at = found.end()
    parts.append(text[at:])
    places.extend(range(at, len(text) + 1))
    return "".join(parts), places
