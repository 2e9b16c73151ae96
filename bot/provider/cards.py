"""At a tenant's site: the message that offers a ticket to the provider and shows its progress."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bot.cards import blocks
from bot.cards.blocks import Block, Card
from bot.cards.buttons import ButtonClick, encode_button_value, parse_button_click
from bot.cards.text import Line, bold, code
from bot.tenants.cards import tenant_card
from bot.tenants.cards.phrases import ENGLISH, get_phrase
from bot.tenants.cards.view import TenantCause
from kb.needle_search import split_lines

SHOW_ACTION_ID = "provider.show"
SEND_ACTION_ID = "provider.send"
BACK_ACTION_ID = "provider.back"
BUTTONS = {SHOW_ACTION_ID: "show", SEND_ACTION_ID: "send", BACK_ACTION_ID: "back"}
PROVED_STATES = ("proved", "closed")
TENANT_CAUSE_TEXT = "They found a cause that you can fix yourselves"
MAX_QUOTED_CHARS = 2000  # shown of the provider's message
_ATTACHMENT_TEXT = (
    "Only this will be sent to your provider. Nothing was sent yet. Names that begin with ~ are pseudonyms; the key to them stays here."
)


@dataclass(frozen=True, slots=True)
class ProviderTicketView:
    """What the message shows. `stage` is the stage of the outbox, and `digest` belongs to the draft that was shown."""

    incident: str
    stage: str
    digest: str = ""
    by: str = ""
    ticket: str = ""
    state: str = ""
    trouble: str = ""
    refused: str = ""
    tries: int = 0
    causes: tuple[TenantCause, ...] = ()  # causes found by the provider

    @property
    def is_for_this_site(self) -> bool:
        """Return whether this site must fix all causes that the provider found."""
        if not self.causes or self.state in PROVED_STATES:
            return False
        return not any(cause.ours for cause in self.causes)


def render_provider_ticket(view: ProviderTicketView) -> Card:
    head, *lines = _format_status(view)
    parts = [blocks.line_section(bold(head))]
    if lines:
        parts.append(blocks.section(*lines))
    if view.stage == "sent":
        for cause in view.causes:
            parts += tenant_card.render_cause(cause, ENGLISH)
    return blocks.build_card(head, [*parts, *_render_buttons(view)])


def render_provider_message(ticket: str, text: str) -> Card:
    """Render the provider's message as it is. Nothing in it is markup."""
    head = "Your provider writes"
    return blocks.build_card(
        f"{head}: {text[:200]}",
        [
            blocks.line_section("💬 ", bold(f"{head}:")),
            blocks.code_section(split_lines(text), limit=MAX_QUOTED_CHARS),
            blocks.context(("Written by your provider about ticket ", code(ticket), " and forwarded unchanged. I do not act on it.")),
        ],
    )


def render_update(view: ProviderTicketView) -> Card:
    """Render a new state as a message of its own, because Slack sends no notification for an edit."""
    if view.is_for_this_site:
        mark, status = "🛠", TENANT_CAUSE_TEXT
    else:
        mark, status = "✅" if view.state in PROVED_STATES else "📨", format_state(view.state)
    text = f"{mark} Your provider, ticket {view.ticket}: “{status}”"
    return blocks.build_card(text, [blocks.line_section(text)])


def render_refusal(text: str) -> Card:
    return blocks.build_card(text, [blocks.line_section(text)])


def format_attachment_note(*, facts_kept: bool = True) -> str:
    """Return the comment above the file that shows what would be sent."""
    if facts_kept:
        return _ATTACHMENT_TEXT
    return f"{_ATTACHMENT_TEXT} I could not check the facts: the outputs of this incident are no longer stored, or not on this machine."


def format_state(state: str) -> str:
    return get_phrase(f"state_{state}")


def parse_provider_click(payload: Mapping[str, Any]) -> ButtonClick:
    """Parse a click. Its `item` is the digest of the draft that was shown."""
    return parse_button_click(payload, BUTTONS)


def _format_status(view: ProviderTicketView) -> list[Any]:
    match view.stage:
        case "shown":
            return ["Send this to your provider?", _build_line("The file above is everything. Nothing is sent until you click.")]
        case "waiting":
            trouble_lines = [_build_line(f"Tried {view.tries} times: {view.trouble}. Retrying automatically.")] if view.trouble else []
            return ["On its way to your provider", _build_line(f"Requested by {view.by or 'a person'}."), *trouble_lines]
        case "refused":
            return ["Your provider did not take it", _build_line(view.refused)]
        case "sent":
            head = TENANT_CAUSE_TEXT if view.is_for_this_site else f"Your provider has it: “{format_state(view.state or 'received')}”"
            return [head, _render_ticket_line(view)]
        case _:
            return [
                "Your provider may have to fix this",
                _build_line("I can send them what was tried and seen. You review all of it first."),
            ]


def _build_line(text: str) -> Line:
    return (text,)


def _render_ticket_line(view: ProviderTicketView) -> Line:
    sender_note = f", sent by {view.by}" if view.by else ""
    return ("Their ticket ", code(view.ticket), f"{sender_note}. I ask them for the status; they cannot reach into this system.")


def _render_buttons(view: ProviderTicketView) -> list[Block]:
    if view.stage == "shown":
        value = encode_button_value(view.incident, view.digest)
        send = blocks.button("Send this", SEND_ACTION_ID, value, style="primary")
        return [blocks.actions(send, blocks.button("Not now", BACK_ACTION_ID, value))]
    if view.stage == "waiting":
        return []
    label = "Send what is new…" if view.stage == "sent" else "Send to provider…"
    return [blocks.actions(blocks.button(label, SHOW_ACTION_ID, encode_button_value(view.incident)))]
