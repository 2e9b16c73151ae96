"""Lines of a key in PEM that nothing names: what a log cut off, or what was pasted without its first line. They are told by their size and by how
little they are like words, numbers or digests. Lines that a header calls public stay.

Takes the lines and changes them in place; each is looked at a bounded number of times."""

import re
from collections.abc import Sequence

from kb.secrets.spread import GONE

SIZES = frozenset({64, 70, 76})
"""Characters of a whole line: PEM, OpenSSH's own, MIME."""
_TAIL = "\"',;)]} \t\r\\="
_PARTS = re.compile(r"[\s\"'|>\]\[({]")
_WORD = re.compile(r"[A-Za-z0-9+/]+")
_CHANGES = re.compile(r"(?<=[a-z])[A-Z0-9]|(?<=[A-Z])[a-z0-9]|(?<=[0-9])[A-Za-z]")
_HEX = frozenset("0123456789abcdefABCDEF")
_PUBLIC = re.compile(r"-{4,5} ?BEGIN (?![^-]{0,40}PRIVATE)[A-Z0-9 ]{1,60}-{4,5}")
MOST_ABOVE, SHORTEST_END = 6, 8
"""Lines between a header and the first line below it; characters of a key's last line."""
DISTINCT, OF_A_CASE, CHANGES = 26, 9, 20
"""Of a line of random base64: different characters, letters of either case at least, and places where one kind of character follows another. Of 100,000
random lines all have more; paths, digests and identifiers have fewer."""


def like_a_body(masked: str) -> bool:
    """Whether a line in lower case, its digits alike, may be one of a key's. Cheap for what is not."""
    said = masked[-100:].rstrip(_TAIL)
    if len(said) < 64 or " " in said[-64:] or not (said[-1].isalnum() or said[-1] in "+/"):
        return False
    return _size(said) in SIZES and not _HEX.issuperset(said[-64:])


def bodies(lines: list[str], some: Sequence[int]) -> None:
    """Take out the keys that these lines are part of."""
    done = -1
    for at in some:
        if at <= done or not _random(_word(lines[at])):
            continue
        first = at
        while first > max(done + 1, 0) and _shaped(lines[first - 1]):
            first -= 1
        done = at
        while done + 1 < len(lines) and _shaped(lines[done + 1]):
            done += 1
        if (done > first or _bare(lines[at])) and not _public(lines, first):
            _take_out(lines, first, done)


def _take_out(lines: list[str], first: int, last: int) -> None:
    after = lines[last + 1] if last + 1 < len(lines) else ""
    word = _word(after)
    ends = SHORTEST_END <= len(word) < 76 and (after.rstrip("\"', \t\r").endswith("=") or _mixed(word))
    for at in range(first, last + 1 + ends):
        start = lines[at].rfind(_word(lines[at]))
        rest = lines[at][start + len(_word(lines[at])) :].lstrip("=")
        lines[at] = f"{lines[at][:start]}{GONE}{rest}"


def _word(line: str) -> str:
    """The last word of the line where it is base64 alone, else nothing."""
    said = _PARTS.split(line[-120:].rstrip(_TAIL))[-1]
    return said if _WORD.fullmatch(said) else ""


def _size(said: str) -> int:
    return len(_PARTS.split(said)[-1])


def _shaped(line: str) -> bool:
    word = _word(line)
    return len(word) in SIZES and not _HEX.issuperset(word)


def _bare(line: str) -> bool:
    """Whether nothing else stands on the line."""
    return len(line.strip(" \t\r\"',+;\\=")) in SIZES


def _random(word: str) -> bool:
    if len(word) not in SIZES or len(set(word)) < DISTINCT or len(_CHANGES.findall(word)) < CHANGES:
        return False
    return sum(map(str.isupper, word)) >= OF_A_CASE and sum(map(str.islower, word)) >= OF_A_CASE


def _mixed(word: str) -> bool:
    return any(map(str.isdigit, word)) and any(map(str.isupper, word)) and any(map(str.islower, word))


def _public(lines: Sequence[str], first: int) -> bool:
    """Whether a header above says that anybody may read it: a certificate, a public key, a signature."""
    return any(_PUBLIC.search(line[-200:]) for line in lines[max(0, first - MOST_ABOVE) : first])
