"""Messages between tenant and provider. Unknown fields are ignored; a known field with an invalid value is refused."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Final, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bot.provider.provider_updates import ProviderCauses, ProviderMessages
from bot.tenants.cards.view import TenantState

TICKET_SENT: Final = "rackmedic.ticket.sent"
STATES_ASKED: Final = "rackmedic.states.asked"
MAX_ASKED_TICKETS = 50
TicketId = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
ProviderState = Literal["received", "taken", "repairing", "proved", "closed"]  # wording as on the tenant's card
assert {*get_args(ProviderState)} | {"", "waiting"} == {*get_args(TenantState)}


def to_provider_state(state: TenantState) -> ProviderState:
    """Return the wire state; `waiting` is sent as `taken`, as older versions cannot parse it."""
    return "taken" if state == "waiting" else state or "received"


class BadMessage(Exception):
    """The message does not match the format of this version."""


class _WireModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class TicketAnswer(_WireModel):
    """The provider's ticket id, the ticket's state, and the fields that the provider ignored."""

    ticket: TicketId
    state: ProviderState
    ignored: tuple[Annotated[str, Field(max_length=120)], ...] = Field((), max_length=50)


class StatesAnswer(_WireModel):
    """State of each ticket. Tickets that do not belong to the requester are omitted."""

    states: dict[TicketId, ProviderState] = Field(max_length=MAX_ASKED_TICKETS)
    # messages that the requester has not received yet
    told: dict[TicketId, ProviderMessages] = Field(default_factory=dict, max_length=MAX_ASKED_TICKETS)
    # causes; a ticket is missing if it has none or if they did not fit
    found: dict[TicketId, ProviderCauses] = Field(default_factory=dict, max_length=MAX_ASKED_TICKETS)


class _Envelope(_WireModel):
    type: Annotated[str, Field(max_length=60)]
    data: dict[str, Any]


class StatesRequest(_WireModel):
    """Ticket ids, and per ticket the last message number already received (0: none).

    Without `after`, only states are returned.
    """

    tickets: tuple[TicketId, ...] = Field(max_length=MAX_ASKED_TICKETS)
    after: dict[TicketId, Annotated[int, Field(ge=0, le=1_000_000)]] = Field(default_factory=dict, max_length=MAX_ASKED_TICKETS)


def build_ticket_message(document: bytes, at: datetime) -> bytes:
    """Build the message that sends a ticket. Retries yield identical bytes."""
    return b'{"type":"%s","timestamp":"%s","data":%s}' % (TICKET_SENT.encode(), at.isoformat().encode(), document)


def build_states_message(after: Mapping[str, int], at: datetime) -> bytes:
    data = {"tickets": list(after), "after": dict(after)}
    return json.dumps({"type": STATES_ASKED, "timestamp": at.isoformat(), "data": data}).encode()


def parse_message(body: bytes) -> tuple[str, dict[str, Any]]:
    """Return (type, data). Raises BadMessage."""
    try:
        envelope = _Envelope.model_validate_json(body)
    except ValidationError as error:
        raise BadMessage("a message has `type` and `data`") from error
    return envelope.type, envelope.data


def parse_states_request(data: dict[str, Any]) -> StatesRequest:
    """Raises BadMessage."""
    try:
        return StatesRequest.model_validate(data)
    except ValidationError as error:
        raise BadMessage(f"tickets: at most {MAX_ASKED_TICKETS} ids; after: a number for each") from error


def parse_ticket_answer(body: bytes) -> TicketAnswer:
    """Raises BadMessage."""
    try:
        return TicketAnswer.model_validate_json(body)
    except ValidationError as error:
        raise BadMessage("the intake's answer is not one to a ticket") from error


def parse_states_answer(body: bytes) -> StatesAnswer:
    """Raises BadMessage."""
    try:
        return StatesAnswer.model_validate_json(body)
    except ValidationError as error:
        raise BadMessage("the intake's answer is not one about states") from error
