"""Closed incidents indexed by host, device and cause.

A row expires with its incident; its index entries are removed at the next read.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import cast

from pydantic import ValidationError
from redis.asyncio import Redis
from redis.exceptions import RedisError

from bot.store.keys import RedisKeys
from graph.closed_incidents import ClosedIncident, ClosedIncidentMatches, ClosedIncidentQuery, DisclosureLevel, limit_closed_incident
from graph.state import Origin
from kb.redact import redact_stored_data

# Newest incidents read per host, device or cause; of all of these together; and how many of the oldest are read to
# learn how far back the index reaches.
MAX_IDS_PER_INDEX = 200
MAX_ROWS_READ = 600
MAX_OLDEST_READ = 100


class ClosedIncidentIndex:
    """`heard(reader, origin)`: what a reader may see of an incident from another place. `keep`: a row's TTL. `max_incidents`:
    ids per index.
    """

    def __init__(
        self,
        redis: Redis,
        heard: Callable[[Origin, Origin], DisclosureLevel],
        keep: timedelta,
        keys: RedisKeys | None = None,
        *,
        max_incidents: int = 10_000,
    ) -> None:
        self._redis = redis
        self._heard = heard
        self._keep = keep
        self._keys = keys or RedisKeys()
        self._max_incidents = max_incidents

    async def save_incident(self, incident: ClosedIncident) -> None:
        score, kinds = incident.closed.timestamp(), _list_index_names(incident.all_hosts, incident.devices, incident.labels)
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.set(
                self._get_row_key(incident.incident),
                json.dumps(redact_stored_data(incident.model_dump(mode="json", exclude_defaults=True))),
                px=self._keep,
            )
            for key in (self._keys.closed_index_key("all"), *(self._keys.closed_index_key(*kind) for kind in kinds)):
                pipe.zadd(key, {incident.incident: score})
                pipe.zremrangebyrank(key, 0, -1 - self._max_incidents)
                pipe.expire(key, self._keep)
            await pipe.execute()

    def _get_row_key(self, incident: str) -> str:
        return self._keys.incident_key(incident, "earlier")

    async def remove_incident(self, incident: str) -> None:
        await self._redis.delete(self._get_row_key(incident))

    async def find_incidents(self, query: ClosedIncidentQuery) -> ClosedIncidentMatches:
        """Return the matches that the reader may see. A Redis error is returned in `could_not`, not raised."""
        try:
            return await self._find_readable_incidents(query)
        except RedisError as error:
            return ClosedIncidentMatches(could_not=f"my store did not answer ({type(error).__name__})")

    async def _find_readable_incidents(self, query: ClosedIncidentQuery) -> ClosedIncidentMatches:
        keys = [self._keys.closed_index_key(*kind) for kind in _list_index_names(query.hosts, query.devices, query.labels)]
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
        key = self._keys.closed_index_key("all")
        ids = [one.decode() for one in cast(list[bytes], await self._redis.zrange(key, 0, MAX_OLDEST_READ - 1))]
        visible_rows = [row for row in await self._load_rows(ids, [key]) if self._apply_visibility(row, query)]
        return min((row.opened for row in visible_rows), default=None)

    def _apply_visibility(self, incident: ClosedIncident, query: ClosedIncidentQuery) -> ClosedIncident | None:
        return limit_closed_incident(incident, self._heard(query.reader, incident.origin), query.visible)

    async def _load_rows(self, incidents: Sequence[str], keys: Sequence[str]) -> list[ClosedIncident]:
        """Return the rows that exist and parse; remove expired ids from the indices `keys`."""
        raw = cast(list[bytes | None], await self._redis.mget([self._get_row_key(incident) for incident in incidents])) if incidents else []
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
