"""Who holds a host for a check that needs its GPUs, over all processes: one key in Redis each, gone by itself when its holder dies.

Rule it keeps: a store that does not answer gives no host away.
"""

import secrets

from redis.asyncio import Redis
from redis.exceptions import RedisError

GIVE = """
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
"""


class RedisHolds:
    """`tools.fleet.holds.Holds` for several processes."""

    def __init__(self, redis: Redis, prefix: str = "rm") -> None:
        self._redis, self._prefix = redis, prefix
        self._give = redis.register_script(GIVE)

    async def take(self, host: str, seconds: float) -> str | None:
        """A token, or None while somebody else holds the host or nobody can say."""
        token = secrets.token_hex(8)
        try:
            taken = await self._redis.set(self._key(host), token, nx=True, px=int(seconds * 1000))
        except RedisError:
            return None
        return token if taken else None

    async def give(self, host: str, token: str) -> None:
        """What cannot be given back now ends by itself."""
        try:
            await self._give(keys=[self._key(host)], args=[token])
        except RedisError:
            return

    def _key(self, host: str) -> str:
        return f"{self._prefix}:gpus:{host}"
