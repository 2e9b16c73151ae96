"""What our own people are shown of a customer: the message that an internal thread begins with, what the customer says, the form to tell them
something. The customer's words are quoted and evidence of low trust, never ours."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from bot.cards import blocks
from bot.cards.blocks import Block, Card
from bot.cards.buttons import MALFORMED, Press, Stale, carry, form_text, read_press
from bot.cards.text import bold, channel_name, code
from kb.scan import lines_in

TELL = "customer.tell"
BUTTONS = {TELL: "tell"}
TELL_FORM, WORDS = "customer_tell", "words"
MOST_QUOTED, MOST_TOLD = 1500, 1500
"""Characters of what a customer wrote, and of what they are told."""


def root(incident: str, tenant: str, channel: str, words: str, files: Sequence[str]) -> Card:
    """The first message of the internal thread."""
    head = f"{tenant} reports"
    return blocks.card(
        f"{head}: {words[:200]}",
        [
            blocks.say(bold(head), " in ", channel_name(channel)),
            *quoted_words(words, files),
            blocks.actions(blocks.button("Tell the customer…", TELL, carry(incident))),
            blocks.context(
                ("What you write here stays here. ", "Their card follows by itself: received, taken, repaired, proved, closed.")
            ),
        ],
    )


def quoted(tenant: str, words: str, files: Sequence[str]) -> Card:
    """What the customer wrote later."""
    return blocks.card(f"{tenant}: {words[:200]}", [blocks.say(bold(f"{tenant}:")), *quoted_words(words, files)])


def noted(words: str) -> Card:
    """One line about the customer's side."""
    return blocks.card(words, [blocks.context((words,))])


def as_they_see(tenant: str, internal: str) -> Card:
    """For one of our own people who called in a customer's channel, and for nobody else."""
    words = f"This is a channel of {tenant}: I take this as theirs, look at their machines alone, and they read the answer. All of it is in"
    return blocks.card(words, [blocks.context((f"{words} ", channel_name(internal), "."))])


def told(by: str, words: str) -> Card:
    """What the customer was told, and by whom."""
    return blocks.card("The customer was told", [blocks.say(bold("Told the customer"), f" ({by}):"), blocks.quote(lines_in(words))])


def quoted_words(words: str, files: Sequence[str]) -> list[Block]:
    """Monospace, so that nothing in it is markup."""
    made = [blocks.quote(lines_in(words[:MOST_QUOTED]))] if words.strip() else []
    names = [blocks.context(("Attached: ", *(part for name in files[:10] for part in (code(name), " "))))] if files else []
    return made + names


def read(payload: Mapping[str, Any]) -> Press:
    """A click on Tell the customer…"""
    return read_press(payload, BUTTONS)


def form(incident: str, tenant: str) -> Block:
    """The form: what is sent is what stands in it."""
    words = blocks.field_input(
        WORDS,
        f"To {tenant}",
        blocks.text_input(multiline=True, most=MOST_TOLD),
        hint="Sent as it stands, in RackMedic's name. Refused while it names other customers, machines that are not theirs, people or secrets.",
    )
    return blocks.modal(TELL_FORM, "Tell the customer", [words], submit="Send", metadata=json.dumps({"incident": incident}))


def read_form(payload: Mapping[str, Any]) -> tuple[str, str]:
    """(incident, what to tell). Stale for a form that is not ours."""
    try:
        kept = json.loads(payload["view"]["private_metadata"])
        incident = str(kept["incident"])
    except MALFORMED as wrong:
        raise Stale from wrong
    return incident, form_text(payload, WORDS)
