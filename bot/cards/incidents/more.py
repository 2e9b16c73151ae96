"""What else can be done with an incident, behind a small menu: look again, or open a form to close it, to say who is on it, or what it
really was."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bot.cards import blocks
from bot.cards.blocks import Block
from bot.cards.buttons import MALFORMED, BadForm, OldButton, Press, carry
from bot.cards.incidents.close_modal import Choices

MENU = "more.menu"
CHOICES: Mapping[str, str] = {
    "recheck": "Look again",
    "close_form": "Close…",
    "assign_form": "Assign…",
    "correct_form": "It was something else…",
}
"""What a choice does → its words."""
FORMS = frozenset({"assign_form", "correct_form"})
"""Choices whose forms are opened."""
ASSIGN, PERSON = "more.assign", "more.person"
CORRECT, LABEL, WORDS = "more.correct", "more.label", "more.words"
MOST_WORDS = 600


@dataclass(frozen=True, slots=True)
class Correction:
    """What somebody says it really was."""

    incident: str
    label: str
    words: str


def menu(incident: str) -> Block:
    """The menu, an element of a row of buttons."""
    return blocks.overflow(MENU, [(json.dumps([does, incident], separators=(",", ":")), words) for does, words in CHOICES.items()])


def read(payload: Mapping[str, Any]) -> Press:
    """What was chosen."""
    try:
        action = payload["actions"][0]
        does, incident = json.loads(action["selected_option"]["value"])
        if action["action_id"] != MENU or does not in CHOICES:
            raise OldButton
        return Press(does, str(incident))
    except MALFORMED as wrong:
        raise OldButton from wrong


def assign_form(incident: str, owner: str = "") -> Block:
    """Who is on it."""
    field = blocks.field_input(PERSON, "Who is on it?", blocks.select_person(owner), hint="It is noted in the thread and mentions nobody.")
    return blocks.modal(ASSIGN, "Assign the incident", [field], submit="Assign", metadata=carry(incident))


def assigned(payload: Mapping[str, Any]) -> tuple[str, str]:
    """(incident, user id). Raises BadForm, OldButton."""
    incident, values = _sent(payload)
    try:
        person = str(values[PERSON][PERSON].get("selected_user") or "")
    except MALFORMED as wrong:
        raise OldButton from wrong
    if not person:
        raise BadForm({PERSON: "Choose somebody."})
    return incident, person


def correct_form(incident: str, offered: Choices, believed: str = "") -> Block:
    """What it really was."""
    return blocks.modal(
        CORRECT,
        "It was something else",
        [
            blocks.field_input(LABEL, "What was it?", blocks.select(offered, believed)),
            blocks.field_input(
                WORDS,
                "How do you know?",
                blocks.text_input(multiline=True, most=MOST_WORDS),
                hint="It is noted with your name. Approvals for the old cause are taken back; nothing is looked at again and nothing is closed.",
                optional=True,
            ),
        ],
        submit="Note it",
        metadata=carry(incident),
    )


def corrected(payload: Mapping[str, Any]) -> Correction:
    """The form, sent. Raises BadForm, OldButton."""
    incident, values = _sent(payload)
    try:
        label = str((values[LABEL][LABEL].get("selected_option") or {}).get("value", ""))
        words = str(values[WORDS][WORDS].get("value") or "").strip()[:MOST_WORDS]
    except MALFORMED as wrong:
        raise OldButton from wrong
    if not label:
        raise BadForm({LABEL: "Choose what it was; “Not known” is an answer too."})
    return Correction(incident, label, words)


def _sent(payload: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    try:
        view = payload["view"]
        return str(json.loads(view["private_metadata"])["incident"]), view["state"]["values"]
    except MALFORMED as wrong:
        raise OldButton from wrong
