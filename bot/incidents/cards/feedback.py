"""Feedback on a diagnosis: two buttons, and a short form after “Not useful”."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bot.cards import blocks
from bot.cards.blocks import Block
from bot.cards.buttons import MALFORMED_PAYLOAD_ERRORS, BadForm, ButtonClick, OldButton, encode_button_value

VOTE_ACTION_ID = "feedback.vote"
USEFUL = "useful"
NOT_USEFUL = "not_useful"
CALLBACK_ID = "feedback.submit"
REASON_BLOCK_ID = "feedback.reason"
WORDS_BLOCK_ID = "feedback.words"
MAX_WORDS_CHARS = 500
REASONS: Mapping[str, str] = {
    "wrong_cause": "The cause is wrong",
    "wrong_place": "The cause is right, the machine or device is not",
    "missed": "Something else was broken as well",
    "unclear": "I could not tell what to do",
    "slow": "It took too long",
    "other": "Something else",
}
THANKS_TEXT = "Thank you, noted. `rackmedic stats` counts it."


@dataclass(frozen=True, slots=True)
class NegativeFeedback:
    """The submitted form about the report of `item`."""

    incident: str
    item: str
    reason: str
    words: str


def render_feedback_buttons(incident: str, item: str) -> Block:
    return blocks.feedback_buttons(
        VOTE_ACTION_ID,
        ("Useful", json.dumps({"vote": USEFUL, "about": encode_button_value(incident, item)})),
        ("Not useful", json.dumps({"vote": NOT_USEFUL, "about": encode_button_value(incident, item)})),
    )


def parse_feedback_click(payload: Mapping[str, Any]) -> ButtonClick:
    """Parse a click; `does` is USEFUL or NOT_USEFUL."""
    try:
        action = payload["actions"][0]
        value = json.loads(action["value"])
        subject = json.loads(value["about"])
        if action["action_id"] != VOTE_ACTION_ID or value["vote"] not in (USEFUL, NOT_USEFUL):
            raise OldButton
        return ButtonClick(value["vote"], str(subject["incident"]), str(subject["item"]))
    except MALFORMED_PAYLOAD_ERRORS as error:
        raise OldButton from error


def render_feedback_form(incident: str, item: str) -> Block:
    return blocks.modal(
        CALLBACK_ID,
        "What was wrong?",
        [
            blocks.input_block(REASON_BLOCK_ID, "Mostly", blocks.select({"Reasons": list(REASONS.items())})),
            blocks.input_block(
                WORDS_BLOCK_ID,
                "In your words",
                blocks.text_input(multiline=True, max_chars=MAX_WORDS_CHARS),
                hint="What was it really? People who look after RackMedic read this. To correct the diagnosis itself, say so in the thread.",
                optional=True,
            ),
        ],
        submit="Send",
        metadata=encode_button_value(incident, item),
    )


def parse_feedback_form(payload: Mapping[str, Any]) -> NegativeFeedback:
    """Parse a submission. Raises BadForm, or OldButton for a malformed payload."""
    try:
        view = payload["view"]
        subject = json.loads(view["private_metadata"])
        values = view["state"]["values"]
        incident, item = str(subject["incident"]), str(subject["item"])
        reason = str((values[REASON_BLOCK_ID][REASON_BLOCK_ID].get("selected_option") or {}).get("value", ""))
        words = str(values[WORDS_BLOCK_ID][WORDS_BLOCK_ID].get("value") or "").strip()[:MAX_WORDS_CHARS]
    except MALFORMED_PAYLOAD_ERRORS as error:
        raise OldButton from error
    if reason not in REASONS:
        raise BadForm({REASON_BLOCK_ID: "Choose what comes nearest."})
    return NegativeFeedback(incident, item, reason, words)
