"""Was that useful: two buttons under a diagnosis, and a short form for whoever says no."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bot.cards import blocks
from bot.cards.blocks import Block
from bot.cards.buttons import MALFORMED, BadForm, OldButton, Press, carry

VOTE = "feedback.vote"
USEFUL, NOT_USEFUL = "useful", "not_useful"
CALLBACK, REASON, WORDS = "feedback.submit", "feedback.reason", "feedback.words"
MOST_WORDS = 500
REASONS: Mapping[str, str] = {
    "wrong_cause": "The cause is wrong",
    "wrong_place": "The cause is right, the machine or device is not",
    "missed": "Something else was broken as well",
    "unclear": "I could not tell what to do",
    "slow": "It took too long",
    "other": "Something else",
}
THANKS = "Thank you, noted. `rackmedic stats` counts it."


@dataclass(frozen=True, slots=True)
class NotUseful:
    """What the form says of the report of `item`."""

    incident: str
    item: str
    reason: str
    words: str


def row(incident: str, item: str) -> Block:
    """The two buttons."""
    return blocks.feedback(
        VOTE,
        ("Useful", json.dumps({"vote": USEFUL, "about": carry(incident, item)})),
        ("Not useful", json.dumps({"vote": NOT_USEFUL, "about": carry(incident, item)})),
    )


def read(payload: Mapping[str, Any]) -> Press:
    """A click on one of them; `does` is USEFUL or NOT_USEFUL."""
    try:
        action = payload["actions"][0]
        value = json.loads(action["value"])
        about = json.loads(value["about"])
        if action["action_id"] != VOTE or value["vote"] not in (USEFUL, NOT_USEFUL):
            raise OldButton
        return Press(value["vote"], str(about["incident"]), str(about["item"]))
    except MALFORMED as wrong:
        raise OldButton from wrong


def form(incident: str, item: str) -> Block:
    """Why not."""
    return blocks.modal(
        CALLBACK,
        "What was wrong?",
        [
            blocks.field_input(REASON, "Mostly", blocks.select({"Reasons": list(REASONS.items())})),
            blocks.field_input(
                WORDS,
                "In your words",
                blocks.text_input(multiline=True, most=MOST_WORDS),
                hint="What was it really? People who look after RackMedic read this. To correct the diagnosis itself, say so in the thread.",
                optional=True,
            ),
        ],
        submit="Send",
        metadata=carry(incident, item),
    )


def submitted(payload: Mapping[str, Any]) -> NotUseful:
    """The form, sent. Raises BadForm for what can be mended in it, OldButton for one that is not ours."""
    try:
        view = payload["view"]
        about = json.loads(view["private_metadata"])
        values = view["state"]["values"]
        incident, item = str(about["incident"]), str(about["item"])
        reason = str((values[REASON][REASON].get("selected_option") or {}).get("value", ""))
        words = str(values[WORDS][WORDS].get("value") or "").strip()[:MOST_WORDS]
    except MALFORMED as wrong:
        raise OldButton from wrong
    if reason not in REASONS:
        raise BadForm({REASON: "Choose what comes nearest."})
    return NotUseful(incident, item, reason, words)
