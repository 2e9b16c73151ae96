"""Progress of a troubleshooting guide: its steps if called, one line if it only fits. Pure."""

from bot.cards import blocks
from bot.cards.blocks import Block
from bot.cards.text import Line, bold, code
from graph.guide_rendering import count_answered_steps, render_guide_summary
from graph.report import Report

MAX_STEP_LINES = 6  # step lines beside the title
MAX_GUIDE_CHARS = 1200  # characters in all


def render_guide(report: Report) -> list[Block]:
    run = report.guide
    if run is None:
        return []
    progress = f"{count_answered_steps(run)} of {len(run.steps)} steps answered"
    if not run.called:
        return [
            blocks.line_section(
                "📋 Guide “", bold(run.title), f"”: {progress} by the checks so far. To go through it: ", code(f"run guide {run.id}")
            )
        ]
    resume_line: Line = (" · to continue: ", code(f"run guide {run.id}")) if run.due or any(row.mark == "next" for row in run.steps) else ()
    title: Line = ("📋 ", bold(run.title), f" · {progress}", *resume_line)
    return [blocks.clipped_section(title, *((line,) for line in render_guide_summary(run, MAX_STEP_LINES)), room=MAX_GUIDE_CHARS)]
