"""What a customer reads where nothing came of what they wrote or pressed: in their language, and naming nothing that is ours."""

from dataclasses import dataclass
from typing import Final

from bot.cards.blocks import Card
from bot.cards.buttons import OldButton
from bot.cards.text import Line
from bot.policy.channels import ChannelNotServed
from bot.refusal import Refusal
from bot.tenants.cards import tenant_card
from bot.tenants.cards.phrases import get_phrase

REASON_PHRASES: Final = {"mentions": "not_mentions"}
"""Why a channel is not served → the phrase; anything else is `not_served`."""


@dataclass(frozen=True, slots=True)
class TenantErrorCards:
    """The cards, in one language."""

    language: str

    def render_refusal(self, no: Refusal) -> Card:
        """What will not be done. The words of what is no refusal of theirs were meant for our own people, and are not shown."""
        if isinstance(no, OldButton):
            return tenant_card.render_text_card(get_phrase("not_old_button", self.language))
        if isinstance(no, ChannelNotServed):
            return tenant_card.render_text_card(get_phrase(REASON_PHRASES.get(no.why, "not_served"), self.language))
        return tenant_card.render_text_card(get_phrase("not_done", self.language))

    def render_not_stored(self, *, will_retry: bool) -> Card:
        """The store is away. `will_retry`: what they wrote is sent to us once more."""
        return tenant_card.render_text_card(get_phrase("not_stored_again" if will_retry else "not_stored", self.language))

    def render_bug(self, reference: str, known: Line) -> Card:
        """A bug of ours; `reference` finds it in our log. That nothing was changed is known: nothing that is said or pressed there runs anything."""
        return tenant_card.render_text_card(get_phrase("not_ours_to_mend", self.language, reference=reference))
