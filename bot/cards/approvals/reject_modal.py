"""Rejecting an action: the reason is required, because the next diagnosis and the audit are to know it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bot.cards import blocks
from bot.cards.approvals import words
from bot.cards.approvals.card import carry
from bot.cards.blocks import Block
from bot.cards.buttons import BadForm, form_about, form_text
from tools.ledger.record import Record

CALLBACK = "reject_modal.submit"
REASON = "reject_modal.reason"
MOST_REASON = 400


@dataclass(frozen=True, slots=True)
class Rejection:
    """Somebody's no, and why."""

    approval: str
    digest: str
    reason: str


def render(record: Record) -> Block:
    """The form."""
    reason = blocks.field_input(
        REASON,
        "Why not?",
        blocks.text_input(multiline=True, most=MOST_REASON),
        hint="One sentence is enough. It is kept in the audit log and shown on the card.",
    )
    return blocks.modal(
        CALLBACK, "Reject the action", [blocks.section((words.what(record.action),)), reason], submit="Reject", metadata=carry(record)
    )


def read(payload: Mapping[str, Any]) -> Rejection:
    """A submission. BadForm where the reason is missing."""
    approval, digest = form_about(payload)
    reason = form_text(payload, REASON)
    if not reason:
        raise BadForm({REASON: "Say why, in one sentence."})
    return Rejection(approval, digest, reason[:MOST_REASON])
