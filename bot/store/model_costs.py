"""What incidents have cost, in Redis: kept over restarts and shared between processes, for as long as the incident is kept."""

from typing import Any

from redis.asyncio import Redis

from bot.store.keys import Names
from graph.model.reasoner import Spent


class RedisBook:
    """A hash per incident; adding is one atomic step."""

    def __init__(self, redis: Redis, names: Names | None = None) -> None:
        self._redis = redis
        self._names = names or Names()

    async def load(self, incident: str) -> Spent:
        rows: Any = self._redis.hmget(self._key(incident), ["calls", "tokens_in", "tokens_out", "usd"])
        calls, tokens_in, tokens_out, usd = await rows
        return Spent(int(calls or 0), int(tokens_in or 0), int(tokens_out or 0), float(usd or 0))

    async def add(self, incident: str, spent: Spent) -> Spent:
        key = self._key(incident)
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.hincrby(key, "calls", spent.calls)
            pipe.hincrby(key, "tokens_in", spent.tokens_in)
            pipe.hincrby(key, "tokens_out", spent.tokens_out)
            pipe.hincrbyfloat(key, "usd", spent.usd)
            calls, tokens_in, tokens_out, usd = await pipe.execute()
        return Spent(int(calls), int(tokens_in), int(tokens_out), float(usd))

    def _key(self, incident: str) -> str:
        return self._names.of(incident, "spent")
