"""Line numbers for templates' byte offsets."""

from collections.abc import Iterator, Sequence

from kb.logs.templates.compress import Template


def add_line_numbers(log: bytes, templates: Sequence[Template]) -> Iterator[tuple[Template, int, int]]:
    """Return templates with first and last line number, from 1, in one pass."""
    numbers: dict[int, int] = {}
    line, at = 1, 0
    for offset in sorted({offset for row in templates for offset in (row.offset, row.last_offset)}):
        line += log.count(b"\n", at, offset)
        numbers[offset], at = line, offset
    return ((row, numbers[row.offset], numbers[row.last_offset]) for row in templates)
