"""Buttons that ask for a drained node's return. A click checks the node; it runs no action."""

from collections.abc import Mapping, Sequence
from typing import Any

from bot.cards import blocks
from bot.cards.blocks import Block
from bot.cards.buttons import ButtonClick, encode_button_value, parse_button_click
from bot.cards.text import clip_text
from graph.report import ReturnableNode

ASK_RETURN_ACTION_ID = "held.ask_return"
BUTTONS = {ASK_RETURN_ACTION_ID: "ask_return"}
MAX_NODES = 5
MAX_NODE_NAME_CHARS = 40


def render_return_buttons(incident: str, nodes: Sequence[ReturnableNode]) -> list[Block]:
    """Render each button in its own row: action ids must be unique in a row."""
    return [
        blocks.actions(
            blocks.button(
                f"Ask again to return {clip_text(node.host, MAX_NODE_NAME_CHARS)}",
                ASK_RETURN_ACTION_ID,
                encode_button_value(incident, node.ladder),
            )
        )
        for node in nodes[:MAX_NODES]
    ]


def render_return_button(incident: str, remediation: str) -> Block:
    return blocks.button("Ask again to return", ASK_RETURN_ACTION_ID, encode_button_value(incident, remediation))


def parse_return_click(payload: Mapping[str, Any]) -> ButtonClick:
    """Parse a click; its item is the remediation's id."""
    return parse_button_click(payload, BUTTONS)
