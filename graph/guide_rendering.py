"""Render a guide's run as a few lines with status marks; steps with nothing to say share a line."""

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
    return sum(step_row.mark in ("done", "skipped", "unsure", "people") for step_row in run.steps)


def render_guide_summary(run: GuideRun, most: int) -> list[str]:
    """Return at most `most` lines: informative steps in order, then one line per group.

    Where not all fit, steps that wait for a person come before answered ones.
    """
    listed_steps = [step_row for step_row in run.steps if not _is_groupable(step_row)]
    grouped = [
        _render_step_group(run, mark)
        for mark in GROUPED_MARK_TEXTS
        if any(_is_groupable(step_row) and step_row.mark == mark for step_row in run.steps)
    ]
    room = most - len(grouped)
    if len(listed_steps) <= room:
        return [*map(_render_step, listed_steps), *grouped]
    shown_steps = sorted(listed_steps, key=lambda step_row: MARK_PRIORITY.index(step_row.mark))[: room - 1]
    rendered_steps = [_render_step(step_row) for step_row in listed_steps if step_row in shown_steps]
    return [*rendered_steps, f"… {len(listed_steps) - len(shown_steps)} more steps", *grouped]


def render_guide_steps(run: GuideRun) -> list[str]:
    return [_render_step(step_row) for step_row in run.steps]


def _is_groupable(step_row: GuideStepRow) -> bool:
    return step_row.mark in ("skipped", "later") or (step_row.mark == "done" and step_row.says == NOTHING_ABNORMAL)


def _render_step(step_row: GuideStepRow) -> str:
    return f"{STEP_MARKS[step_row.mark]} {step_row.does}{f': {step_row.says}' if step_row.says else ''}"


def _render_step_group(run: GuideRun, mark: str) -> str:
    names = [step_row.id.replace("_", " ") for step_row in run.steps if step_row.mark == mark and _is_groupable(step_row)]
    return f"{STEP_MARKS[mark]} {GROUPED_MARK_TEXTS[mark]}: {', '.join(names)}"
