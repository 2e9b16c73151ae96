"""Who holds a host for a check that needs its GPUs, over all processes: one lock in Redis each, gone by itself when its holder dies.

Rule it keeps: a store that does not answer gives no host away.
"""

import contextlib
import secrets

from redis.asyncio import Redis
from redis.asyncio.lock import Lock
from redis.exceptions import RedisError

from bot.store.keys import Names


class RedisHolds:
    """`tools.fleet.holds.Holds` for several processes."""

    def __init__(self, redis: Redis, names: Names | None = None) -> None:
        self._redis, self._names = redis, names or Names()

    async def take(self, host: str, seconds: float) -> str | None:
        """A token, or None while somebody else holds the host or nobody can say."""
        token = secrets.token_hex(8)
        try:
            taken = await self._lock(host, seconds).acquire(blocking=False, token=token)
        except RedisError:
            return None
        return token if taken else None

    async def give(self, host: str, token: str) -> None:
        """What cannot be given back now, or is another's by now, ends by itself."""
        with contextlib.suppress(RedisError):
            await self._lock(host).do_release(token.encode())

    def _lock(self, host: str, seconds: float | None = None) -> Lock:
        return self._redis.lock(self._names.gpus(host), timeout=seconds)
