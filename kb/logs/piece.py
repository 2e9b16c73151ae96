"""Whole lines of a log as they were read, each with its kind: its digits zeros. Where a line stands is told by its number, and only the lines
that somebody looks at become text."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from kb.scan import DIGITS, LONGEST

_BYTES_EACH = 4
"""A character takes as many at most."""


@dataclass(frozen=True, slots=True)
class Piece:
    """`sizes`: of all lines before each, ends of lines apart, and of all of them last."""

    block: bytes
    kinds: list[bytes]
    sizes: list[int]

    def start(self, number: int) -> int:
        """Where the line begins, in bytes."""
        return self.sizes[number] + number

    def raw(self, number: int, most: int) -> bytes:
        """The line, `most` bytes of it."""
        start = self.sizes[number] + number
        return self.block[start : min(self.sizes[number + 1] + number, start + most)]

    def line(self, number: int, most: int = LONGEST) -> str:
        """The line as text, `most` characters of it, without a carriage return at its end."""
        return self.raw(number, most * _BYTES_EACH).decode("utf-8", "replace")[:most].rstrip("\r")

    def lines(self, numbers: Sequence[int]) -> list[str]:
        """Many lines, each as `line` gives it: they become text at once."""
        block, sizes = self.block, self.sizes
        raw = [block[sizes[number] + number : sizes[number + 1] + number] for number in numbers]
        text = b"\n".join(raw)
        if not raw or b"\r" in text or len(max(raw, key=len)) > LONGEST:
            return list(map(self.line, numbers))
        return text.decode("utf-8", "replace").split("\n")

    def chars(self, first: int, until: int) -> int:
        """Characters from where one line begins to where another does."""
        return len(self.block[self.start(first) : self.start(until)].decode("utf-8", "replace"))

    def since(self, number: int, before: int = 0) -> tuple["Piece", int]:
        """The lines from that one on, with so many characters before it, and how many lines are gone."""
        floor, first = self.start(number) - before * _BYTES_EACH, number
        while first and self.start(first) > floor:
            first -= 1
        start, gone = self.start(first), self.start(first) - first
        return Piece(self.block[start:], self.kinds[first:], [size - gone for size in self.sizes[first:]]), first


def piece_of(block: bytes) -> Piece:
    """A block of whole lines; its last may lack its end."""
    kinds = block.translate(DIGITS).split(b"\n")
    if not kinds[-1]:
        kinds.pop()
    return Piece(block, kinds, list(accumulate(map(len, kinds), initial=0)))


def joined(first: Piece, then: Piece) -> Piece:
    """Both as one. The first ends with a line's end."""
    if not first.kinds or not then.kinds:
        return first if first.kinds else then
    shift = first.sizes[-1]
    return Piece(first.block + then.block, first.kinds + then.kinds, first.sizes[:-1] + [size + shift for size in then.sizes])
