"""What a customer's site sends to its provider, kept until it has arrived: what is to be sent is stored in the step that counts the click.

Rules it keeps: only what was shown is sent (the draft that the button names); a click twice sends once; whatever was clicked survives every
crash; and one sender at a time has an incident.
"""

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from typing import Literal

from redis.asyncio import Redis

from bot.store.keys import Names
from bot.tasks import awaited
from graph.exchange.document import TicketDocument
from tools.clock import Clock

Stage = Literal["offered", "shown", "waiting", "sent", "refused"]

PUT = """
if redis.call('HGET', KEYS[1], 'draft_digest') ~= ARGV[1] then return -1 end
if redis.call('HGET', KEYS[1], 'digest') == ARGV[1] and redis.call('HEXISTS', KEYS[1], 'refused') == 0 then return 0 end
redis.call('HSET', KEYS[1], 'digest', ARGV[1], 'document', redis.call('HGET', KEYS[1], 'draft'), 'by', ARGV[2], 'at', ARGV[3],
  'tries', 0, 'pending', 1)
redis.call('HDEL', KEYS[1], 'refused', 'trouble', 'draft', 'draft_digest')
redis.call('ZADD', KEYS[2], ARGV[3], ARGV[4])
return 1
"""
"""KEYS the incident's row, due. ARGV digest of what was shown, who clicked, now, incident."""
TAKE = """
local rows = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', 0, ARGV[3])
for _, row in ipairs(rows) do redis.call('ZADD', KEYS[1], 'XX', ARGV[2], row) end
return rows
"""
"""KEYS due. ARGV now, when whoever takes them has died over it, how many."""
SETTLED = """
if redis.call('HGET', KEYS[1], 'digest') ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], unpack(ARGV, 4))
redis.call('HDEL', KEYS[1], 'trouble')
if ARGV[2] == '' then redis.call('ZREM', KEYS[2], ARGV[3]) else redis.call('ZADD', KEYS[2], ARGV[2], ARGV[3]) end
return 1
"""
"""KEYS the row, due. ARGV the digest that this is about, when to look again ('' = never), incident, then field and value. What was clicked
meanwhile stays to be sent."""
PATIENCE = timedelta(seconds=90)


class Clicked(IntEnum):
    """What a click to send came to."""

    OLD = -1
    """What was shown is not what would be sent now."""
    BEFORE = 0
    SENT = 1


@dataclass(frozen=True, slots=True)
class Sending:
    """How it stands with an incident and the provider."""

    incident: str
    digest: str = ""
    document: bytes = b""
    draft: str = ""
    """Digest of what was shown last and waits for a click."""
    by: str = ""
    at: datetime | None = None
    tries: int = 0
    pending: bool = False
    ticket: str = ""
    """Theirs."""
    state: str = ""
    trouble: str = ""
    """Why it is not sent yet."""
    refused: str = ""
    """Why it never will be."""

    @property
    def id(self) -> str:
        """What makes it one message however often it is sent."""
        return f"msg_{self.digest[:40]}"

    @property
    def stage(self) -> Stage:
        if self.draft:
            return "shown"
        if self.refused:
            return "refused"
        if self.pending:
            return "waiting"
        return "sent" if self.ticket else "offered"


class Outbox:
    """One row an incident, and when somebody must look at it."""

    def __init__(self, redis: Redis, clock: Clock, names: Names | None = None) -> None:
        self._redis, self._clock, self._names = redis, clock, names or Names()
        self._put, self._take, self._settled = (redis.register_script(script) for script in (PUT, TAKE, SETTLED))

    async def draft(self, incident: str, document: TicketDocument) -> str:
        """What is about to be shown; its digest."""
        raw = document.canonical()
        digest = hashlib.sha256(raw).hexdigest()
        await awaited(self._redis.hset(self._row(incident), mapping={"draft": raw, "draft_digest": digest}))
        return digest

    async def drop_draft(self, incident: str) -> None:
        """Nobody wants to send it."""
        await awaited(self._redis.hdel(self._row(incident), "draft", "draft_digest"))

    async def put(self, incident: str, digest: str, by: str) -> Clicked:
        """Somebody clicked: from here on it is sent."""
        args = [digest, by, self._score(self._clock.now()), incident]
        return Clicked(int(await self._put(keys=[self._row(incident), self._names.provider_due], args=args)))

    async def row(self, incident: str) -> Sending:
        found = {key.decode(): value for key, value in (await awaited(self._redis.hgetall(self._row(incident)))).items()}
        text = {key: value.decode() for key, value in found.items() if key not in ("document", "draft")}
        return Sending(
            incident,
            text.get("digest", ""),
            found.get("document", b""),
            text.get("draft_digest", ""),
            text.get("by", ""),
            datetime.fromtimestamp(float(text["at"]), UTC) if "at" in text else None,
            int(text.get("tries", 0)),
            text.get("pending") == "1",
            *(text.get(name, "") for name in ("ticket", "state", "trouble", "refused")),
        )

    async def take(self, most: int = 50) -> list[str]:
        """Incidents that are due; another sender gets them when this one has died over them."""
        now = self._clock.now()
        args: list[str | int] = [self._score(now), self._score(now + PATIENCE), most]
        return [row.decode() for row in await self._take(keys=[self._names.provider_due], args=args)]

    async def arrived(self, row: Sending, ticket: str, state: str, again: timedelta) -> None:
        """The provider has it; when to ask how far it is."""
        await self._settle(row, again, "ticket", ticket, "state", state, "pending", "0")

    async def moved(self, row: Sending, state: str, again: timedelta | None) -> None:
        """How far it is; None where it goes no further."""
        await self._settle(row, again, "state", state)

    async def refuse(self, row: Sending, why: str) -> None:
        """It will never be sent."""
        await self._settle(row, None, "refused", why, "pending", "0")

    async def put_off(self, row: Sending, why: str, again: timedelta) -> None:
        """The provider does not answer."""
        await awaited(self._redis.hset(self._row(row.incident), mapping={"tries": row.tries + 1, "trouble": why}))
        await self._redis.zadd(self._names.provider_due, {row.incident: float(self._score(self._clock.now() + again))}, xx=True)

    async def forget(self, incident: str) -> None:
        """Nothing is kept of it any more."""
        await self._redis.zrem(self._names.provider_due, incident)

    async def _settle(self, row: Sending, again: timedelta | None, *fields: str) -> None:
        due = "" if again is None else self._score(self._clock.now() + again)
        args = [row.digest, due, row.incident, "tries", "0", *fields]
        await self._settled(keys=[self._row(row.incident), self._names.provider_due], args=args)

    def _row(self, incident: str) -> str:
        return self._names.of(incident, "provider")

    @staticmethod
    def _score(at: datetime) -> str:
        return f"{at.timestamp():.3f}"
