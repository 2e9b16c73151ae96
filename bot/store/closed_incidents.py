"""Closed incidents in Redis. Each expires after its retention; above a size limit the longest closed are removed first."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from redis.asyncio import Redis

from bot.store.keys import THREAD_KEY_PREFIX, RedisKeys
from graph.checkpoints.checkpoint_reader import KEY_KINDS

# KEYS: hash, inbox, lease, threads, then all other keys of the incident. Keeps an incident that was reopened meanwhile,
# and one with drained nodes, which has no TTL yet.
FORGET_SCRIPT = """
local hash, inbox, lease, threads = unpack(KEYS, 1, 4)
if redis.call('HGET', hash, 'lifecycle') ~= 'closed' or redis.call('LLEN', inbox) > 0 or redis.call('EXISTS', lease) == 1 then return 0 end
if redis.call('PTTL', hash) < 0 then return 0 end
for _, thread in ipairs(redis.call('SMEMBERS', threads)) do redis.call('UNLINK', thread) end
redis.call('UNLINK', unpack(KEYS))
return 1
"""
INCIDENT_KEY_PARTS = (
    "inbox",
    "lease",
    "threads",
    "posted",
    "spent",
    "pulse",
    "provider",
    "cards",
    "tries",
    "timers",
    "concerns",
    "causes",
    "earlier",
)
READ_BATCH_SIZE = 100


@dataclass(frozen=True, slots=True)
class StoredClosedIncident:
    """A closed incident, what it takes, and how long it stays."""

    incident: str
    bytes: int
    goes_in_ms: int


class ClosedIncidentStore:
    """Lists closed incidents with size and TTL, and trims them."""

    def __init__(self, redis: Redis, keys: RedisKeys | None = None) -> None:
        self._redis = redis
        self._keys = keys or RedisKeys()
        self._forget = redis.register_script(FORGET_SCRIPT)

    async def trim_to_bytes(self, most_bytes: int) -> int:
        """Delete the longest closed incidents until the rest fits; return how many.

        Raises ResponseError where Redis lacks MEMORY USAGE.
        """
        rows = sorted(
            (incident for incident in await self.list_closed_incidents() if incident.goes_in_ms >= 0), key=lambda row: row.goes_in_ms
        )
        over, removed_count = sum(row.bytes for row in rows) - most_bytes, 0
        for row in rows:
            if over <= 0:
                break
            if await self._forget(keys=self._list_incident_keys(row.incident)):
                over, removed_count = over - row.bytes, removed_count + 1
        return removed_count

    async def list_closed_incidents(self) -> list[StoredClosedIncident]:
        ids = await self._scan_incident_ids()
        return [row for at in range(0, len(ids), READ_BATCH_SIZE) for row in await self._measure_incidents(ids[at : at + READ_BATCH_SIZE])]

    async def _scan_incident_ids(self) -> list[str]:
        head, tail = self._keys.incident_key("\0").split("\0")
        incident_ids = [key.decode() async for key in self._redis.scan_iter(match=self._keys.incident_key("*"), count=500)]
        return [key.removeprefix(head).removesuffix(tail) for key in incident_ids]

    async def _measure_incidents(self, incidents: Sequence[str]) -> list[StoredClosedIncident]:
        async with self._redis.pipeline(transaction=False) as pipe:
            for incident in incidents:
                pipe.hget(self._keys.incident_key(incident), "lifecycle")
                pipe.pttl(self._keys.incident_key(incident))
                for key in self._list_incident_keys(incident):
                    pipe.memory_usage(key)
            answers: list[Any] = await pipe.execute()
        width = len(answers) // len(incidents)
        rows = [(incident, answers[at * width : (at + 1) * width]) for at, incident in enumerate(incidents)]
        return [
            StoredClosedIncident(incident, sum(size or 0 for size in sizes), ttl)
            for incident, (lifecycle, ttl, *sizes) in rows
            if lifecycle == b"closed"
        ]

    def _list_incident_keys(self, incident: str) -> list[str]:
        own = [self._keys.incident_key(incident), *(self._keys.incident_key(incident, part) for part in INCIDENT_KEY_PARTS)]
        return own + [f"{THREAD_KEY_PREFIX}:{{{incident}}}:{kind}" for kind in KEY_KINDS]
