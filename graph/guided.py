"""A guide's run in a few lines with their marks, as people read it: what needs no reading for itself is put together. Pure."""

from collections.abc import Mapping
from typing import Final

from graph.report import GuideRun, GuideStepRow

MARKS: Final[Mapping[str, str]] = {"done": "✓", "skipped": "✗", "unsure": "?", "waiting": "⏳", "next": "·", "later": "·", "people": "☐"}
FIRST: Final = ("waiting", "unsure", "next", "done", "people", "skipped", "later")
QUIET: Final = "nothing abnormal"
TOGETHER: Final[Mapping[str, str]] = {"done": QUIET, "skipped": "not needed", "later": "later"}
"""Marks of which several steps share a line, and what it says."""


def settled(run: GuideRun) -> int:
    """How many steps have an answer, whatever it is."""
    return sum(row.mark in ("done", "skipped", "unsure", "people") for row in run.steps)


def lines_of(run: GuideRun, most: int) -> list[str]:
    """At most so many lines: first what says something, in the guide's order, then what is alike in one line each. Where there is no room for
    all, what waits for somebody goes before what was seen."""
    told = [row for row in run.steps if not _alike(row)]
    grouped = [_grouped(run, mark) for mark in TOGETHER if any(_alike(row) and row.mark == mark for row in run.steps)]
    room = most - len(grouped)
    if len(told) <= room:
        return [*map(_line, told), *grouped]
    kept = sorted(told, key=lambda row: FIRST.index(row.mark))[: room - 1]
    shown = [_line(row) for row in told if row in kept]
    return [*shown, f"… {len(told) - len(kept)} more steps", *grouped]


def every_line(run: GuideRun) -> list[str]:
    """One line a step."""
    return [_line(row) for row in run.steps]


def _alike(row: GuideStepRow) -> bool:
    return row.mark in ("skipped", "later") or (row.mark == "done" and row.says == QUIET)


def _line(row: GuideStepRow) -> str:
    return f"{MARKS[row.mark]} {row.does}{f': {row.says}' if row.says else ''}"


def _grouped(run: GuideRun, mark: str) -> str:
    names = [row.id.replace("_", " ") for row in run.steps if row.mark == mark and _alike(row)]
    return f"{MARKS[mark]} {TOGETHER[mark]}: {', '.join(names)}"
