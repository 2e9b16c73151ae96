"""Which Slack message is which card, in Redis, so that every process edits the same one.

A card is `posting` before the post, then its ts. After a crash in between, the thread is searched for the message's
metadata before posting.
"""

import contextlib
import hashlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import structlog
from redis.asyncio import Redis
from redis.exceptions import LockError
from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.web.async_client import AsyncWebClient

from bot.cards.blocks import Card, replace_plan_blocks
from bot.slack.client import build_message_args, post_message
from bot.slack.rate_limits import SlackTurnTimeout
from bot.store.keys import RedisKeys
from bot.tasks import to_coroutine
from graph.state import Origin
from tools.clock import Clock
from tools.ledger.redis_replies import decode_text

log = structlog.get_logger()
OriginLookup = Callable[[str], Awaitable[Origin | None]]
POSTING = "posting"
CLOSED_RETENTION = timedelta(days=30)
EDIT_LOCK_WAIT = timedelta(seconds=1)  # how long a writer waits for another that edits a message of the same incident


class PostedCards:
    """One hash per incident. Fields: `end`, `report:ITEM`, `ticket`, `ticket_shown`, `file`, and those of
    `pending_edits`, `status_messages`, `bot.remediation.action_cards`, `.approval_view` and `.shared_cards`.
    """

    def __init__(self, redis: Redis, *, names: RedisKeys | None = None, keep_closed: timedelta = CLOSED_RETENTION) -> None:
        self._redis = redis
        self._names = names or RedisKeys()
        self._keep = keep_closed

    async def get(self, incident: str, name: str) -> str:
        return decode_text(await to_coroutine(self._redis.hget(self._names.cards_key(incident), name)))

    async def claim(self, incident: str, name: str) -> str:
        """Return the entry; where there is none, set `posting` and return an empty string."""
        if await to_coroutine(self._redis.hsetnx(self._names.cards_key(incident), name, POSTING)):
            return ""
        return await self.get(incident, name)

    async def set(self, incident: str, name: str, value: str) -> None:
        await to_coroutine(self._redis.hset(self._names.cards_key(incident), name, value))

    async def drop(self, incident: str, name: str) -> None:
        await to_coroutine(self._redis.hdel(self._names.cards_key(incident), name))

    async def increment(self, incident: str, name: str) -> None:
        await to_coroutine(self._redis.hincrby(self._names.cards_key(incident), name, 1))

    @asynccontextmanager
    async def hold_lock(
        self, incident: str, name: str, patience: timedelta = timedelta(seconds=20), *, wait: timedelta = timedelta()
    ) -> AsyncIterator[bool]:
        """Yield True to one holder at a time. A dead holder's lock expires after `patience`."""
        lock = self._redis.lock(self._names.card_lock_key(incident, name), timeout=patience.total_seconds())
        held = await lock.acquire(blocking=bool(wait), blocking_timeout=wait.total_seconds())
        try:
            yield held
        finally:
            if held:
                with contextlib.suppress(LockError):  # held for longer than `patience`, so another may hold it now
                    await lock.release()

    async def run_script(self, script: str, incident: str, *args: str) -> str:
        return decode_text(await to_coroutine(self._redis.eval(script, 1, self._names.cards_key(incident), *args)))

    async def set_retention(self, incident: str, *, closed: bool) -> None:
        """Expire a closed incident's entries; keep an open one's."""
        key = self._names.cards_key(incident)
        await to_coroutine(self._redis.expire(key, self._keep) if closed else self._redis.persist(key))


class PendingMessages:
    """Incidents with a status message that shows a running turn, by since when: finds messages of dead processes."""

    def __init__(self, redis: Redis, clock: Clock, *, names: RedisKeys | None = None) -> None:
        self._redis, self._clock, self._names = redis, clock, names or RedisKeys()

    async def add_pending(self, incident: str) -> None:
        await self._redis.zadd(self._names.living, {incident: self._clock.now().timestamp()})

    async def remove_pending(self, incident: str) -> None:
        await self._redis.zrem(self._names.living, incident)

    async def list_abandoned(self, since: timedelta) -> list[str]:
        """Return incidents pending longer than `since` without a lease."""
        before = (self._clock.now() - since).timestamp()
        rows = [decode_text(row) for row in await to_coroutine(self._redis.zrangebyscore(self._names.living, "-inf", before))]
        return [incident for incident in rows if not await self._redis.exists(self._names.lease_key(incident))]


