"""Closed incidents in Redis, with their retention, and their index by host, device and cause."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, cast

from pydantic import ValidationError
from redis.asyncio import Redis
from redis.exceptions import RedisError

from bot.store.keys import THREAD_KEY_PREFIX, RedisKeys
from graph.checkpoints.checkpoint_reader import KEY_KINDS
from graph.closed_incidents import ClosedIncident, ClosedIncidentMatches, ClosedIncidentQuery, DisclosureLevel, limit_closed_incident
from graph.state import Origin
from kb.redact import redact_stored_data

# Closed incidents indexed by host, device and cause. A row expires with its incident; its index entries go at the next
# read.

# Newest incidents read per host, device or cause; of all of these together; and how many of the oldest are read to
# learn how far back the index reaches.
MAX_IDS_PER_INDEX = 200
MAX_ROWS_READ = 600
MAX_OLDEST_READ = 100


class ClosedIncidentIndex:
    """`heard(reader, origin)`: what a reader may see of an incident from another place. `keep`: a row's TTL. `most`:
    ids per index.
    """

    def __init__(
        self,
        redis: Redis,
        heard: Callable[[Origin, Origin], DisclosureLevel],
        keep: timedelta,
        names: RedisKeys | None = None,
        *,
        most: int = 10_000,
    ) -> None:
        self._redis, self._heard, self._keep, self._names, self._most = redis, heard, keep, names or RedisKeys(), most

    async def save_incident(self, row: ClosedIncident) -> None:
        score, kinds = row.closed.timestamp(), _list_index_names(row.all_hosts, row.devices, row.labels)
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.set(
                self._get_row_key(row.incident),
                json.dumps(redact_stored_data(row.model_dump(mode="json", exclude_defaults=True))),
                px=self._keep,
            )
            for key in (self._names.closed_index_key("all"), *(self._names.closed_index_key(*kind) for kind in kinds)):
                pipe.zadd(key, {row.incident: score})
                pipe.zremrangebyrank(key, 0, -1 - self._most)
                pipe.expire(key, self._keep)
            await pipe.execute()

    def _get_row_key(self, incident: str) -> str:
        return self._names.incident_key(incident, "earlier")

    async def remove_incident(self, incident: str) -> None:
        await self._redis.delete(self._get_row_key(incident))

    async def find_incidents(self, query: ClosedIncidentQuery) -> ClosedIncidentMatches:
        """Return the matches that the reader may see. A Redis error is returned in `could_not`, not raised."""
        try:
            return await self._find_readable_incidents(query)
        except RedisError as error:
            return ClosedIncidentMatches(could_not=f"my store did not answer ({type(error).__name__})")

    async def _find_readable_incidents(self, query: ClosedIncidentQuery) -> ClosedIncidentMatches:
        keys = [self._names.closed_index_key(*kind) for kind in _list_index_names(query.hosts, query.devices, query.labels)]
        ids_by_key = [cast(list[bytes], await self._redis.zrevrange(key, 0, MAX_IDS_PER_INDEX)) for key in keys]
        cut = any(len(ids) > MAX_IDS_PER_INDEX for ids in ids_by_key)
        ids = dict.fromkeys(one.decode() for row in ids_by_key for one in row[:MAX_IDS_PER_INDEX])
        rows = await self._load_rows(list(ids)[:MAX_ROWS_READ], keys)
        readable_rows = [
            visible_row for row in rows if row.incident != query.incident and (visible_row := self._apply_visibility(row, query))
        ]
        readable_rows.sort(key=lambda row: row.closed, reverse=True)
        return ClosedIncidentMatches(tuple(readable_rows), await self._find_oldest_opened(query), cut=cut or len(ids) > MAX_ROWS_READ)

    async def _find_oldest_opened(self, query: ClosedIncidentQuery) -> datetime | None:
        key = self._names.closed_index_key("all")
        ids = [one.decode() for one in cast(list[bytes], await self._redis.zrange(key, 0, MAX_OLDEST_READ - 1))]
        visible_rows = [row for row in await self._load_rows(ids, [key]) if self._apply_visibility(row, query)]
        return min((row.opened for row in visible_rows), default=None)

    def _apply_visibility(self, row: ClosedIncident, query: ClosedIncidentQuery) -> ClosedIncident | None:
        return limit_closed_incident(row, self._heard(query.reader, row.origin), query.visible)

    async def _load_rows(self, incidents: Sequence[str], keys: Sequence[str]) -> list[ClosedIncident]:
        """Return the rows that exist and parse; remove expired ids from the indices `keys`."""
        raw = cast(list[bytes | None], await self._redis.mget([self._get_row_key(one) for one in incidents])) if incidents else []
        missing_ids = [one for one, text in zip(incidents, raw, strict=True) if text is None]
        if missing_ids:
            async with self._redis.pipeline(transaction=False) as pipe:
                for key in keys:
                    pipe.zrem(key, *missing_ids)
                await pipe.execute()
        return [row for text in raw if text is not None and (row := _parse_row(text)) is not None]


def _parse_row(text: bytes) -> ClosedIncident | None:
    """Return None for a damaged row, so that it does not hide the others."""
    try:
        return ClosedIncident.model_validate_json(text)
    except ValidationError:
        return None


def _list_index_names(hosts: Iterable[str], devices: Iterable[str], labels: Iterable[str]) -> list[tuple[str, str]]:
    return [(kind, name) for kind, names in (("host", hosts), ("device", devices), ("label", labels)) for name in names]


# Closed incidents in Redis: each expires after its retention, the longest closed earlier above a size limit.

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

    def __init__(self, redis: Redis, names: RedisKeys | None = None) -> None:
        self._redis, self._names = redis, names or RedisKeys()
        self._forget = redis.register_script(FORGET_SCRIPT)

    async def trim_to_bytes(self, most_bytes: int) -> int:
        """Delete the longest closed incidents until the rest fits; return how many.

        Raises ResponseError where Redis lacks MEMORY USAGE.
        """
        rows = sorted((row for row in await self.list_closed_incidents() if row.goes_in_ms >= 0), key=lambda row: row.goes_in_ms)
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
        head, tail = self._names.incident_key("\0").split("\0")
        incident_ids = [key.decode() async for key in self._redis.scan_iter(match=self._names.incident_key("*"), count=500)]
        return [key.removeprefix(head).removesuffix(tail) for key in incident_ids]

    async def _measure_incidents(self, incidents: Sequence[str]) -> list[StoredClosedIncident]:
        async with self._redis.pipeline(transaction=False) as pipe:
            for incident in incidents:
                pipe.hget(self._names.incident_key(incident), "lifecycle")
                pipe.pttl(self._names.incident_key(incident))
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
        own = [self._names.incident_key(incident), *(self._names.incident_key(incident, part) for part in INCIDENT_KEY_PARTS)]
        return own + [f"{THREAD_KEY_PREFIX}:{{{incident}}}:{kind}" for kind in KEY_KINDS]
