"""Finding the few interesting lines of a large text: substring searches only, each line visited once, a monster line cut."""

from collections.abc import Iterable, Sequence

LONGEST = 16_384
"""Characters of a line that are looked at: a tenant can print a line of any length."""

DIGITS = bytes.maketrans(b"123456789", b"000000000")


def zeroed(line: str) -> str:
    """Every digit a zero: lines that differ in their numbers alone become one."""
    return line.encode("utf-8", "replace").translate(DIGITS).decode("utf-8", "replace")


def lines_in(text: str) -> list[str]:
    """The lines as a shell, awk and the node kit see them: a new line ends one, and nothing else does. `str.splitlines` would also end one at
    a form feed, U+0085 or U+2028, which anybody may put into the name of a process: what follows would pose as a line about somebody else."""
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return [line.removesuffix("\r") for line in lines] if "\r" in text else lines


Span = tuple[int, int]


def candidates(text: str, needles: Iterable[str]) -> list[Span]:
    """Start and end of every line that holds one of the needles, in order."""
    spans: dict[int, int] = {}
    for needle in needles:
        at = text.find(needle)
        while at >= 0:
            end = text.find("\n", at)
            end = len(text) if end < 0 else end
            spans[text.rfind("\n", 0, at) + 1] = end
            at = text.find(needle, end)
    return sorted(spans.items())


def lines_of(text: str, spans: Sequence[Span]) -> list[tuple[int, str]]:
    """The lines themselves with their starts, without a carriage return at the end, cut at LONGEST."""
    return [(start, text[start : min(end, start + LONGEST)].rstrip("\r")) for start, end in spans]
