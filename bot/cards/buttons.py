"""What our buttons and forms carry, and how a click or a submission is read back.

A button of a report holds the incident and the inbox item whose report it stood under; a form about an action holds the approval and
the digest that it was opened for.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bot.refusal import Refusal
from tools.ledger.record import is_digest


class OldButton(Refusal):
    """The button is not one that we make today."""

    def __init__(self) -> None:
        super().__init__("This button belongs to an older version of RackMedic. Reply `status` in the thread for a current card.")


class StaleCard(Refusal):
    """The card is not one that can be acted on any more."""

    def __init__(self) -> None:
        super().__init__("This card is not the current one, so nothing was changed. Look for the newest card in the incident's thread.")


class BadForm(Exception):
    """The form cannot be read: block id → what to mend, which Slack shows under the field."""

    def __init__(self, problems: Mapping[str, str]) -> None:
        super().__init__("; ".join(problems.values()))
        self.problems = dict(problems)


MALFORMED_PAYLOAD_ERRORS = (KeyError, IndexError, TypeError, ValueError, AttributeError, RecursionError)
"""What a payload raises that no button or form of ours could have sent: another shape, no JSON, or JSON nested without end."""


@dataclass(frozen=True, slots=True)
class ButtonClick:
    """A click: `does` is what the button stands for (an item kind, or `close_form`)."""

    does: str
    incident: str
    item: str = ""
    chosen: str = ""
    """What was chosen of a select."""


def encode_button_value(incident: str, item: str = "") -> str:
    """The value of a button."""
    return json.dumps({"incident": incident, "item": item}, separators=(",", ":"))


def parse_button_click(payload: Mapping[str, Any], buttons: Mapping[str, str]) -> ButtonClick:
    """The inverse, for the buttons of one card: action id → what it does."""
    try:
        action = payload["actions"][0]
        carried = json.loads(action["value"])
        return ButtonClick(buttons[action["action_id"]], str(carried["incident"]), str(carried["item"]))
    except MALFORMED_PAYLOAD_ERRORS as wrong:
        raise OldButton from wrong


def parse_select_choice(payload: Mapping[str, Any], choices: Mapping[str, str]) -> ButtonClick:
    """The same of a select, whose block carries what a button's value does."""
    try:
        action = payload["actions"][0]
        carried = json.loads(action["block_id"])
        chosen = str(action["selected_option"]["value"])
        return ButtonClick(choices[action["action_id"]], str(carried["incident"]), str(carried["item"]), chosen)
    except MALFORMED_PAYLOAD_ERRORS as wrong:
        raise OldButton from wrong


def parse_form_target(payload: Mapping[str, Any]) -> tuple[str, str]:
    """(approval, digest) that the form was opened for. Stale for a form that is not ours."""
    try:
        kept = json.loads(payload["view"]["private_metadata"])
        approval, digest = str(kept["approval"]), str(kept["digest"])
    except MALFORMED_PAYLOAD_ERRORS as wrong:
        raise StaleCard from wrong
    if not is_digest(digest):
        raise StaleCard
    return approval, digest


def get_form_text(payload: Mapping[str, Any], block: str) -> str:
    """What was written in a field. Stale where the form has no such field."""
    try:
        return str(payload["view"]["state"]["values"][block][block].get("value") or "").strip()
    except MALFORMED_PAYLOAD_ERRORS as wrong:
        raise StaleCard from wrong
