"""Nodes that we hold: the button by which anybody of the thread asks for one's return. Pressing it looks first; nothing runs by it."""

from collections.abc import Mapping, Sequence
from typing import Any

from bot.cards import blocks
from bot.cards.blocks import Block
from bot.cards.buttons import Press, carry, read_press
from bot.cards.text import clip
from graph.report import HeldNode

ASK = "held.ask_return"
BUTTONS = {ASK: "ask_return"}
MOST, NAME = 5, 40


def rows(incident: str, nodes: Sequence[HeldNode]) -> list[Block]:
    """One button a node, each in a row of its own: two of one row would need different ids."""
    return [
        blocks.actions(blocks.button(f"Ask again to return {clip(one.host, NAME)}", ASK, carry(incident, one.ladder)))
        for one in nodes[:MOST]
    ]


def button(incident: str, ladder: str) -> Block:
    """The one beside a line that names the node."""
    return blocks.button("Ask again to return", ASK, carry(incident, ladder))


def read(payload: Mapping[str, Any]) -> Press:
    """A click on one of them; its item is the ladder."""
    return read_press(payload, BUTTONS)
