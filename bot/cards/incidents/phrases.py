"""What can be said, generated from the grammar."""

from collections.abc import Iterable

from bot.cards import blocks
from bot.cards.blocks import Card
from bot.cards.text import Line, bold, code


def render(phrases: Iterable[tuple[str, str]]) -> Card:
    """`phrases` are (what to say, what it means)."""
    lines: list[Line] = [(code(form), f" {means}") for form, means in phrases]
    return blocks.card(
        "What I understand",
        [
            blocks.section((bold("In an incident's thread, without mentioning me:"),), *lines),
            blocks.say(bold("To begin:"), " mention me with what is wrong, or use “Diagnose this” from a message's menu."),
            blocks.say(bold("To stop every repair:"), " ", code("/rackmedic stop [why]"), ", and what waits: ", code("/rackmedic status")),
        ],
    )
