"""Text to search terms: lower case, no filler, light endings cut, numbers kept with the word before them (`xid 79` → `xid79`)."""

import re
import zlib
from collections.abc import Iterable

_WORD = re.compile(r"[a-z0-9_]+")
_NO_TERMS = """
a also an and any anyone are as at be but by can could did do does for from had has have he hello help hi i if in into is it its just me my
of on or our please she should so some than that the their them then there these they this to up us was we were what when which while who
why will with would you your
"""
_FILLER = frozenset(_NO_TERMS.split())
_ENDINGS = (("ies", "y", 5), ("sses", "ss", 6), ("ing", "", 6), ("ed", "", 5), ("s", "", 4))
"""Ending, what takes its place, and how long a word must be."""


def tokens(text: str) -> list[str]:
    """The terms of a text in order, repeats included. At most some thousand characters are worth reading."""
    words = _WORD.findall(text[:20_000].lower())
    found: list[str] = []
    for before, word in zip(["", *words], words, strict=False):
        if word in _FILLER or (word.isdigit() and len(word) > 6):
            continue
        found.append(word if word.isdigit() else _stem(word))
        if word.isdigit() and before.isalpha() and before not in _FILLER:
            found.append(before + word)
        found += [_stem(part) for part in word.split("_") if len(part) > 2] if "_" in word else []
    return found


def index(term: str) -> int:
    """A number for a term that is the same on every machine: what a sparse vector is indexed by."""
    return zlib.crc32(term.encode())


def joined(parts: Iterable[str]) -> str:
    """Several texts as one."""
    return "\n".join(part for part in parts if part)


def _stem(word: str) -> str:
    for ending, put, least in _ENDINGS:
        if len(word) >= least and word.endswith(ending) and not word.endswith("ss") and not word.endswith("us"):
            return word[: -len(ending)] + put
    return word
