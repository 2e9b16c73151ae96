"""Host baselines in Redis: how a host looked when an incident last found it healthy."""

import json
import zlib
from collections.abc import Collection, Mapping
from datetime import datetime, timedelta

from redis.asyncio import Redis

from bot.store.keys import RedisKeys
from graph.engine.peer_differences import HostBaseline

BASELINE_RETENTION = timedelta(days=40)
MAX_BASELINE_BYTES = 1 << 20  # of one host's rows, decompressed; a longer value was not written by this class


class BaselineStore:
    """One compressed value per host. Needs a Redis client that returns bytes."""

    def __init__(self, redis: Redis, names: RedisKeys | None = None) -> None:
        self._redis, self._names = redis, names or RedisKeys()

    async def save_baselines(self, rows: Mapping[str, HostBaseline]) -> None:
        if not rows:
            return
        pipe = self._redis.pipeline(transaction=False)
        for host, row in rows.items():
            text = json.dumps({"at": row.at.isoformat(), "rows": {kind: list(values) for kind, values in row.rows.items()}})
            if len(text) <= MAX_BASELINE_BYTES:
                pipe.set(self._names.baseline_key(host), zlib.compress(text.encode()), ex=BASELINE_RETENTION)
        await pipe.execute()

    async def load_baselines(self, hosts: Collection[str]) -> dict[str, HostBaseline]:
        """Return the stored baselines; skip damaged values."""
        names = sorted(hosts)
        values = await self._redis.mget([self._names.baseline_key(host) for host in names]) if names else []
        baselines = ((host, _parse_baseline(value)) for host, value in zip(names, values, strict=True) if value)
        return {host: row for host, row in baselines if row is not None}


def _parse_baseline(value: bytes | str) -> HostBaseline | None:
    if isinstance(value, str):
        return None
    try:
        unpacked = zlib.decompressobj().decompress(value, MAX_BASELINE_BYTES)
        row = json.loads(unpacked)
        return HostBaseline(datetime.fromisoformat(row["at"]), {str(kind): tuple(map(str, values)) for kind, values in row["rows"].items()})
    except (zlib.error, ValueError, KeyError, TypeError, AttributeError):
        return None
