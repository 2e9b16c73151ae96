"""The reject form. The reason is required for the next diagnosis and the audit log."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bot.cards import blocks
from bot.cards.blocks import Block
from bot.cards.buttons import BadForm, get_form_text, parse_form_target
from bot.remediation.cards import action_text
from bot.remediation.cards.approval_card import encode_action
from tools.ledger.record import ActionRecord

CALLBACK_ID = "reject_modal.submit"
REASON_BLOCK_ID = "reject_modal.reason"
MAX_REASON_CHARS = 400


@dataclass(frozen=True, slots=True)
class Rejection:
    approval: str
    digest: str
    reason: str


def render_reject_form(record: ActionRecord) -> Block:
    reason = blocks.input_block(
        REASON_BLOCK_ID,
        "Why not?",
        blocks.text_input(multiline=True, most=MAX_REASON_CHARS),
        hint="One sentence is enough. It is kept in the audit log and shown on the card.",
    )
    return blocks.modal(
        CALLBACK_ID,
        "Reject the action",
        [blocks.section((action_text.summarize_action(record.action),)), reason],
        submit="Reject",
        metadata=encode_action(record),
    )


def parse_reject_form(payload: Mapping[str, Any]) -> Rejection:
    """Parse the form. Raise BadForm without a reason."""
    approval, digest = parse_form_target(payload)
    reason = get_form_text(payload, REASON_BLOCK_ID)
    if not reason:
        raise BadForm({REASON_BLOCK_ID: "Say why, in one sentence."})
    return Rejection(approval, digest, reason[:MAX_REASON_CHARS])