class IdempotentPoster:
    """Posts a thread message once."""

    def __init__(self, client: AsyncWebClient, cards: PostedCards) -> None:
        self._client = client
        self._cards = cards

    async def post_once(self, origin: Origin, incident: str, name: str, card: Card, metadata: dict[str, Any]) -> str:
        """Post unless already posted; return the message's ts."""
        ts = await self._cards.claim(incident, name)
        if ts == POSTING:
            ts = await self.find_message(origin, metadata)
        elif ts:
            return ts
        ts = ts or await self._post_new(origin, incident, name, card, metadata)
        await self._cards.set(incident, name, ts)
        return ts

    async def _post_new(self, origin: Origin, incident: str, name: str, card: Card, metadata: dict[str, Any]) -> str:
        """Drop the entry of a rate-limited post: there is no message to search for."""
        try:
            return await post_message(self._client, origin.channel, origin.thread_ts, card, metadata)
        except SlackClientError as error:
            if isinstance(error, SlackTurnTimeout) or (isinstance(error, SlackApiError) and error.response["error"] == "ratelimited"):
                await self._cards.drop(incident, name)
            raise

    async def find_message(self, origin: Origin, *metadata: Mapping[str, Any]) -> str:
        """Return the ts of the message with one of these metadata."""
        for message in await self.fetch_thread(origin):
            if message.get("metadata") in metadata:
                return str(message["ts"])
        return ""

    async def fetch_thread(self, origin: Origin) -> Sequence[Mapping[str, Any]]:
        """Return the thread, oldest first."""
        found: list[Mapping[str, Any]] = []
        cursor = ""
        while True:
            answer = await self._client.conversations_replies(
                channel=origin.channel, ts=origin.thread_ts, limit=200, include_all_metadata=True, cursor=cursor or None
            )
            found += answer["messages"]
            cursor = (answer.get("response_metadata") or {}).get("next_cursor") or ""
            if not cursor:
                return found


# The message cannot be edited any more, so a new one replaces it.
UNEDITABLE_ERRORS = frozenset({"message_not_found", "cant_update_message", "edit_window_closed"})


# This Slack does not know a block of the message.
UNKNOWN_BLOCK_ERRORS = frozenset({"invalid_blocks", "invalid_blocks_format"})


class EditableMessages:
    """Messages edited when their blocks change, posted where none exists. One caller at a time per message."""

    def __init__(self, client: AsyncWebClient, cards: PostedCards, *, plans: bool = True) -> None:
        self._client, self.cards, self._plans = client, cards, plans
        self._once = IdempotentPoster(client, cards)

    async def put_message(
        self, origin: Origin, incident: str, name: str, card: Card, marked: dict[str, Any], *earlier: dict[str, Any]
    ) -> None:
        """Show this card. `earlier`: metadata it may have been posted with before a crash.

        Once Slack refuses plan blocks, this process renders them as lines.
        """
        plain = replace_plan_blocks(card)
        try:
            await self._put_card(origin, incident, name, card if self._plans else plain, marked, *earlier)
        except SlackApiError as error:
            if error.response["error"] not in UNKNOWN_BLOCK_ERRORS or not self._plans or plain == card:
                raise
            log.warning("posted_message.plans_refused", error=str(error)[:200])
            self._plans = False
            await self._put_card(origin, incident, name, plain, marked, *earlier)

    async def _put_card(
        self, origin: Origin, incident: str, name: str, card: Card, marked: dict[str, Any], *earlier: dict[str, Any]
    ) -> None:
        looks = hashlib.sha256(json.dumps(card.blocks).encode()).hexdigest()
        ts = await self.cards.get(incident, name)
        if ts == POSTING:
            ts = await self._once.find_message(origin, marked, *earlier)
        same = bool(ts) and looks == await self.cards.get(incident, f"{name}_looks")
        if not same and (not ts or not await self._try_edit(origin, ts, card, marked)):
            ts = await self._post_new(origin, incident, name, card, marked)
        await self.cards.set(incident, name, ts)
        await self.cards.set(incident, f"{name}_looks", looks)

    async def _try_edit(self, origin: Origin, ts: str, card: Card, marked: dict[str, Any]) -> bool:
        try:
            await self._client.chat_update(channel=origin.channel, ts=ts, metadata=marked, **build_message_args(card))
        except SlackApiError as error:
            if error.response["error"] not in UNEDITABLE_ERRORS:
                raise
            log.info("posted_message.posted_anew", ts=ts, error=error.response["error"])
            return False
        return True

    async def _post_new(self, origin: Origin, incident: str, name: str, card: Card, marked: dict[str, Any]) -> str:
        await self.cards.set(incident, name, POSTING)
        try:
            return await post_message(self._client, origin.channel, origin.thread_ts, card, marked)
        except SlackApiError:
            await self.cards.drop(incident, name)  # refused, so it was not posted; after a lost answer the entry stays `posting`
            raise
