"""From a line to its template, and from many templates to few: mask variable parts, merge similar templates, keep the informative."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log

from kb.logs.template_filters import TROUBLE_PATTERN
from kb.needle_search import zero_digits

# Mask variable parts, so that lines of one statement share a template. An Xid's number and device are never masked.
#
# Lines arrive with zeroed digits (`kb.needle_search.zero_digits`).

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


# Reduce templates: merge similar ones, keep the informative, count the rest.

_MIN_SHARED_WORD_RATIO = 0.6
KEPT_LINE_BYTES = 400
_MAX_COMPARED_TEMPLATES = 30  # per shape; further ones are not merged


@dataclass(slots=True)
class TemplateTally:
    """A template being counted. `fixed` ones (Xids) are never merged."""

    text: str
    count: int
    offset: int
    last_offset: int
    first: bytes
    last: bytes
    fixed: bool = False

    def add_lines(self, count: int, offset: int, last_offset: int, first: bytes, last: bytes) -> None:
        if offset < self.offset:
            self.offset, self.first = offset, first[:KEPT_LINE_BYTES]
        if last_offset > self.last_offset:
            self.last_offset, self.last = last_offset, last[:KEPT_LINE_BYTES]
        self.count += count

    def absorb(self, other: "TemplateTally") -> None:
        self.add_lines(other.count, other.offset, other.last_offset, other.first, other.last)


def select_templates(groups: Sequence[TemplateTally], limit: int) -> tuple[list[TemplateTally], int]:
    """Return at most `limit` templates in order, and the others' line count."""
    groups_kept = _merge_alike(groups) if len(groups) > limit else list(groups)
    size = max((group.last_offset for group in groups_kept), default=0) + 1
    ranked = sorted(groups_kept, key=lambda group: -score_template(group.text, group.count, group.last_offset / size, fixed=group.fixed))
    chosen, rest = ranked[:limit], ranked[limit:]
    return sorted(chosen, key=lambda group: group.offset), sum(group.count for group in rest)


def score_template(text: str, count: int, place: float, *, fixed: bool = False) -> float:
    """Score by Xid, trouble word, rarity and lateness (`place`: 0 to 1)."""
    return (8.0 if fixed else 0.0) + (5.0 if has_trouble_word(text) else 0.0) + 2.0 * place - log(1 + count)


def has_trouble_word(text: str) -> bool:
    """Return whether a template matches TROUBLE_PATTERN."""
    return TROUBLE_PATTERN.search(text.lower()) is not None


def _merge_alike(groups: Sequence[TemplateTally]) -> list[TemplateTally]:
    shapes: dict[tuple[int, str], list[TemplateTally]] = {}
    tallies: list[TemplateTally] = []
    for group in groups:
        words = group.text.split(" ")
        if group.fixed:
            tallies.append(group)
            continue
        same_shape = shapes.setdefault((len(words), words[0]), [])
        for other in same_shape[:_MAX_COMPARED_TEMPLATES]:
            if text := _find_common_words(other.text.split(" "), words):
                other.absorb(group)
                other.text = text
                break
        else:
            same_shape.append(group)
            tallies.append(group)
    return tallies


def _find_common_words(one: list[str], other: list[str]) -> str | None:
    """`<*>` where words differ; None if too few are shared or a trouble word differs."""
    differing = [place for place, (a, b) in enumerate(zip(one, other, strict=True)) if a != b]
    if len(differing) > (1 - _MIN_SHARED_WORD_RATIO) * len(one) or any(
        TROUBLE_PATTERN.search(f"{one[at]} {other[at]}".lower()) for at in differing
    ):
        return None
    return " ".join("<*>" if place in differing else word for place, word in enumerate(one))
