"""What a feature registers with Slack: a handler for each id that its cards and forms render."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from bot.cards.blocks import Card
from bot.cards.buttons import OldButton
from bot.refusal import Refusal
from bot.slack.payloads import Payload

# Handlers raise a Refusal, or StoreUnreachable if what happened could not be stored.
ClickHandler = Callable[[Payload], Awaitable[None]]
FormHandler = Callable[[Payload], Awaitable[Mapping[str, Any] | None]]  # returns Slack's response_action; None closes the form
CommandHandler = Callable[[Payload], Awaitable[Card]]
EventHandler = Callable[[Payload, str], Awaitable[None]]  # the payload and our own user id
BugEffects = Literal["decision", "command", "message"]  # what may have happened before a bug: a vote was counted, …


@dataclass(frozen=True, slots=True)
class SlackHandlers:
    """One feature's handlers by action id, callback id and event type."""

    clicks: Mapping[str, ClickHandler] = field(default_factory=dict)
    forms: Mapping[str, FormHandler] = field(default_factory=dict)
    shortcuts: Mapping[str, ClickHandler] = field(default_factory=dict)
    events: Mapping[str, EventHandler] = field(default_factory=dict)
    decides: bool = False  # its clicks may have counted a decision before they failed


class ErrorCards(Protocol):
    """Cards shown when a request failed."""

    def render_refusal(self, no: Refusal) -> Card: ...

    def render_not_stored(self, *, will_retry: bool) -> Card: ...

    def render_bug(self, reference: str, effects: BugEffects) -> Card: ...


ErrorCardLookup = Callable[[str], ErrorCards]  # channel → its error cards


async def refuse_old_button(payload: Payload) -> None:
    """Refuse a click or form of a feature that is switched off, or that no feature knows."""
    raise OldButton


def get_channel(payload: Payload) -> str:
    where = (payload.get("event") or {}).get("channel") or (payload.get("channel") or {}).get("id") or payload.get("channel_id")
    return str(where or "")
