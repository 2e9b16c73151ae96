"""Who holds a host for a check that needs its GPUs, over all processes: one lock in Redis each, gone by itself when its holder dies.

Rule it keeps: a store that does not answer gives no host away.
"""

import contextlib
import secrets

from redis.asyncio import Redis
from redis.asyncio.lock import Lock
from redis.exceptions import RedisError

from bot.store.keys import RedisKeys


class RedisGpuReservations:
    """`tools.fleet.reservations.GpuReservations` for several processes."""

    def __init__(self, redis: Redis, names: RedisKeys | None = None) -> None:
        self._redis, self._names = redis, names or RedisKeys()

    async def reserve_host(self, host: str, seconds: float) -> str | None:
        """A token, or None while somebody else holds the host or nobody can say."""
        token = secrets.token_hex(8)
        try:
            taken = await self._get_lock(host, seconds).acquire(blocking=False, token=token)
        except RedisError:
            return None
        return token if taken else None

    async def release_host(self, host: str, token: str) -> None:
        """What cannot be given back now, or is another's by now, ends by itself."""
        with contextlib.suppress(RedisError):
            await self._get_lock(host).do_release(token.encode())

    def _get_lock(self, host: str, seconds: float | None = None) -> Lock:
        return self._redis.lock(self._names.gpu_reservation_key(host), timeout=seconds)
