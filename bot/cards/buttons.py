"""Encodes and parses the data of buttons and forms.

A report's button holds incident and inbox item; an action's form holds approval and digest.
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
    """This card can no longer be used."""

    def __init__(self) -> None:
        super().__init__("This card is not the current one, so nothing was changed. Look for the newest card in the incident's thread.")


class BadForm(Exception):
    """The form cannot be read: block id → what to mend, which Slack shows under the field."""

    def __init__(self, problems: Mapping[str, str]) -> None:
        super().__init__("; ".join(problems.values()))
        self.problems = dict(problems)


# raised by payloads that no button or form of this bot sends: wrong shape, no JSON, endless nesting
MALFORMED_PAYLOAD_ERRORS = (KeyError, IndexError, TypeError, ValueError, AttributeError, RecursionError)


@dataclass(frozen=True, slots=True)
class ButtonClick:
    """A click; `does` is an item kind or `close_form`."""

    does: str
    incident: str
    item: str = ""
    chosen: str = ""  # value of a select


def encode_button_value(incident: str, item: str = "") -> str:
    return json.dumps({"incident": incident, "item": item}, separators=(",", ":"))


def parse_button_click(payload: Mapping[str, Any], buttons: Mapping[str, str]) -> ButtonClick:
    """Parse a click; `buttons` maps action id to meaning. Raises OldButton."""
    try:
        action = payload["actions"][0]
        carried = json.loads(action["value"])
        return ButtonClick(buttons[action["action_id"]], str(carried["incident"]), str(carried["item"]))
    except MALFORMED_PAYLOAD_ERRORS as error:
        raise OldButton from error


def parse_select_choice(payload: Mapping[str, Any], choices: Mapping[str, str]) -> ButtonClick:
    """Parse a select, whose block id holds a button's value. Raises OldButton."""
    try:
        action = payload["actions"][0]
        carried = json.loads(action["block_id"])
        chosen = str(action["selected_option"]["value"])
        return ButtonClick(choices[action["action_id"]], str(carried["incident"]), str(carried["item"]), chosen)
    except MALFORMED_PAYLOAD_ERRORS as error:
        raise OldButton from error


def parse_form_target(payload: Mapping[str, Any]) -> tuple[str, str]:
    """Return the form's (approval, digest). Raises StaleCard for a foreign form."""
    try:
        metadata = json.loads(payload["view"]["private_metadata"])
        approval, digest = str(metadata["approval"]), str(metadata["digest"])
    except MALFORMED_PAYLOAD_ERRORS as error:
        raise StaleCard from error
    if not is_digest(digest):
        raise StaleCard
    return approval, digest


def get_form_text(payload: Mapping[str, Any], block: str) -> str:
    """Return a field's text. Raises StaleCard if the form lacks it."""
    try:
        return str(payload["view"]["state"]["values"][block][block].get("value") or "").strip()
    except MALFORMED_PAYLOAD_ERRORS as error:
        raise StaleCard from error
