"""Model costs per incident in Redis, kept as long as the incident."""

from typing import Any

from redis.asyncio import Redis

from bot.store.keys import RedisKeys
from graph.model.reasoner import ModelSpend


class RedisSpendStore:
    """One hash per incident; `add_spend` is atomic."""

    def __init__(self, redis: Redis, keys: RedisKeys | None = None) -> None:
        self._redis = redis
        self._keys = keys or RedisKeys()

    async def load_spend(self, incident: str) -> ModelSpend:
        rows: Any = self._redis.hmget(self._get_cost_key(incident), ["calls", "tokens_in", "tokens_out", "usd"])
        calls, tokens_in, tokens_out, usd = await rows
        return ModelSpend(int(calls or 0), int(tokens_in or 0), int(tokens_out or 0), float(usd or 0))

    async def add_spend(self, incident: str, spent: ModelSpend) -> ModelSpend:
        key = self._get_cost_key(incident)
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.hincrby(key, "calls", spent.calls)
            pipe.hincrby(key, "tokens_in", spent.tokens_in)
            pipe.hincrby(key, "tokens_out", spent.tokens_out)
            pipe.hincrbyfloat(key, "usd", spent.usd)
            calls, tokens_in, tokens_out, usd = await pipe.execute()
        return ModelSpend(int(calls), int(tokens_in), int(tokens_out), float(usd))

    def _get_cost_key(self, incident: str) -> str:
        return self._keys.incident_key(incident, "spent")
