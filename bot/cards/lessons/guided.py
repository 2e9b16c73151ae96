"""Where a troubleshooting guide stands: its steps where somebody called it, one line where it only fits what was reported. Pure."""

from bot.cards import blocks
from bot.cards.blocks import Block
from bot.cards.text import Line, bold, code
from graph.guided import lines_of, settled
from graph.report import Report

MOST, ROOM = 6, 1200
"""Lines of steps beside the title, and how long all of it may be."""


def render(report: Report) -> list[Block]:
    """A few lines; nothing where there is no guide."""
    run = report.guide
    if run is None:
        return []
    done = f"{settled(run)} of {len(run.steps)} steps answered"
    if not run.called:
        return [blocks.say("📋 Guide “", bold(run.title), f"”: {done} by what was seen. To go through it: ", code(f"run guide {run.id}"))]
    again: Line = (" · to go on: ", code(f"run guide {run.id}")) if run.due or any(row.mark == "next" for row in run.steps) else ()
    title: Line = ("📋 ", bold(run.title), f" · {done}", *again)
    return [blocks.short(title, *((line,) for line in lines_of(run, MOST)), room=ROOM)]
