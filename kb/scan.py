"""Finding the few interesting lines of a large text: substring searches only, each line visited once, a monster line cut."""

from collections.abc import Iterable, Sequence

from ahocorasick_rs import AhoCorasick

MAX_LINE_CHARS = 16_384
"""Characters of a line that are looked at: a tenant can print a line of any length."""

DIGITS_TO_ZERO = bytes.maketrans(b"123456789", b"000000000")


def zero_digits(line: str) -> str:
    """Every digit a zero: lines that differ in their numbers alone become one."""
    return line.encode("utf-8", "replace").translate(DIGITS_TO_ZERO).decode("utf-8", "replace")


def split_lines(text: str) -> list[str]:
    """The lines as a shell, awk and the node kit see them: a new line ends one, and nothing else does. `str.splitlines` would also end one at
    a form feed, U+0085 or U+2028, which anybody may put into the name of a process: what follows would pose as a line about somebody else."""
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return [line.removesuffix("\r") for line in lines] if "\r" in text else lines


Span = tuple[int, int]


class Needles:
    """Words to look for, all of them in one pass over a text, however many there are. None holds the end of a line."""

    def __init__(self, needles: Iterable[str]) -> None:
        self._needles = tuple(dict.fromkeys(needles))
        self._search = AhoCorasick(self._needles)

    def find_in_line(self, line: str) -> set[str]:
        """Those that the line holds."""
        return {self._needles[which] for which, _, _ in self._search.find_matches_as_indexes(line, overlapping=True)}

    def find_in_text(self, text: str) -> dict[Span, set[str]]:
        """Start and end of every line that holds any, in order, and those that it holds."""
        lines: dict[Span, set[str]] = {}
        end = -1
        for which, at, until in self._search.find_matches_as_indexes(text, overlapping=True):  # by where they end
            if until > end:
                end = text.find("\n", until)
                end = len(text) if end < 0 else end
                held = lines[text.rfind("\n", 0, at) + 1, end] = set()
            held.add(self._needles[which])
        return lines


def cut_lines(text: str, spans: Sequence[Span]) -> list[tuple[int, str]]:
    """The lines themselves with their starts, without a carriage return at the end, cut at LONGEST."""
    return [(start, text[start : min(end, start + MAX_LINE_CHARS)].rstrip("\r")) for start, end in spans]
