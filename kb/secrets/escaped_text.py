"""Secrets in escaped texts, such as JSON in JSON, decoded level by level."""

import re
from array import array
from collections.abc import Callable, Sequence

from kb.secrets.disguise import apply_redactions

MAX_ESCAPE_LEVELS = 4  # JSON in JSON in JSON, quoted by a log
_ESCAPED_PATTERN = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|x([0-9A-Fa-f]{2})|(.))", re.DOTALL)
_ESCAPED_CHARACTERS = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"}
_CODE_POINT_PATTERN = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|x([0-9A-Fa-f]{2}))")
_BACKSLASH_MARK = "\x01"  # stands for an escaped backslash while the other escapes are decoded


def has_escapes(text: str) -> bool:
    return "\\" in text


def unescape_once(text: str) -> str:
    """Decode one level of escapes. This is much faster than the variant that tracks positions."""
    if _BACKSLASH_MARK in text:
        return _unescape_with_offsets(text)[0]
    text = text.replace("\\\\", _BACKSLASH_MARK)
    if "\\u" in text or "\\x" in text:
        text = _CODE_POINT_PATTERN.sub(lambda match: chr(int(match[1] or match[2], 16)), text)
    for letter, character in _ESCAPED_CHARACTERS.items():
        text = text.replace(f"\\{letter}", character)
    return text.replace("\\", "").replace(_BACKSLASH_MARK, "\\")


def redact_escaped(line: str, clean: Callable[[str], str]) -> str:
    """Redact what `clean` finds at any level of escaping, and keep all other text as written."""
    decoded_levels, decoded = 0, line
    offsets: Sequence[int] = range(len(line) + 1)  # of each decoded character in `line`
    for level in range(1, MAX_ESCAPE_LEVELS + 1):
        while decoded_levels < level:
            before = decoded
            decoded, new_offsets = _unescape_with_offsets(decoded)
            offsets = array("q", (offsets[offset] for offset in new_offsets))
            decoded_levels += 1
            if decoded == before:  # a backslash that escapes nothing
                return line
        redacted = clean(decoded)
        if redacted != decoded:
            line = apply_redactions(line, decoded, offsets, redacted)
            decoded_levels, decoded, offsets = 0, line, range(len(line) + 1)  # decode the changed line from its first level
        elif not has_escapes(decoded):
            break
    return line


def _unescape_with_offsets(text: str) -> tuple[str, Sequence[int]]:
    """Decode one level; also return the offset in `text` of each decoded character and of the end."""
    parts: list[str] = []
    offsets = array("q")
    end = 0
    for match in _ESCAPED_PATTERN.finditer(text):
        code, letter = match[1] or match[2], match[3]
        decoded = chr(int(code, 16)) if code else _ESCAPED_CHARACTERS.get(letter, letter)
        parts += (text[end : match.start()], decoded)
        offsets.extend(range(end, match.start()))
        offsets.append(match.start())
        end = match.end()
    parts.append(text[end:])
    offsets.extend(range(end, len(text) + 1))
    return "".join(parts), offsets
