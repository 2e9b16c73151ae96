"""Whole log lines as bytes, each with its kind (digits zeroed), decoded only on demand."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from kb.needle_search import DIGITS_TO_ZERO, MAX_LINE_CHARS

_MAX_BYTES_PER_CHAR = 4  # of UTF-8


@dataclass(frozen=True, slots=True)
class LogPiece:
    """Lines. `sizes`: bytes of preceding lines without line ends, per line and at the end."""

    block: bytes
    kinds: list[bytes]
    sizes: list[int]

    def get_start(self, number: int) -> int:
        """Return the byte offset."""
        return self.sizes[number] + number

    def get_raw_line(self, number: int, most: int) -> bytes:
        start = self.sizes[number] + number
        return self.block[start : min(self.sizes[number + 1] + number, start + most)]

    def get_line(self, number: int, most: int = MAX_LINE_CHARS) -> str:
        """Decode without trailing carriage return."""
        return self.get_raw_line(number, most * _MAX_BYTES_PER_CHAR).decode("utf-8", "replace")[:most].rstrip("\r")

    def get_lines(self, numbers: Sequence[int]) -> list[str]:
        """Decode many lines at once."""
        block, sizes = self.block, self.sizes
        raw = [block[sizes[number] + number : sizes[number + 1] + number] for number in numbers]
        text = b"\n".join(raw)
        if not raw or b"\r" in text or len(max(raw, key=len)) > MAX_LINE_CHARS:
            return list(map(self.get_line, numbers))
        return text.decode("utf-8", "replace").split("\n")

    def count_chars(self, first: int, until: int) -> int:
        """Count characters between two line starts."""
        return len(self.block[self.get_start(first) : self.get_start(until)].decode("utf-8", "replace"))

    def get_rest(self, number: int, before: int = 0) -> tuple["LogPiece", int]:
        """Return the lines from `number` on with `before` characters of context, and how many were dropped."""
        floor, first = self.get_start(number) - before * _MAX_BYTES_PER_CHAR, number
        while first and self.get_start(first) > floor:
            first -= 1
        start, dropped_count = self.get_start(first), self.get_start(first) - first
        return LogPiece(self.block[start:], self.kinds[first:], [size - dropped_count for size in self.sizes[first:]]), first


def build_piece(block: bytes) -> LogPiece:
    """Build from whole lines; the last may lack its end."""
    kinds = block.translate(DIGITS_TO_ZERO).split(b"\n")
    if not kinds[-1]:
        kinds.pop()
    return LogPiece(block, kinds, list(accumulate(map(len, kinds), initial=0)))


def join_pieces(first: LogPiece, then: LogPiece) -> LogPiece:
    """Join two; the first must end with a line end."""
    if not first.kinds or not then.kinds:
        return first if first.kinds else then
    shift = first.sizes[-1]
    return LogPiece(first.block + then.block, first.kinds + then.kinds, first.sizes[:-1] + [size + shift for size in then.sizes])
