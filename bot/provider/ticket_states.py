"""How far a customer's ticket is, as their own RackMedic is told: what the customers' card would show, what our people tell them, and nothing else
of the incident."""

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar, cast

from bot.incidents.dispatch.inbox import Inbox
from bot.provider.message_store import ProviderMessageStore
from bot.provider.provider_updates import ProviderCause, ProviderMessage, build_provider_causes
from bot.provider.wire_messages import ProviderState, StatesAnswer, StatesRequest, to_provider_state
from bot.tenants.cards.view import SlotValueLookup, TenantView, build_tenant_view, get_no_slot_values
from bot.tenants.cards.view_context import build_tenant_view_context
from graph.incident_view import IncidentView
from graph.state import IncidentState
from kb.customers.cause_words import CustomerWords
from tools.fact import Fact
from tools.inventory.inventory import Inventory

Row = TypeVar("Row", ProviderCause, ProviderMessage)
ApprovedActionsLookup = Callable[[str], Awaitable[frozenset[str]]]
"""The actions of an incident that somebody has approved."""
MAX_UPDATE_BYTES = 40 << 10
"""Bytes of words and causes in one answer: the reader takes 64 KiB. What has no room comes with the next."""


async def load_no_facts(incident: str) -> Sequence[Fact]:
    """No facts."""
    return ()


@dataclass(frozen=True, slots=True)
class TicketStates:
    """Of tickets that arrived from a tenant; of anything else nothing is said."""

    inbox: Inbox
    inventory: Inventory
    words: CustomerWords
    state_of: Callable[[str], Awaitable[IncidentState]]
    begun_of: ApprovedActionsLookup
    told: ProviderMessageStore
    known: SlotValueLookup = get_no_slot_values
    facts_of: Callable[[str], Awaitable[Sequence[Fact]]] = load_no_facts

    async def get_states(self, tenant: str, tickets: Sequence[str]) -> dict[str, ProviderState]:
        """Those that are this tenant's."""
        return (await self.answer_states_request(tenant, StatesRequest(tickets=tuple(tickets)))).states

    async def answer_states_request(self, tenant: str, asked: StatesRequest) -> StatesAnswer:
        """States of all; words and causes where they were asked for and have room."""
        states: dict[str, ProviderState] = {}
        told: dict[str, tuple[ProviderMessage, ...]] = {}
        found: dict[str, tuple[ProviderCause, ...]] = {}
        room = MAX_UPDATE_BYTES
        for ticket in dict.fromkeys(asked.tickets):
            view = await self.build_view(tenant, ticket)
            if view is None:
                continue
            states[ticket] = to_provider_state(view.state)
            if ticket not in asked.after:
                continue
            fitting = _select_fitting(build_provider_causes(view.causes), room)
            room -= sum(map(_measure_bytes, fitting))
            words = _select_fitting(await self.told.list_messages_after(ticket, asked.after[ticket]), room)
            room -= sum(map(_measure_bytes, words))
            found |= {ticket: fitting} if fitting else {}
            told |= {ticket: words} if words else {}
        return StatesAnswer(states=states, told=told, found=found)

    async def build_view(self, tenant: str, ticket: str) -> TenantView | None:
        """What the customers' card of it would show; None for what is no ticket of this tenant's."""
        origin = await self.inbox.get_origin(ticket)
        if origin is None or origin.tenant != tenant or not origin.ticket:
            return None
        rows = IncidentView(cast(IncidentState, {**await self.state_of(ticket), "id": ticket}))
        reader = build_tenant_view_context(self.inventory, self.words, origin, "en", self.known, await self.facts_of(ticket))
        view = build_tenant_view(rows, reader, begun=await self.begun_of(ticket))
        if await self.inbox.get_lifecycle(ticket) == "closed":
            return replace(view, state="closed")
        return view


def _select_fitting(rows: Sequence[Row], room: int) -> tuple[Row, ...]:
    """The first of them that fit into so many bytes."""
    kept: list[Row] = []
    for row in rows:
        room -= _measure_bytes(row)
        if room < 0:
            break
        kept.append(row)
    return tuple(kept)


def _measure_bytes(row: ProviderCause | ProviderMessage) -> int:
    return len(json.dumps(row.model_dump(mode="json")))
