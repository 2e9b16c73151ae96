"""Closed incidents as rows that are found by host, device and cause. A row goes with its incident; what the indices still name then is dropped
by whoever finds it gone."""

import json
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import cast

from pydantic import ValidationError
from redis.asyncio import Redis
from redis.exceptions import RedisError

from bot.store.keys import Names
from graph.earlier import EarlierIncident, Heard, Recalled, Sought, as_heard
from graph.state import Origin
from kb.redact import without_secrets

MOST_EACH, MOST_READ, MOST_OLD = 200, 600, 100
"""Newest incidents of one host, device or cause that are read; of all of these together; and how many of the oldest are asked how far back
what is kept reaches."""


class EarlierIncidents:
    """All of them on one Redis. `heard`: what a place may hear of an incident of another one; `keep`: how long closed incidents stay;
    `most`: the newest that an index names, whether anybody ever asks for them or not."""

    def __init__(
        self,
        redis: Redis,
        heard: Callable[[Origin, Origin], Heard],
        keep: timedelta,
        names: Names | None = None,
        *,
        most: int = 10_000,
    ) -> None:
        self._redis, self._heard, self._keep, self._names, self._most = redis, heard, keep, names or Names(), most

    async def keep(self, row: EarlierIncident) -> None:
        """In the place of what was known of it."""
        score, kinds = row.closed.timestamp(), _kinds(row.places, row.devices, row.labels)
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.set(
                self._row(row.incident), json.dumps(without_secrets(row.model_dump(mode="json", exclude_defaults=True))), px=self._keep
            )
            for key in (self._names.earlier("all"), *(self._names.earlier(*kind) for kind in kinds)):
                pipe.zadd(key, {row.incident: score})
                pipe.zremrangebyrank(key, 0, -1 - self._most)
                pipe.expire(key, self._keep)
            await pipe.execute()

    def _row(self, incident: str) -> str:
        return self._names.of(incident, "earlier")

    async def forget(self, incident: str) -> None:
        """It lives again, or never was of the past."""
        await self._redis.delete(self._row(incident))

    async def recall(self, sought: Sought) -> Recalled:
        """What is kept of the sought, as far as its reader may hear of it. Trouble is a value."""
        try:
            return await self._recall(sought)
        except RedisError as why:
            return Recalled(could_not=f"my store did not answer ({type(why).__name__})")

    async def _recall(self, sought: Sought) -> Recalled:
        keys = [self._names.earlier(*kind) for kind in _kinds(sought.hosts, sought.devices, sought.labels)]
        named = [cast(list[bytes], await self._redis.zrevrange(key, 0, MOST_EACH)) for key in keys]
        cut = any(len(ids) > MOST_EACH for ids in named)
        ids = dict.fromkeys(one.decode() for row in named for one in row[:MOST_EACH])
        rows = await self._rows(list(ids)[:MOST_READ], keys)
        found = [told for row in rows if row.incident != sought.incident and (told := self._told(row, sought))]
        found.sort(key=lambda row: row.closed, reverse=True)
        return Recalled(tuple(found), await self._since(sought), cut=cut or len(ids) > MOST_READ)

    async def _since(self, sought: Sought) -> datetime | None:
        """When the oldest was opened that the reader may hear of."""
        key = self._names.earlier("all")
        ids = [one.decode() for one in cast(list[bytes], await self._redis.zrange(key, 0, MOST_OLD - 1))]
        told = [row for row in await self._rows(ids, [key]) if self._told(row, sought)]
        return min((row.opened for row in told), default=None)

    def _told(self, row: EarlierIncident, sought: Sought) -> EarlierIncident | None:
        return as_heard(row, self._heard(sought.reader, row.origin), sought.visible)

    async def _rows(self, incidents: Sequence[str], keys: Sequence[str]) -> list[EarlierIncident]:
        """Those that are still there and can be read; what is gone leaves these indices."""
        raw = cast(list[bytes | None], await self._redis.mget([self._row(one) for one in incidents])) if incidents else []
        gone = [one for one, text in zip(incidents, raw, strict=True) if text is None]
        if gone:
            async with self._redis.pipeline(transaction=False) as pipe:
                for key in keys:
                    pipe.zrem(key, *gone)
                await pipe.execute()
        return [row for text in raw if text is not None and (row := _read(text)) is not None]


def _read(text: bytes) -> EarlierIncident | None:
    """Return None for a damaged row: one of them must not keep the others from being found."""
    try:
        return EarlierIncident.model_validate_json(text)
    except ValidationError:
        return None


def _kinds(hosts: Iterable[str], devices: Iterable[str], labels: Iterable[str]) -> list[tuple[str, str]]:
    return [(kind, name) for kind, names in (("host", hosts), ("device", devices), ("label", labels)) for name in names]
