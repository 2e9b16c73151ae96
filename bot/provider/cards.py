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
    """`stage`: as in the outbox; `digest`: of the draft that was shown."""

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
        """True if this site must fix everything found."""
        return bool(self.causes) and not any(row.ours for row in self.causes) and self.state not in PROVED_STATES


def render_provider_ticket(view: ProviderTicketView) -> Card:
    head, *lines = _format_status(view)
    cause_blocks = [block for row in view.causes for block in tenant_card.render_cause(row, ENGLISH)] if view.stage == "sent" else []
    return blocks.build_card(
        head, [blocks.line_section(bold(head)), *([blocks.section(*lines)] if lines else []), *cause_blocks, *_render_buttons(view)]
    )


def render_provider_message(ticket: str, words: str) -> Card:
    """Return the provider's message, verbatim and never as markup."""
    head = "Your provider writes"
    return blocks.build_card(
        f"{head}: {words[:200]}",
        [
            blocks.line_section("💬 ", bold(f"{head}:")),
            blocks.code_section(split_lines(words), limit=MAX_QUOTED_CHARS),
            blocks.context(("Written by your provider about ticket ", code(ticket), " and forwarded unchanged. I do not act on it.")),
        ],
    )


def render_update(view: ProviderTicketView) -> Card:
    """Return a separate message, as an edit notifies no one."""
    if view.is_for_this_site:
        words = f"🛠 Your provider, ticket {view.ticket}: “{TENANT_CAUSE_TEXT}”"
        return blocks.build_card(words, [blocks.line_section(words)])
    words = f"{'✅' if view.state in PROVED_STATES else '📨'} Your provider, ticket {view.ticket}: “{format_state(view.state)}”"
    return blocks.build_card(words, [blocks.line_section(words)])


def render_refusal(words: str) -> Card:
    return blocks.build_card(words, [blocks.line_section(words)])


def format_attachment_note(*, facts_kept: bool = True) -> str:
    """Return the comment above the shown file."""
    missing_note = (
        "" if facts_kept else " I could not check the facts: the outputs of this incident are no longer stored, or not on this machine."
    )
    return f"{_ATTACHMENT_TEXT}{missing_note}"


def format_state(state: str) -> str:
    return get_phrase(f"state_{state}")


def parse_provider_click(payload: Mapping[str, Any]) -> ButtonClick:
    """Parse a click; `item` is the digest shown."""
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


def _build_line(words: str) -> Line:
    return (words,)


def _render_ticket_line(view: ProviderTicketView) -> Line:
    sender_note = f", sent by {view.by}" if view.by else ""
    return ("Their ticket ", code(view.ticket), f"{sender_note}. I ask them for the status; they cannot reach into this system.")


def _render_buttons(view: ProviderTicketView) -> list[Block]:
    if view.stage == "shown":
        value = encode_button_value(view.incident, view.digest)
        return [
            blocks.actions(
                blocks.button("Send this", SEND_ACTION_ID, value, style="primary"), blocks.button("Not now", BACK_ACTION_ID, value)
            )
        ]
    if view.stage == "waiting":
        return []
    words = "Send what is new…" if view.stage == "sent" else "Send to provider…"
    return [blocks.actions(blocks.button(words, SHOW_ACTION_ID, encode_button_value(view.incident)))]
