"""Nodes that we hold: the button by which anybody of the thread asks for one's return. Pressing it looks first; nothing runs by it."""

from collections.abc import Mapping, Sequence
from typing import Any

from bot.cards import blocks
from bot.cards.blocks import Block
from bot.cards.buttons import ButtonClick, encode_button_value, parse_button_click
from bot.cards.text import clip_text
from graph.report import ReturnableNode

ASK_RETURN_ACTION_ID = "held.ask_return"
BUTTONS = {ASK_RETURN_ACTION_ID: "ask_return"}
MAX_NODES, MAX_NODE_NAME_CHARS = 5, 40


def render_return_buttons(incident: str, nodes: Sequence[ReturnableNode]) -> list[Block]:
    """One button a node, each in a row of its own: two of one row would need different ids."""
    return [
        blocks.actions(
            blocks.button(
                f"Ask again to return {clip_text(one.host, MAX_NODE_NAME_CHARS)}",
                ASK_RETURN_ACTION_ID,
                encode_button_value(incident, one.ladder),
            )
        )
        for one in nodes[:MAX_NODES]
    ]


def render_return_button(incident: str, ladder: str) -> Block:
    """The one beside a line that names the node."""
    return blocks.button("Ask again to return", ASK_RETURN_ACTION_ID, encode_button_value(incident, ladder))


def parse_return_click(payload: Mapping[str, Any]) -> ButtonClick:
    """A click on one of them; its item is the ladder."""
    return parse_button_click(payload, BUTTONS)
