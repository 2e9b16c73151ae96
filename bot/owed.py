"""What people have not been shown yet because Slack was away, kept in Redis so that a restart does not forget it."""

from typing import Any, cast

from redis.asyncio import Redis


class Owed:
    """A set of (approval, what). What is shown in the end is rendered from the ledger then, so nothing else is kept."""

    def __init__(self, redis: Redis, *, prefix: str = "rm") -> None:
        self._redis = redis
        self._key = f"{prefix}:actions:owed"

    async def add(self, approval: str, what: str) -> None:
        await cast(Any, self._redis.sadd(self._key, f"{approval} {what}"))

    async def done(self, approval: str, what: str) -> None:
        await cast(Any, self._redis.srem(self._key, f"{approval} {what}"))

    async def all(self) -> list[tuple[str, str]]:
        """(approval, what), in no order that matters."""
        rows = [row.decode() if isinstance(row, bytes) else str(row) for row in await cast(Any, self._redis.smembers(self._key))]
        return [(approval, what) for approval, _, what in (row.partition(" ") for row in sorted(rows))]
