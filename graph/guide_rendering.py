"""Render a guide's run as a few lines with status marks; steps with nothing to say share a line. Pure."""

from collections.abc import Mapping
from typing import Final

from graph.report import GuideRun, GuideStepRow

STEP_MARKS: Final[Mapping[str, str]] = {
    "done": "✓",
    "skipped": "✗",
    "unsure": "?",
    "waiting": "⏳",
    "next": "·",
    "later": "·",
    "people": "☐",
}
MARK_PRIORITY: Final = ("waiting", "unsure", "next", "done", "people", "skipped", "later")
NOTHING_ABNORMAL: Final = "nothing abnormal"
# Marks whose steps may share one line, and the line's text.
GROUPED_MARK_TEXTS: Final[Mapping[str, str]] = {"done": NOTHING_ABNORMAL, "skipped": "not needed", "later": "later"}


def count_answered_steps(run: GuideRun) -> int:
    return sum(row.mark in ("done", "skipped", "unsure", "people") for row in run.steps)


def render_guide_summary(run: GuideRun, most: int) -> list[str]:
    """Return at most `most` lines: informative steps in order, then one line per group.

    Where not all fit, steps that wait for a person come before answered ones.
    """
    listed_steps = [row for row in run.steps if not _is_groupable(row)]
    grouped = [
        _render_step_group(run, mark) for mark in GROUPED_MARK_TEXTS if any(_is_groupable(row) and row.mark == mark for row in run.steps)
    ]
    room = most - len(grouped)
    if len(listed_steps) <= room:
        return [*map(_render_step, listed_steps), *grouped]
    shown_steps = sorted(listed_steps, key=lambda row: MARK_PRIORITY.index(row.mark))[: room - 1]
    rendered_steps = [_render_step(row) for row in listed_steps if row in shown_steps]
    return [*rendered_steps, f"… {len(listed_steps) - len(shown_steps)} more steps", *grouped]


def render_guide_steps(run: GuideRun) -> list[str]:
    return [_render_step(row) for row in run.steps]


def _is_groupable(row: GuideStepRow) -> bool:
    return row.mark in ("skipped", "later") or (row.mark == "done" and row.says == NOTHING_ABNORMAL)


def _render_step(row: GuideStepRow) -> str:
    return f"{STEP_MARKS[row.mark]} {row.does}{f': {row.says}' if row.says else ''}"


def _render_step_group(run: GuideRun, mark: str) -> str:
    names = [row.id.replace("_", " ") for row in run.steps if row.mark == mark and _is_groupable(row)]
    return f"{STEP_MARKS[mark]} {GROUPED_MARK_TEXTS[mark]}: {', '.join(names)}"
