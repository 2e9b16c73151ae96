"""What our buttons carry, and how a click is read back. A button holds the incident and the inbox item whose report it stood under."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bot.refusal import Refusal


class OldButton(Refusal):
    """The button is not one that we make today."""

    def __init__(self) -> None:
        super().__init__("This button belongs to an older version of RackMedic. Reply `status` in the thread for a current card.")


@dataclass(frozen=True, slots=True)
class Press:
    """A click: `does` is what the button stands for (an item kind, or `close_form`)."""

    does: str
    incident: str
    item: str = ""


def carry(incident: str, item: str = "") -> str:
    """The value of a button."""
    return json.dumps({"incident": incident, "item": item}, separators=(",", ":"))


def read_press(payload: Mapping[str, Any], buttons: Mapping[str, str]) -> Press:
    """The inverse, for the buttons of one card: action id → what it does."""
    try:
        action = payload["actions"][0]
        carried = json.loads(action["value"])
        return Press(buttons[action["action_id"]], str(carried["incident"]), str(carried["item"]))
    except (KeyError, IndexError, TypeError, ValueError) as wrong:
        raise OldButton from wrong
