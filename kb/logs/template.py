"""Mask the variable parts of a line, so that lines of one statement share a template.

An Xid's number and device are never masked. Lines arrive with zeroed digits (`kb.needle_search.zero_digits`).
"""

import re
from collections.abc import Callable, Sequence

from kb.needle_search import zero_digits

XID_PATTERN = re.compile(r"S?Xid \([^)]{1,40}\): \d{1,6}")
# needle that must occur, pattern, replacement
_MASKS = (
    ("\x1b[", re.compile(r"\x1b\[[0-9;]{0,12}m"), ""),
    ("00:00:00",
     re.compile(r"\b0000-00-00[T ]00:00:00(?:[.,]0{1,9})?(?: ?(?:Z\b|UTC\b|[+-]00:?00))?|\b[A-Z][a-z]{2} +0{1,2} 00:00:00(?:\.0+)?(?: 0000)?|"
                r"\b[EWIF]0{3,4} 00:00:00(?:\.0+)?|\b00:00:00(?:[.,]0{1,9})?\b"), "<time>"),
    ("0.0", re.compile(r"^(<0{1,3}>)?\[ *0+\.0+\]"), "[<time>]"),
    ("-", re.compile(r"\b[0a-fA-F]{8}-[0a-fA-F]{4}-[0a-fA-F]{4}-[0a-fA-F]{4}-[0a-fA-F]{12}\b"), "<uuid>"),
    (":", re.compile(r"\b[0a-fA-F]{4}:[0a-fA-F]{2}:[0a-fA-F]{2}(?:\.0)?\b"), "<pci>"),
    ("0.0", re.compile(r"\b0{1,3}\.0{1,3}\.0{1,3}\.0{1,3}(?::0{1,5}|<0{1,5}>)?"), "<ip>"),
    ("0", re.compile(r"\b0[xX][0a-fA-F_]+\b|\b(?=[a-fA-F]{0,63}0)[0a-fA-F]{8,64}\b"), "<hex>"),
    ("/", re.compile(r"(?<![\w<])/(?:[\w.@+=-]{1,255}/){1,40}[\w.@+=-]{0,255}"), "<path>"),
    ("|", re.compile(r"\|[^|\w]{3,300}\|"), "|<bar>|"),
    ("0", re.compile(r"(?<![A-Za-z])[+-]?0+(?:[.,]0+)*(?:e[+-]?0+)?%?|0+"), "<n>"),
    ("<n>", re.compile(r"(?:<n>[ ,:x/]{1,3}){3,}<n>"), "<n>…"),
)  # fmt: skip
_UUID_PATTERN = re.compile(r"\b[0a-f]{8}(?<![.,:+-]........)(?<!0 ........)-[0a-f]{4}-[0a-f]{4}-[0a-f]{4}-[0a-f]{12}\b")
_MAYBE_UUID_PATTERN = re.compile(r"-[0a-f]{4}-[0a-f]{4}-[0a-f]{4}-[0a-f]{12}")
# Hashes and addresses that `mask_line` masks in any position; not where a time, address or number may start or
# continue. Starting with a character and looking back is much faster than starting with a lookbehind.
_HEX_PATTERN = re.compile(
    r"[0a-f](?<![\w.,:+-].)(?:(?=[0a-f]{7})|(?<=0)(?=x))(?<!0 .)"
    r"(?<=(?=0x|(?=0{0,63}[a-f])(?=[a-f]{0,63}0)).)(?:x[0a-f_]+|[0a-f]{7,63})\b(?!-)"
)
_HEX_TRANSLATION = bytes(ord("0") if chr(code) in "0abcdef" else code for code in range(256))
_HEX_RUN = b"0" * 8


def find_hex_lines(lines: Sequence[bytes]) -> list[int]:
    """Return lines that may hold a hash or address."""
    signs = b"\n".join(lines).translate(_HEX_TRANSLATION).split(b"\n")
    return [at for at, line in enumerate(signs) if _HEX_RUN in line or b"0x" in line]


def unify_hex(text: str) -> str:
    """Replace hashes and addresses by one value: the template stays, many lines become equal."""
    if _MAYBE_UUID_PATTERN.search(text):
        text = _UUID_PATTERN.sub("aaaaaaa0-aaa0-aaa0-aaa0-aaaaaaaaaaa0", text)
    return _HEX_PATTERN.sub("aaaaaaa0", text)


def mask_line(line: str) -> str:
    """Return the template of a line with zeroed digits."""
    for needle, pattern, name in _MASKS:
        if needle in line:
            line = pattern.sub(name, line)
    return line.strip()


def mask_around_xid(line: str, masked: Callable[[str], str] = mask_line) -> str:
    """Return a raw line's template, keeping the Xid's device and number."""
    match = XID_PATTERN.search(line)
    if not match:
        return masked(zero_digits(line))
    return f"{masked(zero_digits(line[: match.start()]))} {match[0]}{masked(zero_digits(line[match.end() :]))}".strip()


def build_template(line: str) -> str:
    """Return the template of a raw line's first 400 characters."""
    return mask_line(zero_digits(line)[:400])
