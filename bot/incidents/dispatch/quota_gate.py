"""Decides before a tenant's turn whether it may begin under the quota; a waiting tenant is notified once per item."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from bot.incidents.dispatch.inbox import Inbox
from bot.policy.quotas import ExceededLimit, Quota, Quotas, QuotaUsage, find_exceeded_limit
from bot.store.quotas import QuotaStore, QuotaWaitingList
from graph.incident.lifecycle import is_settled_for_tenant
from graph.incident_view import IncidentView
from graph.state import SIDE_KEY, TENANT_SIDE, InboxItem, IncidentState, Origin
from tools.clock import Clock

# Notify the tenant's thread, once per item. Never raises for Slack errors.
QuotaNotifier = Callable[[Origin, InboxItem, ExceededLimit, Quota], Awaitable[None]]
HAND_OFF_KIND: Final = "hand_off"  # the item kind that asks for a person, which never waits


def never_tenant_cause(label: str) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class QuotaGate:
    """The TurnGate of tenants."""

    quotas: Quotas
    usage: QuotaStore
    waiting_list: QuotaWaitingList
    inbox: Inbox
    clock: Clock
    notify_tenant: QuotaNotifier
    is_tenant_cause: Callable[[str], bool] = never_tenant_cause  # whether the tenant mends a cause, by label

    async def admit_item(self, item: InboxItem) -> datetime | None:
        """Return None where the turn may begin, and record it; else when to ask again."""
        origin = await self._get_tenant_origin(item)
        if origin is None or item.data.get(SIDE_KEY) != TENANT_SIDE:
            return None
        waiting = await self.inbox.list_waiting(item.incident)
        is_exempt = any(
            one.kind == HAND_OFF_KIND or one.data.get(SIDE_KEY) != TENANT_SIDE for one in waiting
        ) or await self.waiting_list.is_let_in(item.incident)
        quota, now = self.quotas.get_quota(origin.tenant), self.clock.now()

        def decide(used: QuotaUsage) -> ExceededLimit | None:
            return None if is_exempt else find_exceeded_limit(quota, used, now, opens=item.kind == "mention")

        exceeded = await self.usage.begin_item(origin.tenant, item.incident, item.id, decide)
        if exceeded is None:
            await self.waiting_list.remove_incident(origin.tenant, item.incident)
            return None
        await self.waiting_list.add_incident(origin.tenant, item.incident, exceeded)
        await self.notify_tenant(origin, item, exceeded, quota)
        return exceeded.get_retry_time(now)

    async def record_reported(self, item: InboxItem, state: IncidentState) -> None:
        """Stop counting an answered incident until its next tenant item begins."""
        if (origin := await self._get_tenant_origin(item)) is not None and is_settled_for_tenant(IncidentView(state), self.is_tenant_cause):
            await self.usage.release_incident(origin.tenant, item.incident)

    async def _get_tenant_origin(self, item: InboxItem) -> Origin | None:
        """Return the origin of a tenant's incident (channel or ticket), else None."""
        origin = await self.inbox.get_origin(item.incident)
        return origin if origin and origin.tenant and (origin.customer or origin.ticket) else None
