"""What an operator reads after a failed message, click or command."""

from typing import Final

from bot.cards.blocks import Card
from bot.incidents.cards import notes
from bot.incidents.context import render_refusal
from bot.refusal import Refusal
from bot.slack.handlers import BugEffects, ErrorCardLookup, ErrorCards
from bot.tenants.handlers import TenantHandlers

BUG_NOTES: Final = {"decision": notes.DECISION_ERROR_TEXT, "command": notes.COMMAND_ERROR_TEXT, "message": notes.MESSAGE_ERROR_TEXT}


class OperatorErrorCards:
    def render_refusal(self, no: Refusal) -> Card:
        return render_refusal(no)

    def render_not_stored(self, *, will_retry: bool) -> Card:
        return notes.render_not_stored(will_retry)

    def render_bug(self, reference: str, effects: BugEffects) -> Card:
        return notes.render_internal_error(reference, BUG_NOTES[effects])


def build_error_card_lookup(tenants: TenantHandlers | None) -> ErrorCardLookup:
    """Return the error cards by channel: a tenant's channel has its own, if tenants' channels are served."""
    operators = OperatorErrorCards()

    def find_error_cards(channel: str) -> ErrorCards:
        return (tenants.get_error_cards(channel) if tenants else None) or operators

    return find_error_cards
