"""What the two ends say to each other, as values: every message names its type, and every answer is read strictly."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Final, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bot.cards.customers.view import State
from bot.provider.news import Found, Told

TICKET_SENT: Final = "rackmedic.ticket.sent"
STATES_ASKED: Final = "rackmedic.states.asked"
MOST_ASKED = 50
TicketId = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
FarState = Literal["received", "taken", "repairing", "proved", "closed"]
"""How far the provider is, in the words of the customers' card."""
assert {*get_args(FarState)} | {"", "waiting"} == {*get_args(State)}


def far(state: State) -> FarState:
    """What is told of it to whoever asks from outside. That a taken one waits is none of theirs: versions before would not read the answer."""
    return "taken" if state == "waiting" else state or "received"


class BadMessage(Exception):
    """Not of the shape that this version knows."""


class _Read(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class TicketAnswer(_Read):
    """The provider has it: their ticket, how far it is, and which fields they passed over."""

    ticket: TicketId
    state: FarState
    ignored: tuple[Annotated[str, Field(max_length=120)], ...] = Field((), max_length=50)


class StatesAnswer(_Read):
    """How far each ticket is; one that the provider does not know as the asker's is not in it."""

    states: dict[TicketId, FarState] = Field(max_length=MOST_ASKED)
    told: dict[TicketId, Told] = Field(default_factory=dict, max_length=MOST_ASKED)
    """What their people said, after what the asker has heard."""
    found: dict[TicketId, Found] = Field(default_factory=dict, max_length=MOST_ASKED)
    """Causes that they found. A ticket that is not in it has none, or had no room in this answer."""


class _Envelope(_Read):
    type: Annotated[str, Field(max_length=60)]
    data: dict[str, Any]


class StatesAsked(_Read):
    """Which tickets, and after which of their people's words (0: all): who does not say so is told states alone."""

    tickets: tuple[TicketId, ...] = Field(max_length=MOST_ASKED)
    after: dict[TicketId, Annotated[int, Field(ge=0, le=1_000_000)]] = Field(default_factory=dict, max_length=MOST_ASKED)


def ticket_message(document: bytes, at: datetime) -> bytes:
    """A ticket on its way; the same bytes each time that it is sent."""
    return b'{"type":"%s","timestamp":"%s","data":%s}' % (TICKET_SENT.encode(), at.isoformat().encode(), document)


def states_message(after: Mapping[str, int], at: datetime) -> bytes:
    """How far are these, and what was said after what we heard?"""
    data = {"tickets": list(after), "after": dict(after)}
    return json.dumps({"type": STATES_ASKED, "timestamp": at.isoformat(), "data": data}).encode()


def read_message(body: bytes) -> tuple[str, dict[str, Any]]:
    """(type, data). Raises BadMessage."""
    try:
        envelope = _Envelope.model_validate_json(body)
    except ValidationError as why:
        raise BadMessage("a message has `type` and `data`") from why
    return envelope.type, envelope.data


def read_asked(data: dict[str, Any]) -> StatesAsked:
    """The tickets that are asked about. Raises BadMessage."""
    try:
        return StatesAsked.model_validate(data)
    except ValidationError as why:
        raise BadMessage(f"tickets: at most {MOST_ASKED} ids; after: a number for each") from why


def read_ticket_answer(body: bytes) -> TicketAnswer:
    """Raises BadMessage."""
    try:
        return TicketAnswer.model_validate_json(body)
    except ValidationError as why:
        raise BadMessage("the intake's answer is not one to a ticket") from why


def read_states_answer(body: bytes) -> StatesAnswer:
    """Raises BadMessage."""
    try:
        return StatesAnswer.model_validate_json(body)
    except ValidationError as why:
        raise BadMessage("the intake's answer is not one about states") from why
