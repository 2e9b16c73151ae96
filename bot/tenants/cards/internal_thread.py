"""What operators see of a tenant: the thread's first message, the tenant's messages, and the form to write to them.

A tenant's words are quoted and count as evidence of low trust.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from bot.cards import blocks
from bot.cards.blocks import Block, Card
from bot.cards.buttons import (
    MALFORMED_PAYLOAD_ERRORS,
    BadForm,
    ButtonClick,
    StaleCard,
    encode_button_value,
    get_form_text,
    parse_button_click,
)
from bot.cards.text import bold, channel_link, code, count_utf16_units, truncate_text
from kb.needle_search import split_lines

TELL_ACTION_ID = "customer.tell"
BUTTONS = {TELL_ACTION_ID: "tell"}
TELL_FORM_CALLBACK_ID = "customer_tell"
TELL_SEND_CALLBACK_ID = "customer_tell_send"
WORDS_BLOCK_ID = "words"
MAX_QUOTED_CHARS = 1500  # characters quoted from a tenant
MAX_MESSAGE_CHARS = 1500  # characters sent to a tenant


def render_root_message(incident: str, tenant: str, channel: str, words: str, files: Sequence[str]) -> Card:
    head = f"{tenant} reports"
    return blocks.build_card(
        f"{head}: {words[:200]}",
        [
            blocks.line_section(bold(head), " in ", channel_link(channel)),
            *render_quoted_words(words, files),
            blocks.actions(render_tell_button(incident)),
            blocks.context(
                (
                    "What you write here stays here. ",
                    "Their card updates automatically: received, taken, waiting, repaired, proved, closed.",
                )
            ),
        ],
    )


def render_tenant_message(tenant: str, words: str, files: Sequence[str]) -> Card:
    return blocks.build_card(f"{tenant}: {words[:200]}", [blocks.line_section(bold(f"{tenant}:")), *render_quoted_words(words, files)])


def render_note(words: str) -> Card:
    return blocks.build_card(words, [blocks.context((words,))])


def render_visibility_note(tenant: str, internal: str) -> Card:
    """Tell an operator who mentions RackMedic in a tenant's channel who reads the answer."""
    words = f"This is a channel of {tenant}: I treat this as their report and check only their machines, and they read the answer. Full details are in"
    return blocks.build_card(words, [blocks.context((f"{words} ", channel_link(internal), "."))])


def render_sent_message(by: str, words: str, *, fetched: bool = False) -> Card:
    """Render what the tenant was told and by whom. `fetched`: their own RackMedic polls for it."""
    later = [
        blocks.context(
            ("Their own RackMedic fetches it at its next poll: every half minute, or every ten minutes once the repair is proved.",)
        )
    ]
    head = [blocks.line_section(bold("Told the customer"), f" ({by}):"), blocks.code_section(split_lines(words))]
    return blocks.build_card("The customer was told", [*head, *(later if fetched else [])])


def render_quoted_words(words: str, files: Sequence[str]) -> list[Block]:
    """Quote in monospace, so that nothing is markup."""
    quoted_blocks = [blocks.code_section(split_lines(words[:MAX_QUOTED_CHARS]))] if words.strip() else []
    names = [blocks.context(("Attached: ", *(part for name in files[:10] for part in (code(name), " "))))] if files else []
    return quoted_blocks + names


def parse_tell_click(payload: Mapping[str, Any]) -> ButtonClick:
    return parse_button_click(payload, BUTTONS)


def render_tell_button(incident: str) -> Block:
    return blocks.button("Tell the customer…", TELL_ACTION_ID, encode_button_value(incident))


def render_tell_form(incident: str, tenant: str, draft: str = "") -> Block:
    """Render the form with a draft. Nothing is sent before the preview."""
    words = blocks.input_block(
        WORDS_BLOCK_ID,
        f"To {tenant}",
        blocks.text_input(initial=truncate_text(draft, MAX_MESSAGE_CHARS), multiline=True, max_chars=MAX_MESSAGE_CHARS),
        hint="Sent in RackMedic's name. Refused if it names other customers, machines that are not theirs, people or secrets.",
    )
    return blocks.modal(TELL_FORM_CALLBACK_ID, "Tell the customer", [words], submit="Preview", metadata=json.dumps({"incident": incident}))


def render_tell_preview(incident: str, tenant: str, words: str, shown: Card) -> Block:
    """Render the message as the tenant reads it. Raise BadForm if its encoding exceeds Slack's metadata limit."""
    carried = json.dumps({"incident": incident, "words": words}, ensure_ascii=False, separators=(",", ":"))
    if count_utf16_units(carried) > blocks.MAX_METADATA_CHARS:
        raise BadForm({WORDS_BLOCK_ID: "Too long for one message. Please shorten it."})
    head = blocks.context((f"{tenant} reads this text without your name. Nothing was sent yet.",))
    return blocks.modal(TELL_SEND_CALLBACK_ID, "As they read it", [head, *shown.blocks], submit="Send", metadata=carried)


def parse_tell_form(payload: Mapping[str, Any]) -> tuple[str, str]:
    """Return (incident, text) of the form or the preview. Raise StaleCard for another form."""
    try:
        metadata = json.loads(payload["view"]["private_metadata"])
        incident, shown_words = str(metadata["incident"]), str(metadata.get("words") or "")
        preview = payload["view"]["callback_id"] == TELL_SEND_CALLBACK_ID
    except MALFORMED_PAYLOAD_ERRORS as error:
        raise StaleCard from error
    return incident, shown_words[:MAX_MESSAGE_CHARS] if preview else get_form_text(payload, WORDS_BLOCK_ID)
