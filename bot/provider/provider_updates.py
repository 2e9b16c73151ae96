"""Messages and causes that a provider reports.

Parsing truncates and redacts: the tenant's site does not trust them.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter
from redis.asyncio import Redis

from bot.store.keys import RedisKeys
from bot.tasks import to_coroutine
from bot.tenants.cards.view import TenantCause
from kb.customers.cause_words import CauseWords
from kb.redact import redact_start
from kb.taxonomy.customer_fix import CustomerFix
from tools.clock import Clock

MAX_MESSAGES_PER_ANSWER = 5  # per ticket; further messages come with the next answer
MAX_CAUSES_PER_ANSWER = 3  # per ticket
MAX_MESSAGE_CHARS = 1500
MAX_BLOCK_CHARS = 1500  # of lines to paste
_MAX_SENTENCE_CHARS = 600
_MAX_HOST_NAME_CHARS = 253
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


def _build_truncator(max_chars: int) -> BeforeValidator:
    def truncate(value: Any) -> Any:
        return redact_start(value, max_chars) if isinstance(value, str) else value

    return BeforeValidator(truncate)


MessageText = Annotated[str, _build_truncator(MAX_MESSAGE_CHARS)]
PasteBlock = Annotated[str, _build_truncator(MAX_BLOCK_CHARS)]
Sentence = Annotated[str, _build_truncator(_MAX_SENTENCE_CHARS)]
HostName = Annotated[str, _build_truncator(_MAX_HOST_NAME_CHARS)]


class _UpdateModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class ProviderMessage(_UpdateModel):
    """A message of the provider's people to the tenant. `n` counts a ticket's messages from one, so that each is posted once."""

    n: Annotated[int, Field(ge=1, le=1_000_000)]
    at: datetime
    text: MessageText


class ProviderCause(_UpdateModel):
    """A cause that the provider found, in words for the tenant.

    If it is not `ours`, the provider's, the tenant must fix it: `change`, `block` and `works` say how.
    """

    title: Sentence
    words: Sentence
    ours: bool = True
    hosts: Annotated[tuple[HostName, ...], Field(max_length=256)] = ()
    shows: Annotated[tuple[Sentence, ...], Field(max_length=4)] = ()  # lines of the tenant's job
    change: Sentence = ""
    block: PasteBlock = ""
    works: Sentence = ""


ProviderMessages = Annotated[tuple[ProviderMessage, ...], Field(max_length=MAX_MESSAGES_PER_ANSWER)]
ProviderCauses = Annotated[tuple[ProviderCause, ...], Field(max_length=MAX_CAUSES_PER_ANSWER)]
PROVIDER_CAUSES_ADAPTER: TypeAdapter[tuple[ProviderCause, ...]] = TypeAdapter(tuple[ProviderCause, ...])


def count_heard_messages(notes: Mapping[str, str]) -> int:
    """Return the number of the last posted message."""
    return int(notes.get("heard", 0))


def parse_found_causes(notes: Mapping[str, str]) -> tuple[ProviderCause, ...]:
    return PROVIDER_CAUSES_ADAPTER.validate_json(notes.get("found", "[]"))


def build_provider_causes(causes: Iterable[TenantCause]) -> tuple[ProviderCause, ...]:
    return tuple(_build_provider_cause(cause) for cause in causes)[:MAX_CAUSES_PER_ANSWER]


def build_card_causes(causes: Iterable[ProviderCause]) -> tuple[TenantCause, ...]:
    return tuple(_build_card_cause(cause) for cause in causes)


def _build_card_cause(cause: ProviderCause) -> TenantCause:
    fix = None if cause.ours else CustomerFix(cause.change, (cause.block,), cause.works)
    return TenantCause(CauseWords(cause.title, cause.words, fix), cause.ours, cause.hosts, cause.shows, cause.block)


def _build_provider_cause(cause: TenantCause) -> ProviderCause:
    fix = cause.said.fix if not cause.ours else None
    return ProviderCause(
        title=cause.said.title,
        words=cause.said.words,
        ours=cause.ours,
        hosts=cause.hosts[:256],
        shows=cause.shows[:4],
        change=fix.change if fix else "",
        block=cause.block,
        works=fix.works if fix else "",
    )


class ProviderMessageStore:
    """The messages to the sender of each ticket."""

    def __init__(self, redis: Redis, clock: Clock, keys: RedisKeys | None = None) -> None:
        self._redis = redis
        self._clock = clock
        self._keys = keys or RedisKeys()
        self._append = redis.register_script(APPEND_MESSAGE_SCRIPT)

    async def append_message(self, incident: str, key: str, text: str) -> int:
        """Store a message once for each key. Return its number, or 0 if the ticket has too many."""
        message = ProviderMessage(n=1, at=self._clock.now(), text=redact_start(text, MAX_MESSAGE_CHARS))
        return int(await self._append(keys=[self._build_row_key(incident)], args=[key, message.model_dump_json(), MAX_KEPT_MESSAGES]))

    async def list_messages_after(
        self, incident: str, number: int, max_messages: int = MAX_MESSAGES_PER_ANSWER
    ) -> tuple[ProviderMessage, ...]:
        """Return the messages after this number, oldest first."""
        numbers = range(number + 1, number + 1 + max_messages)
        fields = [f"words:{n}" for n in numbers]
        stored: Sequence[bytes | None] = await to_coroutine(self._redis.hmget(self._build_row_key(incident), fields))
        messages = ((n, ProviderMessage.model_validate_json(raw)) for n, raw in zip(numbers, stored, strict=True) if raw)
        return tuple(message.model_copy(update={"n": n}) for n, message in messages)

    def _build_row_key(self, incident: str) -> str:
        return self._keys.incident_key(incident, "provider")
