"""The open incidents as rows, gathered from the inbox's index and the stored incidents."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime

from bot.cards.incidents.home import OpenIncident
from bot.slack.context import Intake
from bot.slack.incoming.payloads import moment
from graph.state import Incident, Origin

MOST = 100

StateOf = Callable[[str], Awaitable[Incident]]


async def open_incidents(intake: Intake, state_of: StateOf, now: datetime) -> list[OpenIncident]:
    """Oldest first; of a great many, the oldest hundred."""
    ids = (await intake.open_incidents())[:MOST]
    return list(await asyncio.gather(*(_row(intake, state_of, incident, now) for incident in ids)))


async def _row(intake: Intake, state_of: StateOf, incident: str, now: datetime) -> OpenIncident:
    state = await state_of(incident)
    origin = await intake.origin(incident) or Origin()
    return OpenIncident(
        id=incident,
        lifecycle=await intake.lifecycle(incident) or "open",
        opened_at=_since(state, origin, now),
        headline=(state.get("report") or {}).get("headline") or (state.get("brief") or {}).get("text", "")[:150],
        hosts=tuple((state.get("brief") or {}).get("hosts", ())),
        team=origin.team,
        channel=origin.channel,
        thread_ts=origin.thread_ts if origin.kind == "slack" else "",
    )


def _since(state: Incident, origin: Origin, now: datetime) -> datetime:
    """When it was opened; before its first turn the thread's beginning tells."""
    if state.get("opened_at"):
        return datetime.fromisoformat(state["opened_at"])
    return moment(origin.thread_ts) if origin.kind == "slack" and origin.thread_ts else now
