"""Find the few interesting lines of a large text by substring search."""

from collections.abc import Iterable, Sequence

from ahocorasick_rs import AhoCorasick

MAX_LINE_CHARS = 16_384  # read per line: a tenant can print a line of any length

DIGITS_TO_ZERO = bytes.maketrans(b"123456789", b"000000000")


def zero_digits(line: str) -> str:
    """Zero digits, so that lines differing only in numbers become equal."""
    return line.encode("utf-8", "replace").translate(DIGITS_TO_ZERO).decode("utf-8", "replace")


def split_lines(text: str) -> list[str]:
    r"""Split at `\n` only, like a shell, awk and the node kit.

    `str.splitlines` also splits at form feed, U+0085 or U+2028, which any user can put into a process name to forge a
    line.
    """
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return [line.removesuffix("\r") for line in lines] if "\r" in text else lines


Span = tuple[int, int]


class Needles:
    """Multi-needle search in one pass. No needle holds a line end."""

    def __init__(self, needles: Iterable[str]) -> None:
        self._needles = tuple(dict.fromkeys(needles))
        self._search = AhoCorasick(self._needles)

    def find_in_line(self, line: str) -> set[str]:
        return {self._needles[which] for which, _, _ in self._search.find_matches_as_indexes(line, overlapping=True)}

    def find_in_text(self, text: str) -> dict[Span, set[str]]:
        """Return spans of lines with a match, in order, and their needles."""
        lines: dict[Span, set[str]] = {}
        end = -1
        for which, at, until in self._search.find_matches_as_indexes(text, overlapping=True):  # by where they end
            if until > end:
                end = text.find("\n", until)
                end = len(text) if end < 0 else end
                found_needles = lines[text.rfind("\n", 0, at) + 1, end] = set()
            found_needles.add(self._needles[which])
        return lines


def cut_lines(text: str, spans: Sequence[Span]) -> list[tuple[int, str]]:
    """Cut at MAX_LINE_CHARS, without trailing carriage return."""
    return [(start, text[start : min(end, start + MAX_LINE_CHARS)].rstrip("\r")) for start, end in spans]
