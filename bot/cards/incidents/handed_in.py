"""The files that came with a message, one a line: size and what was found, or why it was not read and what to send instead."""

from bot.cards import blocks
from bot.cards.blocks import Block
from bot.cards.text import code
from graph.reading.files import in_words
from graph.state import Report

ROOM = 1500


def render(report: Report) -> list[Block]:
    """Nothing where no file came."""
    return [blocks.short(*((code(row.name), f" {in_words(row)}") for row in report.files), room=ROOM)] if report.files else []
