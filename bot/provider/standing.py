"""How far a customer's ticket is, as their own RackMedic is told: the state of the customers' card, and nothing else of the incident."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import cast

from bot.cards.customers.view import CustomerReader, customer_view
from bot.desk.inbox import Inbox
from bot.provider.messages import FarState
from graph.incident.visible import visible_hosts
from graph.rows import IncidentRows
from graph.state import Incident
from kb.customers.words import CustomerWords
from tools.inventory.hosts import Inventory

BegunOf = Callable[[str], Awaitable[frozenset[str]]]
"""The actions of an incident that somebody has approved."""


@dataclass(frozen=True, slots=True)
class TicketStates:
    """Of tickets that arrived from a tenant; of anything else nothing is said."""

    inbox: Inbox
    inventory: Inventory
    words: CustomerWords
    state_of: Callable[[str], Awaitable[Incident]]
    begun_of: BegunOf

    async def of(self, tenant: str, tickets: Sequence[str]) -> dict[str, FarState]:
        """Those that are this tenant's."""
        found = {ticket: await self._one(tenant, ticket) for ticket in dict.fromkeys(tickets)}
        return {ticket: state for ticket, state in found.items() if state is not None}

    async def _one(self, tenant: str, ticket: str) -> FarState | None:
        origin = await self.inbox.origin(ticket)
        if origin is None or origin.tenant != tenant or not origin.ticket:
            return None
        state = await self.state_of(ticket)
        reader = CustomerReader(frozenset(visible_hosts(self.inventory, origin)), self.words)
        rows = IncidentRows(cast(Incident, {**state, "id": ticket}))
        lifecycle = await self.inbox.lifecycle(ticket)
        if lifecycle == "closed":
            return "closed"
        return customer_view(rows, reader, begun=await self.begun_of(ticket)).state or "received"
