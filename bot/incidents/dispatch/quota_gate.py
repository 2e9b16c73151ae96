"""Whether a customer's item may begin: their share is asked once an item, before its turn; whoever must wait is told, once an item."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from bot.incidents.dispatch.inbox import Inbox
from bot.policy.quotas import ExceededLimit, Quota, Quotas, QuotaUsage, find_exceeded_limit
from bot.store.quota_store import QuotaStore
from bot.store.quota_waiting_list import QuotaWaitingList
from graph.incident.lifecycle import is_settled_for_tenant
from graph.incident_view import IncidentView
from graph.state import SIDE_KEY, TENANT_SIDE, InboxItem, IncidentState, Origin
from tools.clock import Clock

QuotaNotifier = Callable[[Origin, InboxItem, ExceededLimit, Quota], Awaitable[None]]
"""Say it in the customer's thread, once an item. Never raises for Slack's sake."""
HAND_OFF_KIND: Final = "hand_off"
"""The kind of item that asks for a person: nobody waits for that."""


def never_tenant_cause(label: str) -> bool:
    """No cause is the customer's to mend."""
    return False


@dataclass(frozen=True, slots=True)
class QuotaGate:
    """The gate before turns, where customers are served or their tickets taken in."""

    table: Quotas
    used: QuotaStore
    waits: QuotaWaitingList
    inbox: Inbox
    clock: Clock
    tell: QuotaNotifier
    theirs: Callable[[str], bool] = never_tenant_cause
    """Whether a cause, by its label, is the customer's to mend."""

    async def get_retry_time(self, item: InboxItem) -> datetime | None:
        """None: its turn may begin, which is noted. Else when to ask again."""
        origin = await self._get_tenant_origin(item)
        if origin is None or item.data.get(SIDE_KEY) != TENANT_SIDE:
            return None
        waiting = await self.inbox.list_waiting(item.incident)
        ours = any(one.kind == HAND_OFF_KIND or one.data.get(SIDE_KEY) != TENANT_SIDE for one in waiting) or await self.waits.is_let_in(
            item.incident
        )
        share, now = self.table.get_quota(origin.tenant), self.clock.now()

        def decide(used: QuotaUsage) -> ExceededLimit | None:
            return None if ours else find_exceeded_limit(share, used, now, opens=item.kind == "mention")

        no = await self.used.begin_item(origin.tenant, item.incident, item.id, decide)
        if no is None:
            await self.waits.remove_incident(origin.tenant, item.incident)
            return None
        await self.waits.add_incident(origin.tenant, item.incident, no)
        await self.tell(origin, item, no, share)
        return no.get_retry_time(now)

    async def record_reported(self, item: InboxItem, state: IncidentState) -> None:
        """What is answered takes no place of their incidents until something of theirs begins in it."""
        if (origin := await self._get_tenant_origin(item)) is not None and is_settled_for_tenant(IncidentView(state), self.theirs):
            await self.used.release_incident(origin.tenant, item.incident)

    async def _get_tenant_origin(self, item: InboxItem) -> Origin | None:
        """Of an incident that a customer reported, in their channel or as a ticket of their own RackMedic; None for our own."""
        origin = await self.inbox.get_origin(item.incident)
        return origin if origin and origin.tenant and (origin.customer or origin.ticket) else None
