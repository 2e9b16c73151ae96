"""Open incidents, tenants over their quota, and pending actions."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from bot.cards.blocks import Block
from bot.incidents.cards.home import OpenIncident
from bot.incidents.context import translate_ledger_errors
from bot.incidents.handlers.services import OpenWorkServices
from bot.policy.approvals import can_still_approve
from bot.policy.quotas import WaitingTenant
from bot.remediation.cards.brakes import WaitingApproval
from bot.slack.payloads import parse_slack_timestamp
from bot.store.unreachable import guard_store
from bot.tenants.cards import quota_waiting
from bot.tenants.cards.quota_waiting import WaitingTenantView
from graph.incident.lifecycle import is_settled_for_tenant
from graph.incident_view import IncidentView
from graph.remediation.cause_ownership import is_owned_elsewhere
from graph.remediation.drained_nodes import list_drained_nodes
from graph.state import Origin
from tools.ledger.brakes import BrakeStatus
from tools.ledger.headroom import BrakeHeadroom
from tools.ledger.reader import LedgerReader
from tools.ledger.states import State

MAX_INCIDENTS = 100  # the oldest of a great many


async def list_open_incidents(services: OpenWorkServices) -> list[OpenIncident]:
    """Return the oldest open incidents."""
    now = services.context.clock.now()
    async with guard_store():
        ids = await _list_oldest_open(services)
        return list(await asyncio.gather(*(_build_open_incident(services, incident, now) for incident in ids)))


async def list_open_and_drained(services: OpenWorkServices) -> list[OpenIncident]:
    """Return open incidents, then closed ones with drained nodes."""
    now = services.context.clock.now()
    async with guard_store():
        ids = dict.fromkeys(
            [*(await _list_oldest_open(services)), *(await services.context.inbox.list_drained_incidents())[:MAX_INCIDENTS]]
        )
        return list(await asyncio.gather(*(_build_open_incident(services, incident, now) for incident in ids)))


async def load_open_incident(services: OpenWorkServices, incident: str) -> OpenIncident:
    async with guard_store():
        return await _build_open_incident(services, incident, services.context.clock.now())


async def render_quota_waits(services: OpenWorkServices, *, buttons: bool = True) -> list[Block]:
    """Render a line per waiting tenant, longest wait first."""
    async with guard_store():
        found = [await _build_wait_row(services, wait) for wait in await _list_quota_waits(services)]
    return quota_waiting.render_waiting_tenants(found, buttons=buttons)


async def _build_wait_row(services: OpenWorkServices, tenant: WaitingTenant) -> WaitingTenantView:
    oldest = tenant.incidents[0]
    first = await services.context.inbox.list_waiting(oldest, 1)
    words = first[0].text if first else ""
    return WaitingTenantView(tenant.tenant, len(tenant.incidents), oldest, tenant.since, tenant.limit.limit, tenant.limit.until, words)


async def _list_quota_waits(services: OpenWorkServices) -> list[WaitingTenant]:
    return await services.quota_waiting_list.prune_waiting_tenants()


async def _list_oldest_open(services: OpenWorkServices) -> list[str]:
    """Skip tenants' incidents that have not begun, so that a storm of them hides no other."""
    new = {incident for wait in await _list_quota_waits(services) for incident in wait.new}
    return [incident for incident in await services.context.inbox.list_open_incidents() if incident not in new][:MAX_INCIDENTS]


async def _build_open_incident(services: OpenWorkServices, incident: str, now: datetime) -> OpenIncident:
    rows = IncidentView(await services.context.load_state(incident))
    origin = await services.context.inbox.get_origin(incident) or Origin()
    return OpenIncident(
        id=incident,
        lifecycle=await services.context.inbox.get_lifecycle(incident) or "open",
        opened_at=rows.opened_at or _estimate_opened_at(origin, now),
        headline=(rows.report.headline if rows.report else "") or rows.brief.text[:150],
        hosts=rows.brief.hosts,
        team=origin.team,
        channel=origin.channel,
        thread_ts=origin.thread_ts if origin.kind == "slack" else "",
        opened_by=origin.user,
        owners=frozenset(filter(None, (rows.owner, rows.ticket.taken_by if rows.ticket else ""))),
        drained_nodes=tuple(list_drained_nodes(rows.remediations)),
        stopped=rows.is_stopped,
        answered=bool(origin.customer) and is_settled_for_tenant(rows, services.tenant_labels.__contains__),
        elsewhere=rows.report is not None and is_owned_elsewhere(rows.report),
    )


def _estimate_opened_at(origin: Origin, now: datetime) -> datetime:
    """Before its first turn an incident has no opening time."""
    return parse_slack_timestamp(origin.thread_ts) if origin.kind == "slack" and origin.thread_ts else now


async def list_pending_actions(services: OpenWorkServices, voter: str = "") -> list[WaitingApproval]:
    """Return pending actions, the first to expire first; with `voter` (`TEAM:USER`) those that this user may approve."""
    if services.context.approvals is None:
        return []
    async with guard_store(), translate_ledger_errors():
        ids = dict.fromkeys(
            [*(await _list_oldest_open(services)), *(await services.context.inbox.list_drained_incidents())[:MAX_INCIDENTS]]
        )
        rows = [
            row
            for found in await asyncio.gather(*(_list_incident_pending(services, services.context.approvals.brakes, i) for i in ids))
            for row in found
        ]
    mine = [row for row in rows if not voter or can_still_approve(row.record, voter)]
    return sorted(mine, key=lambda row: row.record.decide_by)


async def get_brake_status(services: OpenWorkServices) -> BrakeStatus | None:
    """Return the brakes' status, or None where nothing can be run."""
    if services.context.approvals is None:
        return None
    async with guard_store(), translate_ledger_errors():
        status = await services.context.approvals.brakes.get_brake_status()
    _, _, user = status.stopped_by.partition(":")
    return replace(status, stopped_by=await services.context.people.get_name(user)) if user else status


async def get_remaining_room(services: OpenWorkServices, incidents: Sequence[OpenIncident]) -> BrakeHeadroom | None:
    """Return how much may be changed now; None where nothing can be run."""
    if services.context.approvals is None:
        return None
    async with guard_store(), translate_ledger_errors():
        return await services.context.approvals.decisions.get_change_allowance(
            [incident.id for incident in incidents if incident.lifecycle != "closed"]
        )


async def _list_incident_pending(services: OpenWorkServices, ledger: LedgerReader, incident: str) -> list[WaitingApproval]:
    records = [record for record in await ledger.list_incident_records(incident) if record.state is State.PENDING]
    origin = (await services.context.inbox.get_origin(incident) if records else None) or Origin()
    return [WaitingApproval(record, origin.team, origin.channel, origin.thread_ts) for record in records]
