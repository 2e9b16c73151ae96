"""GPU reservations as Redis locks that expire with their holder. Fails closed: without an answer from Redis, no host is
reserved.
"""

import contextlib
import secrets

from redis.asyncio import Redis
from redis.asyncio.lock import Lock
from redis.exceptions import RedisError

from bot.store.keys import RedisKeys


class RedisGpuReservations:
    """`tools.fleet.gpu_permit.GpuReservations` for several processes."""

    def __init__(self, redis: Redis, names: RedisKeys | None = None) -> None:
        self._redis, self._names = redis, names or RedisKeys()

    async def reserve_host(self, host: str, seconds: float) -> str | None:
        """Return a token, or None where the host is held or Redis does not answer."""
        token = secrets.token_hex(8)
        try:
            is_locked = await self._get_lock(host, seconds).acquire(blocking=False, token=token)
        except RedisError:
            return None
        return token if is_locked else None

    async def release_host(self, host: str, token: str) -> None:
        """Release the lock; if that fails, it expires."""
        with contextlib.suppress(RedisError):
            await self._get_lock(host).do_release(token.encode())

    def _get_lock(self, host: str, seconds: float | None = None) -> Lock:
        return self._redis.lock(self._names.gpu_reservation_key(host), timeout=seconds)
