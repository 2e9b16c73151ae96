"""What our own people are shown of a customer: the message that an internal thread begins with, what the customer says, the form to tell them
something. The customer's words are quoted and evidence of low trust, never ours."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from bot.cards import blocks
from bot.cards.blocks import Block, Card
from bot.cards.buttons import MALFORMED, BadForm, Press, Stale, carry, form_text, read_press
from bot.cards.text import beginning, bold, channel_name, code, size
from kb.scan import lines_in

TELL = "customer.tell"
BUTTONS = {TELL: "tell"}
TELL_FORM, TELL_SEND, WORDS = "customer_tell", "customer_tell_send", "words"
FORMS = (TELL_FORM, TELL_SEND)
"""What is written, and what it looks like before it is sent."""
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
            blocks.actions(tell_button(incident)),
            blocks.context(
                ("What you write here stays here. ", "Their card follows by itself: received, taken, waiting, repaired, proved, closed.")
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


def told(by: str, words: str, *, fetched: bool = False) -> Card:
    """What the customer was told, and by whom. `fetched`: their own RackMedic asks for it."""
    later = [blocks.context(("Their own RackMedic fetches it when it asks next: every half minute, every ten once it is proved.",))]
    head = [blocks.say(bold("Told the customer"), f" ({by}):"), blocks.quote(lines_in(words))]
    return blocks.card("The customer was told", [*head, *(later if fetched else [])])


def quoted_words(words: str, files: Sequence[str]) -> list[Block]:
    """Monospace, so that nothing in it is markup."""
    made = [blocks.quote(lines_in(words[:MOST_QUOTED]))] if words.strip() else []
    names = [blocks.context(("Attached: ", *(part for name in files[:10] for part in (code(name), " "))))] if files else []
    return made + names


def read(payload: Mapping[str, Any]) -> Press:
    """A click on Tell the customer…"""
    return read_press(payload, BUTTONS)


def tell_button(incident: str) -> Block:
    """Opens the form."""
    return blocks.button("Tell the customer…", TELL, carry(incident))


def form(incident: str, tenant: str, draft: str = "") -> Block:
    """The form, with a draft of what their card says by now. Nothing is sent before it was seen as they will read it."""
    words = blocks.field_input(
        WORDS,
        f"To {tenant}",
        blocks.text_input(initial=beginning(draft, MOST_TOLD), multiline=True, most=MOST_TOLD),
        hint="Goes in RackMedic's name. Refused while it names other customers, machines that are not theirs, people or secrets.",
    )
    return blocks.modal(TELL_FORM, "Tell the customer", [words], submit="Preview", metadata=json.dumps({"incident": incident}))


def preview(incident: str, tenant: str, words: str, shown: Card) -> Block:
    """What they will read, before it is sent. Raises BadForm for a text whose escapes have no room in a form of Slack's."""
    carried = json.dumps({"incident": incident, "words": words}, ensure_ascii=False, separators=(",", ":"))
    if size(carried) > blocks.METADATA:
        raise BadForm({WORDS: "Too long for one message. Please shorten it."})
    head = blocks.context((f"{tenant} reads this, and no name of yours. Nothing was sent yet.",))
    return blocks.modal(TELL_SEND, "As they read it", [head, *shown.blocks], submit="Send", metadata=carried)


def not_sent(why: Card) -> Block:
    """In place of the preview, where it cannot be sent any more."""
    return blocks.page("Not sent", why.blocks)


def read_form(payload: Mapping[str, Any]) -> tuple[str, str]:
    """(incident, what to tell), of the form or of the preview. Stale for a form that is not ours."""
    try:
        kept = json.loads(payload["view"]["private_metadata"])
        incident, seen = str(kept["incident"]), str(kept.get("words") or "")
        preview = payload["view"]["callback_id"] == TELL_SEND
    except MALFORMED as wrong:
        raise Stale from wrong
    return incident, seen[:MOST_TOLD] if preview else form_text(payload, WORDS)
