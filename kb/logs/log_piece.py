"""Whole lines of a log as they were read, each with its kind: its digits zeros. Where a line stands is told by its number, and only the lines
that somebody looks at become text."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from kb.scan import DIGITS_TO_ZERO, MAX_LINE_CHARS

_MAX_BYTES_PER_CHAR = 4
"""A character takes as many at most."""


@dataclass(frozen=True, slots=True)
class LogPiece:
    """`sizes`: of all lines before each, ends of lines apart, and of all of them last."""

    block: bytes
    kinds: list[bytes]
    sizes: list[int]

    def get_start(self, number: int) -> int:
        """Where the line begins, in bytes."""
        return self.sizes[number] + number

    def get_raw_line(self, number: int, most: int) -> bytes:
        """The line, `most` bytes of it."""
        start = self.sizes[number] + number
        return self.block[start : min(self.sizes[number + 1] + number, start + most)]

    def get_line(self, number: int, most: int = MAX_LINE_CHARS) -> str:
        """The line as text, `most` characters of it, without a carriage return at its end."""
        return self.get_raw_line(number, most * _MAX_BYTES_PER_CHAR).decode("utf-8", "replace")[:most].rstrip("\r")

    def get_lines(self, numbers: Sequence[int]) -> list[str]:
        """Many lines, each as `line` gives it: they become text at once."""
        block, sizes = self.block, self.sizes
        raw = [block[sizes[number] + number : sizes[number + 1] + number] for number in numbers]
        text = b"\n".join(raw)
        if not raw or b"\r" in text or len(max(raw, key=len)) > MAX_LINE_CHARS:
            return list(map(self.get_line, numbers))
        return text.decode("utf-8", "replace").split("\n")

    def count_chars(self, first: int, until: int) -> int:
        """Characters from where one line begins to where another does."""
        return len(self.block[self.get_start(first) : self.get_start(until)].decode("utf-8", "replace"))

    def get_rest(self, number: int, before: int = 0) -> tuple["LogPiece", int]:
        """The lines from that one on, with so many characters before it, and how many lines are gone."""
        floor, first = self.get_start(number) - before * _MAX_BYTES_PER_CHAR, number
        while first and self.get_start(first) > floor:
            first -= 1
        start, gone = self.get_start(first), self.get_start(first) - first
        return LogPiece(self.block[start:], self.kinds[first:], [size - gone for size in self.sizes[first:]]), first


def build_piece(block: bytes) -> LogPiece:
    """A block of whole lines; its last may lack its end."""
    kinds = block.translate(DIGITS_TO_ZERO).split(b"\n")
    if not kinds[-1]:
        kinds.pop()
    return LogPiece(block, kinds, list(accumulate(map(len, kinds), initial=0)))


def join_pieces(first: LogPiece, then: LogPiece) -> LogPiece:
    """Both as one. The first ends with a line's end."""
    if not first.kinds or not then.kinds:
        return first if first.kinds else then
    shift = first.sizes[-1]
    return LogPiece(first.block + then.block, first.kinds + then.kinds, first.sizes[:-1] + [size + shift for size in then.sizes])
