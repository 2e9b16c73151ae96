"""Operators' messages to a tenant's RackMedic, numbered and stored until fetched."""

from collections.abc import Sequence

from redis.asyncio import Redis

from bot.provider.provider_updates import MAX_MESSAGE_CHARS, MAX_MESSAGES_PER_ANSWER, ProviderMessage
from bot.store.keys import RedisKeys
from bot.tasks import to_coroutine
from kb.redact import redact_start
from tools.clock import Clock

MAX_KEPT_MESSAGES = 200  # per ticket; further ones are refused
# KEYS: the incident's row. ARGV: dedupe key, message, maximum count. Returns the message's number, 0 if full.
APPEND_MESSAGE_SCRIPT = """
local before = redis.call('HGET', KEYS[1], 'words_key:' .. ARGV[1])
if before then return tonumber(before) end
if tonumber(redis.call('HGET', KEYS[1], 'words') or '0') >= tonumber(ARGV[3]) then return 0 end
local n = redis.call('HINCRBY', KEYS[1], 'words', 1)
redis.call('HSET', KEYS[1], 'words_key:' .. ARGV[1], n, 'words:' .. n, ARGV[2])
return n
"""


class ProviderMessageStore:
    def __init__(self, redis: Redis, clock: Clock, names: RedisKeys | None = None) -> None:
        self._redis, self._clock, self._names = redis, clock, names or RedisKeys()
        self._tell = redis.register_script(APPEND_MESSAGE_SCRIPT)

    async def append_message(self, incident: str, key: str, words: str) -> int:
        """Store a message; return its number, 0 if full. Idempotent per key."""
        message = ProviderMessage(n=1, at=self._clock.now(), text=redact_start(words, MAX_MESSAGE_CHARS))
        return int(await self._tell(keys=[self._build_row_key(incident)], args=[key, message.model_dump_json(), MAX_KEPT_MESSAGES]))

    async def list_messages_after(self, incident: str, heard: int, most: int = MAX_MESSAGES_PER_ANSWER) -> tuple[ProviderMessage, ...]:
        """Return messages after number `heard`, oldest first."""
        numbers = range(heard + 1, heard + 1 + most)
        fields = [f"words:{n}" for n in numbers]
        stored_rows: Sequence[bytes | None] = await to_coroutine(self._redis.hmget(self._build_row_key(incident), fields))
        rows = zip(numbers, stored_rows, strict=True)
        return tuple(ProviderMessage.model_validate_json(raw).model_copy(update={"n": n}) for n, raw in rows if raw)

    def _build_row_key(self, incident: str) -> str:
        return self._names.incident_key(incident, "provider")
