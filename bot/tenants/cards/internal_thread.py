"""What operators see of a tenant: the thread's first message, the tenant's messages, and the form to write to them.

A tenant's text are quoted and count as evidence of low trust.
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
MAX_QUOTED_CHARS = 1500  # quoted from a tenant
MAX_MESSAGE_CHARS = 1500  # sent to a tenant
MAX_FILE_NAMES = 10


def render_root_message(incident: str, tenant: str, channel: str, text: str, files: Sequence[str]) -> Card:
    head = f"{tenant} reports"
    return blocks.build_card(
        f"{head}: {text[:200]}",
        [
            blocks.line_section(bold(head), " in ", channel_link(channel)),
            *render_quoted_text(text, files),
            blocks.actions(render_tell_button(incident)),
            blocks.context(
                (
                    "What you write here stays here. ",
                    "Their card updates automatically: received, taken, waiting, repaired, proved, closed.",
                )
            ),
        ],
    )


def render_tenant_message(tenant: str, text: str, files: Sequence[str]) -> Card:
    return blocks.build_card(f"{tenant}: {text[:200]}", [blocks.line_section(bold(f"{tenant}:")), *render_quoted_text(text, files)])


def render_note(text: str) -> Card:
    return blocks.build_card(text, [blocks.context((text,))])


def render_visibility_note(tenant: str, internal: str) -> Card:
    """Tell an operator who mentions RackMedic in a tenant's channel who reads the answer."""
    note = f"This is a channel of {tenant}: I treat this as their report and check only their machines, and they read the answer. Full details are in"
    return blocks.build_card(note, [blocks.context((f"{note} ", channel_link(internal), "."))])


def render_sent_message(by: str, text: str, *, fetched: bool = False) -> Card:
    """Render the text that the tenant was told, and who told them. `fetched`: the tenant's own RackMedic polls for it."""
    poll_text = "Their own RackMedic fetches it at its next poll: every half minute, or every ten minutes once the repair is proved."
    parts = [blocks.line_section(bold("Told the customer"), f" ({by}):"), blocks.code_section(split_lines(text))]
    return blocks.build_card("The customer was told", [*parts, blocks.context((poll_text,))] if fetched else parts)


def render_quoted_text(text: str, files: Sequence[str]) -> list[Block]:
    """Quote a tenant in monospace, so that nothing in the text is markup, and list the attached files."""
    quoted_blocks = [blocks.code_section(split_lines(text[:MAX_QUOTED_CHARS]))] if text.strip() else []
    if files:
        names = [part for name in files[:MAX_FILE_NAMES] for part in (code(name), " ")]
        quoted_blocks.append(blocks.context(("Attached: ", *names)))
    return quoted_blocks


def parse_tell_click(payload: Mapping[str, Any]) -> ButtonClick:
    return parse_button_click(payload, BUTTONS)


def render_tell_button(incident: str) -> Block:
    return blocks.button("Tell the customer…", TELL_ACTION_ID, encode_button_value(incident))


def render_tell_form(incident: str, tenant: str, draft: str = "") -> Block:
    """Render the form with a draft. Nothing is sent before the preview."""
    text = blocks.input_block(
        WORDS_BLOCK_ID,
        f"To {tenant}",
        blocks.text_input(initial=truncate_text(draft, MAX_MESSAGE_CHARS), multiline=True, max_chars=MAX_MESSAGE_CHARS),
        hint="Sent in RackMedic's name. Refused if it names other customers, machines that are not theirs, people or secrets.",
    )
    return blocks.modal(TELL_FORM_CALLBACK_ID, "Tell the customer", [text], submit="Preview", metadata=json.dumps({"incident": incident}))


def render_tell_preview(incident: str, tenant: str, text: str, shown: Card) -> Block:
    """Render the message as the tenant reads it. Raise BadForm if its encoding exceeds Slack's metadata limit."""
    metadata = json.dumps({"incident": incident, "words": text}, ensure_ascii=False, separators=(",", ":"))
    if count_utf16_units(metadata) > blocks.MAX_METADATA_CHARS:
        raise BadForm({WORDS_BLOCK_ID: "Too long for one message. Please shorten it."})
    head = blocks.context((f"{tenant} reads this text without your name. Nothing was sent yet.",))
    return blocks.modal(TELL_SEND_CALLBACK_ID, "As they read it", [head, *shown.blocks], submit="Send", metadata=metadata)


def parse_tell_form(payload: Mapping[str, Any]) -> tuple[str, str]:
    """Return the incident and the text of the form or of its preview. Raise StaleCard for another form."""
    try:
        metadata = json.loads(payload["view"]["private_metadata"])
        incident, shown_words = str(metadata["incident"]), str(metadata.get("words") or "")
        preview = payload["view"]["callback_id"] == TELL_SEND_CALLBACK_ID
    except MALFORMED_PAYLOAD_ERRORS as error:
        raise StaleCard from error
    return incident, shown_words[:MAX_MESSAGE_CHARS] if preview else get_form_text(payload, WORDS_BLOCK_ID)
