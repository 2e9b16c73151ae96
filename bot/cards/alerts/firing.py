"""The first message of an incident that alerts opened, with their counts, and the note in a thread that they joined."""

from bot.cards import blocks
from bot.cards.blocks import Block, Card
from bot.cards.text import Line, bold, code

MOST_LINES = 6


def render(cause: str, firing: int, resolved: int, hosts: str, lines: tuple[str, ...], left: int = 0) -> Card:
    """`hosts` folded, `lines` what the alerts say: every word of it is the monitoring system's. `left`: alerts that it counts and does not list."""
    head = f"{'🔔' if firing else '🔕'} Alerts of {cause[:120]}: {firing} firing, {resolved} resolved"
    where: list[Line] = [("On ", code(hosts[:300]))] if hosts else []
    quoted: list[Block] = [blocks.quote(lines[:MOST_LINES])] if lines else []
    told: Line = ("From the monitoring system. What it says suggests where to look; I look myself.",)
    more: list[Line] = [(f"It counts {left} more and does not list them (max_alerts): whether they fire is not known.",)] if left else []
    return blocks.card(
        head,
        [blocks.say(bold(head)), *([blocks.section(*where)] if where else []), *quoted, *map(blocks.context, more), blocks.context(told)],
    )
