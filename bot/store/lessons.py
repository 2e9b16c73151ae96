"""Lessons in Redis: one hash, and a number that every change counts up, by which each process notices one. A change is made to the very bytes that
were read, or not at all."""

from collections.abc import Callable
from typing import cast

from pydantic import ValidationError
from redis.asyncio import Redis

from bot.store.keys import LESSONS, LESSONS_VERSION
from bot.tasks import awaited
from kb.history.lessons import Lesson

MOST = 500
"""Rows that are kept; what is refused or retired goes first, then drafts, and never what was accepted."""

OFFER = """
if redis.call('HSETNX', KEYS[1], ARGV[1], ARGV[2]) == 0 then return 0 end
return redis.call('INCR', KEYS[2])
"""
CHANGE = """
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
return redis.call('INCR', KEYS[2])
"""
DROP = """
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
redis.call('HDEL', KEYS[1], ARGV[1])
return redis.call('INCR', KEYS[2])
"""
_GOES_FIRST = {"refused": 0, "folded": 1, "retired": 1, "draft": 2}


class Lessons:
    """All of them on one Redis."""

    def __init__(self, redis: Redis, *, most: int = MOST) -> None:
        self._redis, self._most = redis, most
        self._offer, self._change, self._drop = (redis.register_script(text) for text in (OFFER, CHANGE, DROP))

    async def version(self) -> int:
        """How many changes there were."""
        return int(await self._redis.get(LESSONS_VERSION) or 0)

    async def all(self) -> list[Lesson]:
        """Every lesson, by its id. A damaged one is passed over, and stays."""
        rows = cast(dict[bytes, bytes], await awaited(self._redis.hgetall(LESSONS)))
        return sorted((one for raw in rows.values() if (one := _read(raw)) is not None), key=lambda one: one.id)

    async def get(self, lesson: str) -> Lesson | None:
        """None for one that is not kept."""
        raw = await awaited(self._redis.hget(LESSONS, lesson))
        return _read(cast(bytes, raw)) if raw else None

    async def offer(self, lesson: Lesson) -> bool:
        """Keep it where its id is new; whether it was, and there was room."""
        if not await self._room():
            return False
        return bool(await self._offer(keys=[LESSONS, LESSONS_VERSION], args=[lesson.id, _written(lesson)]))

    async def change(self, lesson: str, change: Callable[[Lesson], Lesson]) -> Lesson | None:
        """The row as `change` makes it of what is stored at that moment; None for one that is not kept. Whatever `change` raises leaves it."""
        while True:
            raw = cast(bytes | None, await awaited(self._redis.hget(LESSONS, lesson)))
            before = _read(raw) if raw else None
            if raw is None or before is None:
                return None
            after = change(before)
            if after == before or await self._change(keys=[LESSONS, LESSONS_VERSION], args=[lesson, raw, _written(after)]):
                return after

    async def _room(self) -> bool:
        """Whether one more may be kept, once what may go has gone."""
        if await awaited(self._redis.hlen(LESSONS)) < self._most:
            return True
        rows = [one for one in await self.all() if one.state in _GOES_FIRST]
        for row in sorted(rows, key=lambda one: (_GOES_FIRST[one.state], one.settled or one.on)):
            raw = await awaited(self._redis.hget(LESSONS, row.id))
            if raw and await self._drop(keys=[LESSONS, LESSONS_VERSION], args=[row.id, raw]):
                return True
        return False


def _written(lesson: Lesson) -> str:
    return lesson.model_dump_json(exclude_defaults=True)


def _read(raw: bytes) -> Lesson | None:
    try:
        return Lesson.model_validate_json(raw)
    except ValidationError:
        return None
