"""What a tenant reads after a failed message or click, in their language and without internal names."""

from dataclasses import dataclass
from typing import Final

from bot.cards.blocks import Card
from bot.cards.buttons import OldButton
from bot.policy.channels import ChannelNotServed
from bot.refusal import Refusal
from bot.slack.handlers import BugEffects
from bot.tenants.cards import tenant_card
from bot.tenants.cards.phrases import get_phrase

REASON_PHRASES: Final = {"mentions": "not_mentions"}  # ChannelNotServed reason → phrase id; default `not_served`.


@dataclass(frozen=True, slots=True)
class TenantErrorCards:
    language: str

    def render_refusal(self, refusal: Refusal) -> Card:
        """Render a refusal. Texts written for operators are replaced by a general phrase."""
        if isinstance(refusal, OldButton):
            return tenant_card.render_text_card(get_phrase("not_old_button", self.language))
        if isinstance(refusal, ChannelNotServed):
            return tenant_card.render_text_card(get_phrase(REASON_PHRASES.get(refusal.why, "not_served"), self.language))
        return tenant_card.render_text_card(get_phrase("not_done", self.language))

    def render_not_stored(self, *, will_retry: bool) -> Card:
        """Render that the store is unreachable. `will_retry`: Slack delivers the message again."""
        return tenant_card.render_text_card(get_phrase("not_stored_again" if will_retry else "not_stored", self.language))

    def render_bug(self, reference: str, effects: BugEffects) -> Card:
        """Render an internal error; `reference` finds it in our log. Nothing said or clicked there runs anything."""
        return tenant_card.render_text_card(get_phrase("internal_error", self.language, reference=reference))
