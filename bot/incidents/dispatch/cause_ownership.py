"""Which open incident owns a cause that several found: the first that concluded it, until it closes or no longer finds
it.

Only the owner proposes remediations. Its release marks all others due in the same script, so a crash loses nothing. An
incident opened beside another leaves common causes to that one.
"""

from collections.abc import Mapping, Sequence

from redis.asyncio import Redis

from bot.incidents.dispatch import lua_scripts as scripts
from bot.store.keys import RedisKeys
from bot.tasks import to_coroutine
from tools.clock import Clock


class CauseOwnership:
    """Claims causes for incidents."""

    def __init__(self, redis: Redis, clock: Clock, *, keys: RedisKeys | None = None) -> None:
        self._redis = redis
        self._clock = clock
        self._keys = keys or RedisKeys()
        self._keep = redis.register_script(scripts.CLAIM_CAUSES_SCRIPT)

    async def claim_causes(self, incident: str, causes: Sequence[str]) -> Mapping[str, str]:
        """Claim all causes found now, release others; return those owned elsewhere, with the owner. Idempotent."""
        names = self._keys
        raw = await to_coroutine(self._redis.hget(names.incident_key(incident), "beside"))
        beside = raw.decode().split() if raw else []
        keys = [names.open, names.due, names.incident_key(incident, "causes"), names.incident_key(incident)]
        keys += [key for other in beside for key in (names.incident_key(other), names.incident_key(other, "causes"))]
        args = [incident, f"{self._clock.now().timestamp():.3f}", len(beside), *beside]
        keepers = await self._keep(keys=[*keys, *(names.cause_key(name) for name in causes)], args=args)
        rows = zip(causes, (keeper.decode() for keeper in keepers), strict=True)
        return {name: keeper for name, keeper in rows if keeper != incident}

    async def list_owners(self, incident: str, causes: Sequence[str]) -> Mapping[str, str]:
        """Return the causes owned elsewhere, with the owner. Read-only."""
        found: dict[str, str] = {}
        for name in causes:
            rows = [row.decode() for row in await to_coroutine(self._redis.lrange(self._keys.cause_key(name), 0, -1))]
            still = [one for one in rows if await self._is_open(one)]
            if still and still[0] != incident:
                found[name] = still[0]
        return found

    async def _is_open(self, incident: str) -> bool:
        return await self._redis.zscore(self._keys.open, incident) is not None
