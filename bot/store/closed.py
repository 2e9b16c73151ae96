"""Closed incidents in Redis: each goes by itself after its days (`bot.desk.lua`), and sooner where all of them are too much."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from redis.asyncio import Redis

from bot.store.keys import THREADS, Names
from graph.memory.stored import KINDS

FORGET = """
local hash, inbox, lease, threads = unpack(KEYS, 1, 4)
if redis.call('HGET', hash, 'lifecycle') ~= 'closed' or redis.call('LLEN', inbox) > 0 or redis.call('EXISTS', lease) == 1 then return 0 end
if redis.call('PTTL', hash) < 0 then return 0 end
for _, thread in ipairs(redis.call('SMEMBERS', threads)) do redis.call('UNLINK', thread) end
redis.call('UNLINK', unpack(KEYS))
return 1
"""
"""KEYS hash, inbox, lease, threads, and whatever else is kept of the incident. One that lives again meanwhile stays, and one whose nodes
we hold, which has no lifetime yet."""
PARTS = ("inbox", "lease", "threads", "posted", "spent", "pulse", "provider", "cards", "tries", "timers", "concerns", "causes", "earlier")
BATCH = 100


@dataclass(frozen=True, slots=True)
class Closed:
    """A closed incident, what it takes, and how long it stays."""

    incident: str
    bytes: int
    goes_in_ms: int


class ClosedIncidents:
    """All of them on one Redis."""

    def __init__(self, redis: Redis, names: Names | None = None) -> None:
        self._redis, self._names = redis, names or Names()
        self._forget = redis.register_script(FORGET)

    async def trim(self, most_bytes: int) -> int:
        """Forget the longest closed until the rest takes no more than this; how many went. ResponseError where Redis tells no sizes."""
        rows = sorted((row for row in await self.all() if row.goes_in_ms >= 0), key=lambda row: row.goes_in_ms)
        over, gone = sum(row.bytes for row in rows) - most_bytes, 0
        for row in rows:
            if over <= 0:
                break
            if await self._forget(keys=self._keys(row.incident)):
                over, gone = over - row.bytes, gone + 1
        return gone

    async def all(self) -> list[Closed]:
        """Every closed incident, in no order."""
        ids = await self._ids()
        return [row for at in range(0, len(ids), BATCH) for row in await self._seen(ids[at : at + BATCH])]

    async def _ids(self) -> list[str]:
        head, tail = self._names.of("\0").split("\0")
        found = [key.decode() async for key in self._redis.scan_iter(match=self._names.of("*"), count=500)]
        return [key.removeprefix(head).removesuffix(tail) for key in found]

    async def _seen(self, incidents: Sequence[str]) -> list[Closed]:
        async with self._redis.pipeline(transaction=False) as pipe:
            for incident in incidents:
                pipe.hget(self._names.of(incident), "lifecycle")
                pipe.pttl(self._names.of(incident))
                for key in self._keys(incident):
                    pipe.memory_usage(key)
            answers: list[Any] = await pipe.execute()
        width = len(answers) // len(incidents)
        rows = [(incident, answers[at * width : (at + 1) * width]) for at, incident in enumerate(incidents)]
        return [
            Closed(incident, sum(size or 0 for size in sizes), ttl) for incident, (lifecycle, ttl, *sizes) in rows if lifecycle == b"closed"
        ]

    def _keys(self, incident: str) -> list[str]:
        own = [self._names.of(incident), *(self._names.of(incident, part) for part in PARTS)]
        return own + [f"{THREADS}:{{{incident}}}:{kind}" for kind in KINDS]
