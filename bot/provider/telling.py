"""What a provider's people tell a customer whose own RackMedic asks us: kept until it asks, counted, so that each is heard once."""

from collections.abc import Sequence

from redis.asyncio import Redis

from bot.provider.news import MOST_TOLD, MOST_WORDS, ProviderWords
from bot.store.keys import Names
from bot.tasks import awaited
from kb.redact import cleaned_start
from tools.clock import Clock

MOST_KEPT = 200
"""Of one ticket; from then on nothing is taken."""
TELL = """
local before = redis.call('HGET', KEYS[1], 'words_key:' .. ARGV[1])
if before then return tonumber(before) end
if tonumber(redis.call('HGET', KEYS[1], 'words') or '0') >= tonumber(ARGV[3]) then return 0 end
local n = redis.call('HINCRBY', KEYS[1], 'words', 1)
redis.call('HSET', KEYS[1], 'words_key:' .. ARGV[1], n, 'words:' .. n, ARGV[2])
return n
"""
"""KEYS the incident's row. ARGV what makes it one however often it is sent, the words, how many at most. 0: there is no room."""


class ToldBook:
    """The words of each ticket's incident, in order."""

    def __init__(self, redis: Redis, clock: Clock, names: Names | None = None) -> None:
        self._redis, self._clock, self._names = redis, clock, names or Names()
        self._tell = redis.register_script(TELL)

    async def tell(self, incident: str, key: str, words: str) -> int:
        """Keep them; their number. The same key again is the same words. 0 where there is no room."""
        said = ProviderWords(n=1, at=self._clock.now(), text=cleaned_start(words, MOST_TOLD))
        return int(await self._tell(keys=[self._row(incident)], args=[key, said.model_dump_json(), MOST_KEPT]))

    async def after(self, incident: str, heard: int, most: int = MOST_WORDS) -> tuple[ProviderWords, ...]:
        """Those that the asker has not heard yet, the oldest first."""
        numbers = range(heard + 1, heard + 1 + most)
        fields = [f"words:{n}" for n in numbers]
        found: Sequence[bytes | None] = await awaited(self._redis.hmget(self._row(incident), fields))
        rows = zip(numbers, found, strict=True)
        return tuple(ProviderWords.model_validate_json(raw).model_copy(update={"n": n}) for n, raw in rows if raw)

    def _row(self, incident: str) -> str:
        return self._names.of(incident, "provider")
