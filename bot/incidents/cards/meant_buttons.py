"""Buttons below an answer for what a message may have meant. A click asks it as if it had been written."""

import json
from collections.abc import Mapping
from typing import Any

from bot.cards import blocks
from bot.cards.blocks import Block
from bot.cards.buttons import MALFORMED_PAYLOAD_ERRORS, ButtonClick, OldButton
from bot.cards.text import clip_text
from graph.dialogue.intents import Intent, describe_intent
from graph.report import Report

MEANT_ACTION_ID = "answer.meant"
MAX_MEANINGS = 2
LABELS: Mapping[Intent, str] = {Intent.HELP: "Help", Intent.STATUS: "Status", Intent.CLOSE: "Close the incident with this cause"}


def render_meant_buttons(incident: str, report: Report) -> list[Block]:
    """Render each button in its own row: action ids must be unique in a row."""
    return [
        blocks.actions(blocks.button(_get_label(Intent(meant)), MEANT_ACTION_ID, _encode_value(incident, report.item, meant)))
        for meant in report.meant[:MAX_MEANINGS]
        if meant in set(Intent)
    ]


def _get_label(intent: Intent) -> str:
    words = LABELS.get(intent) or describe_intent(intent)
    return clip_text(f"{words[0].upper()}{words[1:]}", blocks.MAX_BUTTON_CHARS)


def _encode_value(incident: str, item: str, intent: str) -> str:
    return json.dumps({"incident": incident, "item": item, "intent": intent}, separators=(",", ":"))


def parse_meant_click(payload: Mapping[str, Any]) -> ButtonClick:
    """Parse a click; `chosen` is the intent. Raises OldButton."""
    try:
        carried = json.loads(payload["actions"][0]["value"])
        intent = Intent(carried["intent"])
        return ButtonClick("meant", str(carried["incident"]), str(carried["item"]), intent.value)
    except MALFORMED_PAYLOAD_ERRORS as error:
        raise OldButton from error
