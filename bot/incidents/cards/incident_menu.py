"""The menu of an incident: look again, close, assign, correct the cause."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bot.cards import blocks
from bot.cards.blocks import Block
from bot.cards.buttons import MALFORMED_PAYLOAD_ERRORS, BadForm, ButtonClick, OldButton, encode_button_value
from bot.incidents.cards.close_form import LabelChoices

MENU_ACTION_ID = "more.menu"
MENU_CHOICES: Mapping[str, str] = {  # choice → text
    "recheck": "Look again",
    "close_form": "Close…",
    "assign_form": "Assign…",
    "correct_form": "It was something else…",
}
FORM_CHOICES = frozenset({"assign_form", "correct_form"})  # this module renders their forms
ASSIGN_CALLBACK_ID = "more.assign"
PERSON_BLOCK_ID = "more.person"
CORRECT_CALLBACK_ID = "more.correct"
LABEL_BLOCK_ID = "more.label"
WORDS_BLOCK_ID = "more.words"
MAX_WORDS_CHARS = 600


@dataclass(frozen=True, slots=True)
class CauseCorrection:
    """The cause that a person names instead of ours, and how they know."""

    incident: str
    label: str
    words: str


def render_menu(incident: str) -> Block:
    options = [(json.dumps([choice, incident], separators=(",", ":")), text) for choice, text in MENU_CHOICES.items()]
    return blocks.overflow(MENU_ACTION_ID, options)


def parse_menu_choice(payload: Mapping[str, Any]) -> ButtonClick:
    """Parse a menu choice. Raises OldButton if the menu is of an older version."""
    try:
        action = payload["actions"][0]
        choice, incident = json.loads(action["selected_option"]["value"])
        if action["action_id"] != MENU_ACTION_ID or choice not in MENU_CHOICES:
            raise OldButton
        return ButtonClick(choice, str(incident))
    except MALFORMED_PAYLOAD_ERRORS as error:
        raise OldButton from error


def render_assign_form(incident: str, owner: str = "") -> Block:
    field = blocks.input_block(
        PERSON_BLOCK_ID, "Who is on it?", blocks.select_person(owner), hint="Posted in the thread. I don't ping people."
    )
    return blocks.modal(ASSIGN_CALLBACK_ID, "Assign the incident", [field], submit="Assign", metadata=encode_button_value(incident))


def parse_assign_form(payload: Mapping[str, Any]) -> tuple[str, str]:
    """Return the incident and the assignee's user id. Raises BadForm if no person was chosen."""
    incident, values = _parse_form_values(payload)
    try:
        person = str(values[PERSON_BLOCK_ID][PERSON_BLOCK_ID].get("selected_user") or "")
    except MALFORMED_PAYLOAD_ERRORS as error:
        raise OldButton from error
    if not person:
        raise BadForm({PERSON_BLOCK_ID: "Choose a person."})
    return incident, person


def render_correction_form(incident: str, label_choices: LabelChoices, label: str = "") -> Block:
    return blocks.modal(
        CORRECT_CALLBACK_ID,
        "It was something else",
        [
            blocks.input_block(LABEL_BLOCK_ID, "What was it?", blocks.select(label_choices, label)),
            blocks.input_block(
                WORDS_BLOCK_ID,
                "How do you know?",
                blocks.text_input(multiline=True, max_chars=MAX_WORDS_CHARS),
                hint="Recorded with your name. Approvals for the old cause are withdrawn. Nothing is re-checked or closed.",
                optional=True,
            ),
        ],
        submit="Note it",
        metadata=encode_button_value(incident),
    )


def parse_correction_form(payload: Mapping[str, Any]) -> CauseCorrection:
    """Parse a submitted correction. Raises BadForm if no cause was chosen."""
    incident, values = _parse_form_values(payload)
    try:
        label = str((values[LABEL_BLOCK_ID][LABEL_BLOCK_ID].get("selected_option") or {}).get("value", ""))
        words = str(values[WORDS_BLOCK_ID][WORDS_BLOCK_ID].get("value") or "").strip()[:MAX_WORDS_CHARS]
    except MALFORMED_PAYLOAD_ERRORS as error:
        raise OldButton from error
    if not label:
        raise BadForm({LABEL_BLOCK_ID: "Choose what it was; “Not known” is an answer too."})
    return CauseCorrection(incident, label, words)


def _parse_form_values(payload: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    try:
        view = payload["view"]
        return str(json.loads(view["private_metadata"])["incident"]), view["state"]["values"]
    except MALFORMED_PAYLOAD_ERRORS as error:
        raise OldButton from error
