"""How far a customer's ticket is, as their own RackMedic is told: what the customers' card would show, what our people tell them, and nothing else
of the incident."""

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar, cast

from bot.cards.customers.reader import reader_of
from bot.cards.customers.view import CustomerView, Known, customer_view, nothing_known
from bot.desk.inbox import Inbox
from bot.provider.messages import FarState, StatesAnswer, StatesAsked, far
from bot.provider.news import ProviderCause, ProviderWords, causes_of
from bot.provider.telling import ToldBook
from graph.rows import IncidentRows
from graph.state import Incident
from kb.customers.words import CustomerWords
from tools.fact import Fact
from tools.inventory.hosts import Inventory

Row = TypeVar("Row", ProviderCause, ProviderWords)
BegunOf = Callable[[str], Awaitable[frozenset[str]]]
"""The actions of an incident that somebody has approved."""
MOST_NEWS = 40 << 10
"""Bytes of words and causes in one answer: the reader takes 64 KiB. What has no room comes with the next."""


async def nothing_seen(incident: str) -> Sequence[Fact]:
    """No facts."""
    return ()


@dataclass(frozen=True, slots=True)
class TicketStates:
    """Of tickets that arrived from a tenant; of anything else nothing is said."""

    inbox: Inbox
    inventory: Inventory
    words: CustomerWords
    state_of: Callable[[str], Awaitable[Incident]]
    begun_of: BegunOf
    told: ToldBook
    known: Known = nothing_known
    facts_of: Callable[[str], Awaitable[Sequence[Fact]]] = nothing_seen

    async def of(self, tenant: str, tickets: Sequence[str]) -> dict[str, FarState]:
        """Those that are this tenant's."""
        return (await self.answer(tenant, StatesAsked(tickets=tuple(tickets)))).states

    async def answer(self, tenant: str, asked: StatesAsked) -> StatesAnswer:
        """States of all; words and causes where they were asked for and have room."""
        states: dict[str, FarState] = {}
        told: dict[str, tuple[ProviderWords, ...]] = {}
        found: dict[str, tuple[ProviderCause, ...]] = {}
        room = MOST_NEWS
        for ticket in dict.fromkeys(asked.tickets):
            view = await self.view(tenant, ticket)
            if view is None:
                continue
            states[ticket] = far(view.state)
            if ticket not in asked.after:
                continue
            fitting = _fitting(causes_of(view.causes), room)
            room -= sum(map(_bytes, fitting))
            words = _fitting(await self.told.after(ticket, asked.after[ticket]), room)
            room -= sum(map(_bytes, words))
            found |= {ticket: fitting} if fitting else {}
            told |= {ticket: words} if words else {}
        return StatesAnswer(states=states, told=told, found=found)

    async def view(self, tenant: str, ticket: str) -> CustomerView | None:
        """What the customers' card of it would show; None for what is no ticket of this tenant's."""
        origin = await self.inbox.origin(ticket)
        if origin is None or origin.tenant != tenant or not origin.ticket:
            return None
        rows = IncidentRows(cast(Incident, {**await self.state_of(ticket), "id": ticket}))
        reader = reader_of(self.inventory, self.words, origin, "en", self.known, await self.facts_of(ticket))
        view = customer_view(rows, reader, begun=await self.begun_of(ticket))
        if await self.inbox.lifecycle(ticket) == "closed":
            return replace(view, state="closed")
        return view


def _fitting(rows: Sequence[Row], room: int) -> tuple[Row, ...]:
    """The first of them that fit into so many bytes."""
    kept: list[Row] = []
    for row in rows:
        room -= _bytes(row)
        if room < 0:
            break
        kept.append(row)
    return tuple(kept)


def _bytes(row: ProviderCause | ProviderWords) -> int:
    return len(json.dumps(row.model_dump(mode="json")))
