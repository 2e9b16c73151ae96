"""What is open: incidents as rows, from the inbox's index and the stored incidents; what of customers waits for their share; and the actions that wait for
a decision, from the ledger."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from bot.cards.approvals.brakes import Waiting
from bot.cards.blocks import Block
from bot.cards.customers import waits
from bot.cards.customers.waits import WaitsShown
from bot.cards.incidents.home import OpenIncident
from bot.policy.approvals import may_still_approve
from bot.policy.shares import TenantWaits
from bot.slack.context import Surface, ledger, storing
from bot.slack.incoming.payloads import moment
from graph.incident.lifecycle import answered
from graph.ladders.held import held
from graph.ladders.shared import left_to_another
from graph.rows import IncidentRows
from graph.state import Origin
from tools.ledger.book import Book
from tools.ledger.brakes import BrakeStatus
from tools.ledger.room import Room
from tools.ledger.states import State

MOST = 100
"""Of a great many incidents, the oldest."""


async def open_incidents(surface: Surface) -> list[OpenIncident]:
    """Oldest first; of a great many, the oldest hundred."""
    now = surface.clock.now()
    async with storing():
        ids = await _oldest(surface)
        return list(await asyncio.gather(*(_row(surface, incident, now) for incident in ids)))


async def all_work(surface: Surface) -> list[OpenIncident]:
    """The same, and below it the closed ones whose nodes we hold."""
    now = surface.clock.now()
    async with storing():
        ids = dict.fromkeys([*(await _oldest(surface)), *(await surface.inbox.held_incidents())[:MOST]])
        return list(await asyncio.gather(*(_row(surface, incident, now) for incident in ids)))


async def open_work(surface: Surface, incident: str) -> OpenIncident:
    """One incident, and what it holds."""
    async with storing():
        return await _row(surface, incident, surface.clock.now())


async def waits_shown(surface: Surface, *, buttons: bool = True) -> list[Block]:
    """What of customers waits for their share, one line a customer, whoever waits longest first."""
    async with storing():
        found = [await _waits_row(surface, row) for row in await _waiting(surface)]
    return waits.rows(found, buttons=buttons)


async def _waits_row(surface: Surface, row: TenantWaits) -> WaitsShown:
    oldest = row.incidents[0]
    first = await surface.inbox.peek(oldest, 1)
    words = first[0].text if first else ""
    return WaitsShown(row.tenant, len(row.incidents), oldest, row.since, row.why.limit, row.why.until, words)


async def _waiting(surface: Surface) -> list[TenantWaits]:
    return await surface.waits.now() if surface.waits else []


async def _oldest(surface: Surface) -> list[str]:
    """Open incidents, the oldest hundred. In those of customers that wait to be begun there is nothing to see yet, and a storm of them hides no other."""
    new = {incident for row in await _waiting(surface) for incident in row.new}
    return [incident for incident in await surface.inbox.open_incidents() if incident not in new][:MOST]


async def _row(surface: Surface, incident: str, now: datetime) -> OpenIncident:
    rows = IncidentRows(await surface.state_of(incident))
    origin = await surface.inbox.origin(incident) or Origin()
    return OpenIncident(
        id=incident,
        lifecycle=await surface.inbox.lifecycle(incident) or "open",
        opened_at=rows.opened_at or _began(origin, now),
        headline=(rows.report.headline if rows.report else "") or rows.brief.text[:150],
        hosts=rows.brief.hosts,
        team=origin.team,
        channel=origin.channel,
        thread_ts=origin.thread_ts if origin.kind == "slack" else "",
        opened_by=origin.user,
        owners=frozenset(filter(None, (rows.owner, rows.ticket.taken_by if rows.ticket else ""))),
        held=tuple(held(rows.ladders)),
        stopped=rows.stopped,
        answered=bool(origin.customer) and answered(rows, surface.theirs.__contains__),
        elsewhere=rows.report is not None and left_to_another(rows.report),
    )


def _began(origin: Origin, now: datetime) -> datetime:
    """Before an incident's first turn the thread's beginning tells when it was opened."""
    return moment(origin.thread_ts) if origin.kind == "slack" and origin.thread_ts else now


async def waiting(surface: Surface, voter: str = "") -> list[Waiting]:
    """Pending actions, the first to expire first; with `voter` (`TEAM:USER`) those that this person may still approve."""
    if surface.approvals is None:
        return []
    async with storing(), ledger():
        ids = dict.fromkeys([*(await _oldest(surface)), *(await surface.inbox.held_incidents())[:MOST]])
        rows = [row for found in await asyncio.gather(*(_pending(surface, surface.approvals.book, i) for i in ids)) for row in found]
    mine = [row for row in rows if not voter or may_still_approve(row.record, voter)]
    return sorted(mine, key=lambda row: row.record.decide_by)


async def brakes_now(surface: Surface) -> BrakeStatus | None:
    """How the brakes stand; None where nothing can be run anyway."""
    if surface.approvals is None:
        return None
    async with storing(), ledger():
        status = await surface.approvals.book.status()
    _, _, user = status.stopped_by.partition(":")
    return replace(status, stopped_by=await surface.people.name(user)) if user else status


async def room_now(surface: Surface, incidents: Sequence[OpenIncident]) -> Room | None:
    """How much may be changed now; None where nothing can be run anyway."""
    if surface.approvals is None:
        return None
    async with storing(), ledger():
        return await surface.approvals.decisions.room([row.id for row in incidents if row.lifecycle != "closed"])


async def _pending(surface: Surface, book: Book, incident: str) -> list[Waiting]:
    records = [record for record in await book.of_incident(incident) if record.state is State.PENDING]
    origin = (await surface.inbox.origin(incident) if records else None) or Origin()
    return [Waiting(record, origin.team, origin.channel, origin.thread_ts) for record in records]
