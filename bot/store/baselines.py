"""What each host looked like when an incident last found it well, in Redis: one compressed value a host, for forty days."""

import json
import zlib
from collections.abc import Collection, Mapping
from datetime import datetime, timedelta

from redis.asyncio import Redis

from bot.store.keys import RedisKeys
from graph.engine.peer_differences import HostBaseline

BASELINE_RETENTION = timedelta(days=40)
MAX_BASELINE_BYTES = 1 << 20
"""Bytes of one host's rows, unpacked. What is longer was not written by this class."""


class BaselineStore:
    """All hosts on one Redis, whose values are bytes."""

    def __init__(self, redis: Redis, names: RedisKeys | None = None) -> None:
        self._redis, self._names = redis, names or RedisKeys()

    async def save_baselines(self, rows: Mapping[str, HostBaseline]) -> None:
        """The newest of each host takes the place of what was kept."""
        if not rows:
            return
        pipe = self._redis.pipeline(transaction=False)
        for host, row in rows.items():
            text = json.dumps({"at": row.at.isoformat(), "rows": {kind: list(values) for kind, values in row.rows.items()}})
            if len(text) <= MAX_BASELINE_BYTES:
                pipe.set(self._names.baseline_key(host), zlib.compress(text.encode()), ex=BASELINE_RETENTION)
        await pipe.execute()

    async def load_baselines(self, hosts: Collection[str]) -> dict[str, HostBaseline]:
        """Of these hosts as many as were seen. A value that cannot be read is none."""
        names = sorted(hosts)
        values = await self._redis.mget([self._names.baseline_key(host) for host in names]) if names else []
        found = ((host, _parse_baseline(value)) for host, value in zip(names, values, strict=True) if value)
        return {host: row for host, row in found if row is not None}


def _parse_baseline(value: bytes | str) -> HostBaseline | None:
    """A Redis that was opened for text cannot give it back."""
    if isinstance(value, str):
        return None
    try:
        unpacked = zlib.decompressobj().decompress(value, MAX_BASELINE_BYTES)
        row = json.loads(unpacked)
        return HostBaseline(datetime.fromisoformat(row["at"]), {str(kind): tuple(map(str, values)) for kind, values in row["rows"].items()})
    except (zlib.error, ValueError, KeyError, TypeError, AttributeError):
        return None
