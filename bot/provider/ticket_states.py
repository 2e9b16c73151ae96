"""Ticket progress for a tenant: what its card would show and operators' messages, nothing else."""

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar, cast

from bot.incidents.dispatch.inbox import Inbox
from bot.provider.provider_updates import ProviderCause, ProviderMessage, ProviderMessageStore, build_provider_causes
from bot.provider.wire_messages import ProviderState, StatesAnswer, StatesRequest, to_provider_state
from bot.tenants.cards.view import SlotValueLookup, TenantView, build_tenant_view, build_tenant_view_context, get_no_slot_values
from graph.incident_view import IncidentView
from graph.state import IncidentState
from kb.customers.cause_words import CustomerWords
from tools.fact import Fact
from tools.inventory.inventory import Inventory

Row = TypeVar("Row", ProviderCause, ProviderMessage)
ApprovedActionsLookup = Callable[[str], Awaitable[frozenset[str]]]  # incident → approved actions
MAX_UPDATE_BYTES = 40 << 10  # messages and causes per answer; the reader accepts 64 KiB, the rest comes later


async def load_no_facts(incident: str) -> Sequence[Fact]:
    return ()


@dataclass(frozen=True, slots=True)
class TicketStates:
    """States of a tenant's own tickets."""

    inbox: Inbox
    inventory: Inventory
    words: CustomerWords
    state_of: Callable[[str], Awaitable[IncidentState]]
    begun_of: ApprovedActionsLookup
    told: ProviderMessageStore
    known: SlotValueLookup = get_no_slot_values
    facts_of: Callable[[str], Awaitable[Sequence[Fact]]] = load_no_facts

    async def get_states(self, tenant: str, tickets: Sequence[str]) -> dict[str, ProviderState]:
        return (await self.answer_states_request(tenant, StatesRequest(tickets=tuple(tickets)))).states

    async def answer_states_request(self, tenant: str, asked: StatesRequest) -> StatesAnswer:
        """Return all states, and messages and causes as far as they fit."""
        states: dict[str, ProviderState] = {}
        messages_by_ticket: dict[str, tuple[ProviderMessage, ...]] = {}
        causes_by_ticket: dict[str, tuple[ProviderCause, ...]] = {}
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
            causes_by_ticket |= {ticket: fitting} if fitting else {}
            messages_by_ticket |= {ticket: words} if words else {}
        return StatesAnswer(states=states, told=messages_by_ticket, found=causes_by_ticket)

    async def build_view(self, tenant: str, ticket: str) -> TenantView | None:
        """Return the tenant card's view, or None for another tenant's ticket."""
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
    """Return the first rows that fit into `room` bytes."""
    fitting: list[Row] = []
    for row in rows:
        room -= _measure_bytes(row)
        if room < 0:
            break
        fitting.append(row)
    return tuple(fitting)


def _measure_bytes(row: ProviderCause | ProviderMessage) -> int:
    return len(json.dumps(row.model_dump(mode="json")))
