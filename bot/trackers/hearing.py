"""`POST /trackers/NAME`: a tracker says that something moved. A signed message makes the rows of that ticket due, and that is all it does: how far it
is, is asked of the tracker itself, so that a message that was forged or sent again can cause one early question at worst."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Final

import structlog
from redis.asyncio import Redis

from bot.inbound.routes import InboundAnswer, InboundRequest, InboundRoute
from bot.store.keys import Names
from bot.store.outbox import Outbox
from bot.tasks import awaited
from bot.trackers.hooks import HOOKS, UnreadableHook, tickets_of
from bot.trackers.tracker import Tracker
from tools.clock import Clock

log = structlog.get_logger()
MOST_BODY: Final = 2 << 20
NOBODY = InboundAnswer(401, {"error": "not from somebody who is known here"})
HEARD = InboundAnswer(202, {})
"""Whether the ticket is one of ours is told to nobody."""
KEPT, MOST_ROWS = timedelta(days=100), 20
"""For how long a ticket's incident is found by it, which is longer than it is asked for; rows that one message may hurry."""


class HookedTickets:
    """Whose ticket it is, by the tracker's own id, and when a tracker was heard last."""

    def __init__(self, redis: Redis, clock: Clock, *, names: Names | None = None) -> None:
        self._redis, self._clock, self._names = redis, clock, names or Names()

    async def keep(self, tracker: str, ids: Sequence[str], incident: str) -> None:
        """From here on its messages are about this incident."""
        for id_ in filter(None, ids):
            key = self._key(tracker, id_)
            await awaited(self._redis.sadd(key, incident))
            await awaited(self._redis.expire(key, KEPT))

    async def incidents(self, tracker: str, ids: Sequence[str]) -> list[str]:
        """Those of these tickets."""
        keys = [self._key(tracker, id_) for id_ in ids]
        found = sorted(row.decode() for row in await awaited(self._redis.sunion(keys))) if keys else []
        return found[:MOST_ROWS]

    async def note(self, tracker: str) -> None:
        """It was heard just now."""
        await awaited(self._redis.hset(self._names.trackers_heard, tracker, self._clock.now().isoformat()))

    async def last(self, tracker: str) -> datetime | None:
        """When it was heard last."""
        raw = await awaited(self._redis.hget(self._names.trackers_heard, tracker))
        return datetime.fromisoformat(raw.decode()).astimezone(UTC) if raw else None

    def _key(self, tracker: str, id_: str) -> str:
        return self._names.tracker_ticket(tracker, sha256(id_.encode("utf-8", "replace")).hexdigest()[:32])


@dataclass(frozen=True, slots=True)
class TrackerHooks:
    """Hears the trackers whose row has a `hook`."""

    trackers: Mapping[str, Tracker]
    tickets: HookedTickets
    outbox: Outbox
    clock: Clock

    @property
    def routes(self) -> Sequence[InboundRoute]:
        """Nothing where none has one."""
        return [InboundRoute("/trackers/{tracker}", self.hear, MOST_BODY)] if any(row.hook for row in self.trackers.values()) else []

    async def hear(self, request: InboundRequest) -> InboundAnswer:
        """See the module's promise."""
        tracker = self.trackers.get(request.parts["tracker"])
        if tracker is None or not tracker.hook:
            return NOBODY
        rule = HOOKS[tracker.kind]
        if not rule.signed(tracker.hook, request.headers, request.body, self.clock.now()):
            log.warning("trackers.hook_unsigned", tracker=tracker.name)
            return NOBODY
        try:
            about = await asyncio.to_thread(tickets_of, rule, request.body)
        except UnreadableHook as why:
            return InboundAnswer(400, {"error": str(why)})
        await self.tickets.note(tracker.name)
        for incident in await self.tickets.incidents(tracker.name, about):
            heeded = await self.outbox.hurry(f"{incident} {tracker.name}")
            log.info("trackers.heard", tracker=tracker.name, incident=incident, heeded=heeded)
        return HEARD
