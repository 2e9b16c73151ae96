"""Cards of tickets sent to a provider or received from a tenant. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bot.cards import blocks
from bot.cards.blocks import Block, Card
from bot.cards.buttons import ButtonClick, encode_button_value, parse_button_click
from bot.cards.text import Line, bold, code
from bot.tenants.cards import internal_thread, tenant_card
from bot.tenants.cards.phrases import ENGLISH, get_phrase
from bot.tenants.cards.view import TenantCause
from graph.ticket_export.document import ExportedHypothesis, TicketDocument
from kb.needle_search import split_lines

# At a tenant's site: the message that offers a ticket to the provider and shows its progress.

SHOW_ACTION_ID = "provider.show"
SEND_ACTION_ID = "provider.send"
BACK_ACTION_ID = "provider.back"
BUTTONS = {SHOW_ACTION_ID: "show", SEND_ACTION_ID: "send", BACK_ACTION_ID: "back"}
PROVED_STATES = ("proved", "closed")
TENANT_CAUSE_TEXT = "They found a cause that you can fix yourselves"
MAX_QUOTED_CHARS = 2000  # shown of the provider's message


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
    found: tuple[TenantCause, ...] = ()  # causes found by the provider

    @property
    def is_for_this_site(self) -> bool:
        """True if this site must fix everything found."""
        return bool(self.found) and not any(row.ours for row in self.found) and self.state not in PROVED_STATES


def render_provider_ticket(view: ProviderTicketView) -> Card:
    head, *lines = _format_status(view)
    cause_blocks = [block for row in view.found for block in tenant_card.render_cause(row, ENGLISH)] if view.stage == "sent" else []
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


_ATTACHMENT_TEXT = (
    "Only this will be sent to your provider. Nothing was sent yet. Names that begin with ~ are pseudonyms; the key to them stays here."
)


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


# A tenant's ticket as operators read it. All its text is quoted and of low trust.

MAX_CAUSES = 6
MAX_LINES = 6
MAX_TRIED_REMEDIES = 6


def render_received_ticket(incident: str, tenant: str, document: TicketDocument) -> Card:
    """Return the thread's first message."""
    head = f"{tenant}'s own RackMedic sent a ticket"
    return blocks.build_card(
        f"{head}: {_join_messages(document)[:200]}",
        [
            blocks.line_section(bold(head), " ", code(document.incident)),
            *([blocks.code_section(split_lines(_join_messages(document)))] if _join_messages(document) else []),
            blocks.section(*_render_facts(document)),
            *_render_causes(document.hypotheses),
            *_render_quoted(
                "Their evidence:",
                [f"{row.host or 'handed in'} {row.check}: {row.line}" for row in document.facts if row.line],
            ),
            *_render_quoted("In their logs:", [f"{row.count:,}× {row.text}" for log in document.logs for row in log.templates]),
            blocks.context(
                (
                    "Their words and facts are hints, not proof: my own checks decide. ",
                    "Names that begin with ~ are pseudonyms; only the customer knows the real names.",
                )
            ),
            blocks.actions(internal_thread.render_tell_button(incident)),
        ],
    )


def render_ticket_update(tenant: str, document: TicketDocument) -> Card:
    head = f"{tenant}'s own RackMedic has news of {document.incident}"
    message_blocks = [blocks.code_section(split_lines(_join_messages(document)))] if _join_messages(document) else []
    return blocks.build_card(
        head,
        [blocks.line_section(bold(head)), *message_blocks, blocks.section(*_render_facts(document)), *_render_causes(document.hypotheses)],
    )


def render_ticket_lost(tenant: str) -> Card:
    """Return the card for an expired document."""
    head = f"{tenant}'s own RackMedic sent a ticket"
    return blocks.build_card(
        head, [blocks.line_section(bold(head)), blocks.context(("Its content is no longer stored; ask them to send it again.",))]
    )


def _join_messages(document: TicketDocument) -> str:
    return "\n".join(row.text for row in document.said)


def _render_facts(document: TicketDocument) -> list[Line]:
    versions = "; ".join(f"{row.what} {row.value}" for row in document.versions[:MAX_LINES])
    attempts = "; ".join(f"{row.remedy} on {row.target}: {row.outcome or 'goes on'}" for row in document.tried[:MAX_TRIED_REMEDIES])
    unobserved = "; ".join(f"{row.host} {row.check}: {row.why}" for row in document.could_not_look[:MAX_LINES])
    rows = (
        ("Hosts, by their names:", ", ".join(document.hosts) or "none named"),
        ("Since:", f"{document.since:%Y-%m-%d %H:%MZ}" if document.since else ""),
        ("Versions:", versions),
        ("Tried by them:", attempts),
        ("They could not look:", unobserved),
        ("Rows without room:", str(document.left_out or "")),
    )
    return [(bold(name), f" {value[:400]}") for name, value in rows if value]


def _render_causes(rows: Sequence[ExportedHypothesis]) -> list[Block]:
    lines: list[Line] = [(code(row.label), f" {row.verdict}", *_render_place(row), f": {row.because}") for row in rows[:MAX_CAUSES]]
    rest = len(rows) - MAX_CAUSES
    more: list[Line] = [(f"… and {rest} more",)] if rest > 0 else []
    return [blocks.section((bold("What they tried:"),), *lines, *more)] if lines else []


def _render_quoted(head: str, rows: Sequence[str]) -> list[Block]:
    return [blocks.section((bold(head),)), blocks.code_section(rows[:MAX_LINES])] if rows else []


def _render_place(row: ExportedHypothesis) -> Line:
    location = ", ".join((row.devices or row.hosts)[:6])
    return (" on ", code(location)) if location else ()
