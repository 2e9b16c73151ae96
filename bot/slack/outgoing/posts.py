"""Which message of Slack is which card of an incident, kept in Redis so that every process edits the same one.

A card is `posting` before it is posted and then its ts: whoever finds `posting` knows that a crash may lie between, and looks.
"""

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from redis.asyncio import Redis

POSTING = "posting"
LET_GO = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"
KEEP_CLOSED = timedelta(days=30)


class Cards:
    """One hash an incident. Names: `living`, `report:ITEM`, `ticket`, `ticket_shown`, `file`; those of actions are in `bot.slack.outgoing.approvals`,
    `bot.slack.outgoing.approval_view` and `bot.slack.outgoing.shared_cards`."""

    def __init__(self, redis: Redis, *, prefix: str = "rm", keep_closed: timedelta = KEEP_CLOSED) -> None:
        self._redis = redis
        self._prefix = prefix
        self._keep = keep_closed

    async def get(self, incident: str, name: str) -> str:
        """What the card is; empty when nothing is known of it."""
        return _text(await _awaited(self._redis.hget(self._key(incident), name)))

    async def claim(self, incident: str, name: str) -> str:
        """The same, and when nothing was known, it is `posting` from here on."""
        if await _awaited(self._redis.hsetnx(self._key(incident), name, POSTING)):
            return ""
        return await self.get(incident, name)

    async def set(self, incident: str, name: str, value: str) -> None:
        await _awaited(self._redis.hset(self._key(incident), name, value))

    async def drop(self, incident: str, name: str) -> None:
        """Nothing is known of the card any more: it was not posted."""
        await _awaited(self._redis.hdel(self._key(incident), name))

    @asynccontextmanager
    async def alone(self, incident: str, name: str, patience: timedelta = timedelta(seconds=20)) -> AsyncIterator[bool]:
        """True for one holder at a time; whoever dies over it holds it for so long. A lock of its own, for what must not be posted twice."""
        key, ours = f"{self._key(incident)}:{name}:alone", secrets.token_hex(8)
        held = bool(await _awaited(self._redis.set(key, ours, nx=True, px=patience)))
        try:
            yield held
        finally:
            if held:
                await _awaited(self._redis.eval(LET_GO, 1, key, ours))

    async def run(self, script: str, incident: str, *args: str) -> str:
        """A Lua script over what is kept of the incident, as one step; KEYS[1] is its hash."""
        return _text(await _awaited(self._redis.eval(script, 1, self._key(incident), *args)))

    async def keep(self, incident: str, *, closed: bool) -> None:
        """A closed incident's cards are forgotten after a month; an open one's never."""
        key = self._key(incident)
        await _awaited(self._redis.expire(key, self._keep) if closed else self._redis.persist(key))

    def _key(self, incident: str) -> str:
        return f"{self._prefix}:incident:{{{incident}}}:cards"


def _text(value: bytes | str | None) -> str:
    return value.decode() if isinstance(value, bytes) else value or ""


async def _awaited(answer: Any) -> Any:
    """redis-py types its answers as maybe awaitable; ours always are."""
    return await answer
