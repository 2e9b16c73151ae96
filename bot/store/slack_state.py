"""What all processes share about Slack: call slots of a method, and whether another organisation can read a channel."""

from typing import TYPE_CHECKING, NamedTuple

from redis.asyncio import Redis
from redis.exceptions import RedisError

from bot.store.keys import RedisKeys
from bot.tasks import to_coroutine

if TYPE_CHECKING:
    from redis.asyncio import Redis


# Whether another organisation can read a channel: one cached answer for all processes.

ANSWER_TTL_SECONDS = 60  # how long an answer of Slack's API is valid
# How long an event overrides answers of Slack's API: longer than any process caches an older answer. After that, each
# process asks Slack.
EVENT_TTL_SECONDS = 120
BECAME_SHARED_MARK = b"turned"
SHARED_MARK = b"shared"
NOT_SHARED_MARK = b"ours"


class ChannelSharing(NamedTuple):
    """`age`: seconds since Slack said it."""

    shared: bool
    age: float


class ChannelSharingCache:
    """Written on Slack's events and answers, read by every process."""

    def __init__(self, redis: "Redis") -> None:
        self._redis, self._names = redis, RedisKeys()

    async def mark_shared(self, channel: str) -> None:
        """Record a channel_shared event. It overrides API answers still in flight."""
        await self._redis.set(self._names.channel_sharing_key(channel), BECAME_SHARED_MARK, ex=EVENT_TTL_SECONDS)

    async def forget_channel(self, channel: str) -> None:
        """Forget the channel after a channel_unshared event: other organisations may remain, so the next reader asks
        Slack.
        """
        await self._redis.delete(self._names.channel_sharing_key(channel))

    async def save_answer(self, channel: str, *, shared: bool) -> None:
        """Save an answer of Slack's API, unless a value is already stored."""
        await self._redis.set(
            self._names.channel_sharing_key(channel), SHARED_MARK if shared else NOT_SHARED_MARK, ex=ANSWER_TTL_SECONDS, nx=True
        )

    async def get_sharing(self, channel: str) -> ChannelSharing | None:
        """Return the cached value, or None where Slack must be asked."""
        key = self._names.channel_sharing_key(channel)
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.get(key)
            pipe.pttl(key)
            word, ttl = await pipe.execute()
        if word not in (BECAME_SHARED_MARK, SHARED_MARK, NOT_SHARED_MARK):
            return None
        return ChannelSharing(word != NOT_SHARED_MARK, 0.0 if word == BECAME_SHARED_MARK else max(0.0, ANSWER_TTL_SECONDS - ttl / 1000))


# Call slots of a Slack method, shared by all processes after a 429.

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

    def __init__(self, redis: Redis, *, names: RedisKeys | None = None) -> None:
        self._redis, self._names = redis, names or RedisKeys()
        self._take, self._rest = redis.register_script(RESERVE_SLOT_SCRIPT), redis.register_script(RETRY_AFTER_SCRIPT)

    async def is_rate_limited(self, name: str) -> bool:
        """Return False where Redis does not answer: Slack itself refuses."""
        try:
            return bool(await self._redis.exists(self._names.slack_slots_key(name)))
        except RedisError:
            return False

    async def reserve_slot(self, name: str, each: float) -> float:
        """Return the seconds until the caller's slot; 0 where Redis does not answer."""
        try:
            return int(await to_coroutine(self._take([self._names.slack_slots_key(name)], [_to_milliseconds(each)]))) / 1000
        except RedisError:
            return 0.0

    async def apply_retry_after(self, name: str, seconds: float, each: float) -> None:
        """Block the method as Slack says. Without Redis, only the caller keeps to it."""
        try:
            await to_coroutine(self._rest([self._names.slack_slots_key(name)], [_to_milliseconds(each), _to_milliseconds(seconds)]))
        except RedisError:
            return


def _to_milliseconds(seconds: float) -> int:
    return max(1, round(seconds * 1000))
