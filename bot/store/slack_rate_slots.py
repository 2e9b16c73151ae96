"""Call slots of a Slack method, shared by all processes after a 429."""

from redis.asyncio import Redis
from redis.exceptions import RedisError

from bot.store.keys import RedisKeys
from bot.tasks import to_coroutine

_NOW_LUA = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
"""
RESERVE_SLOT_SCRIPT = f"""
{_NOW_LUA}
local free = redis.call('GET', KEYS[1])
local turn = math.max(now, tonumber(free or '0'))
local each = tonumber(ARGV[1])
redis.call('SET', KEYS[1], turn + each, 'PX', turn - now + 2 * each)
return turn - now
"""
RETRY_AFTER_SCRIPT = f"""
{_NOW_LUA}
local each, rest = tonumber(ARGV[1]), tonumber(ARGV[2])
local free = math.max(now + rest, tonumber(redis.call('GET', KEYS[1]) or '0'))
redis.call('SET', KEYS[1], free, 'PX', free - now + each)
return 0
"""


class SlackRateSlots:
    """`SharedCallTurns` on Redis, by its clock. Queueing ends when no slot is reserved for the time of one slot."""

    def __init__(self, redis: Redis, *, keys: RedisKeys | None = None) -> None:
        self._redis = redis
        self._keys = keys or RedisKeys()
        self._take = redis.register_script(RESERVE_SLOT_SCRIPT)
        self._rest = redis.register_script(RETRY_AFTER_SCRIPT)

    async def is_rate_limited(self, name: str) -> bool:
        """Return False where Redis does not answer: Slack itself refuses."""
        try:
            return bool(await self._redis.exists(self._keys.slack_slots_key(name)))
        except RedisError:
            return False

    async def reserve_slot(self, name: str, each: float) -> float:
        """Return the seconds until the caller's slot; 0 where Redis does not answer."""
        try:
            return int(await to_coroutine(self._take([self._keys.slack_slots_key(name)], [_to_milliseconds(each)]))) / 1000
        except RedisError:
            return 0.0

    async def apply_retry_after(self, name: str, seconds: float, each: float) -> None:
        """Block the method as Slack says. Without Redis, only the caller keeps to it."""
        try:
            await to_coroutine(self._rest([self._keys.slack_slots_key(name)], [_to_milliseconds(each), _to_milliseconds(seconds)]))
        except RedisError:
            return


def _to_milliseconds(seconds: float) -> int:
    return max(1, round(seconds * 1000))
