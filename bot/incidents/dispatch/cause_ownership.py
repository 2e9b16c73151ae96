"""Which of the open incidents that found the same cause keeps it: the first that concluded it, until it closes or finds it no more. One step in Redis.

An incident that was opened beside another one, whose thread its people may not read, leaves what both may find to that one.

Only the one that keeps a cause puts its fix up for decision. When it lets go all others are due to look again; that entry is in the same step,
so whoever dies over it loses nothing.
"""

from collections.abc import Mapping, Sequence

from redis.asyncio import Redis

from bot.incidents.dispatch import lua_scripts as scripts
from bot.store.keys import RedisKeys
from bot.tasks import to_coroutine
from tools.clock import Clock


class CauseOwnership:
    """Who keeps which cause."""

    def __init__(self, redis: Redis, clock: Clock, *, names: RedisKeys | None = None) -> None:
        self._redis, self._clock, self._names = redis, clock, names or RedisKeys()
        self._keep = redis.register_script(scripts.CLAIM_CAUSES_SCRIPT)

    async def claim_causes(self, incident: str, causes: Sequence[str]) -> Mapping[str, str]:
        """`causes` are all that it has found by now. Which of them other incidents keep, and who; asking again changes nothing."""
        names = self._names
        raw = await to_coroutine(self._redis.hget(names.incident_key(incident), "beside"))
        beside = raw.decode().split() if raw else []
        keys = [names.open, names.due, names.incident_key(incident, "causes"), names.incident_key(incident)]
        keys += [key for other in beside for key in (names.incident_key(other), names.incident_key(other, "causes"))]
        args = [incident, f"{self._clock.now().timestamp():.3f}", len(beside), *beside]
        keepers = await self._keep(keys=[*keys, *(names.cause_key(name) for name in causes)], args=args)
        rows = zip(causes, (keeper.decode() for keeper in keepers), strict=True)
        return {name: keeper for name, keeper in rows if keeper != incident}

    async def list_owners(self, incident: str, causes: Sequence[str]) -> Mapping[str, str]:
        """Which of these causes other incidents keep, and who: of the open ones that found it the first. Nothing changes by asking."""
        found: dict[str, str] = {}
        for name in causes:
            rows = [row.decode() for row in await to_coroutine(self._redis.lrange(self._names.cause_key(name), 0, -1))]
            still = [one for one in rows if await self._is_open(one)]
            if still and still[0] != incident:
                found[name] = still[0]
        return found

    async def _is_open(self, incident: str) -> bool:
        return await self._redis.zscore(self._names.open, incident) is not None
