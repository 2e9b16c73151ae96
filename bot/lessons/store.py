"""Lessons in Redis: one hash, and a number that every change counts up, by which each process notices one. A change is made to the very bytes that
were read, or not at all."""

from collections.abc import Callable
from typing import cast

from pydantic import ValidationError
from redis.asyncio import Redis

from bot.store.keys import LESSONS_KEY, LESSONS_VERSION_KEY
from bot.tasks import to_coroutine
from kb.history.lessons import Lesson

MAX_LESSONS = 500
"""Rows that are kept; what is refused or retired goes first, then drafts, and never what was accepted."""

OFFER_SCRIPT = """
if redis.call('HSETNX', KEYS[1], ARGV[1], ARGV[2]) == 0 then return 0 end
return redis.call('INCR', KEYS[2])
"""
CHANGE_SCRIPT = """
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
return redis.call('INCR', KEYS[2])
"""
DROP_SCRIPT = """
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
redis.call('HDEL', KEYS[1], ARGV[1])
return redis.call('INCR', KEYS[2])
"""
_DROP_ORDER = {"refused": 0, "folded": 1, "retired": 1, "draft": 2}


class LessonStore:
    """All of them on one Redis."""

    def __init__(self, redis: Redis, *, most: int = MAX_LESSONS) -> None:
        self._redis, self._most = redis, most
        self._offer, self._change, self._drop = (redis.register_script(text) for text in (OFFER_SCRIPT, CHANGE_SCRIPT, DROP_SCRIPT))

    async def get_version(self) -> int:
        """How many changes there were."""
        return int(await self._redis.get(LESSONS_VERSION_KEY) or 0)

    async def list_lessons(self) -> list[Lesson]:
        """Every lesson, by its id. A damaged one is passed over, and stays."""
        rows = cast(dict[bytes, bytes], await to_coroutine(self._redis.hgetall(LESSONS_KEY)))
        return sorted((one for raw in rows.values() if (one := _parse_lesson(raw)) is not None), key=lambda one: one.id)

    async def get_lesson(self, lesson: str) -> Lesson | None:
        """None for one that is not kept."""
        raw = await to_coroutine(self._redis.hget(LESSONS_KEY, lesson))
        return _parse_lesson(cast(bytes, raw)) if raw else None

    async def add_lesson(self, lesson: Lesson) -> bool:
        """Keep it where its id is new; whether it was, and there was room."""
        if not await self._make_room():
            return False
        return bool(await self._offer(keys=[LESSONS_KEY, LESSONS_VERSION_KEY], args=[lesson.id, _serialize_lesson(lesson)]))

    async def update_lesson(self, lesson: str, change: Callable[[Lesson], Lesson]) -> Lesson | None:
        """The row as `change` makes it of what is stored at that moment; None for one that is not kept. Whatever `change` raises leaves it."""
        while True:
            raw = cast(bytes | None, await to_coroutine(self._redis.hget(LESSONS_KEY, lesson)))
            before = _parse_lesson(raw) if raw else None
            if raw is None or before is None:
                return None
            after = change(before)
            if after == before or await self._change(keys=[LESSONS_KEY, LESSONS_VERSION_KEY], args=[lesson, raw, _serialize_lesson(after)]):
                return after

    async def _make_room(self) -> bool:
        """Whether one more may be kept, once what may go has gone."""
        if await to_coroutine(self._redis.hlen(LESSONS_KEY)) < self._most:
            return True
        rows = [one for one in await self.list_lessons() if one.state in _DROP_ORDER]
        for row in sorted(rows, key=lambda one: (_DROP_ORDER[one.state], one.settled or one.on)):
            raw = await to_coroutine(self._redis.hget(LESSONS_KEY, row.id))
            if raw and await self._drop(keys=[LESSONS_KEY, LESSONS_VERSION_KEY], args=[row.id, raw]):
                return True
        return False


def _serialize_lesson(lesson: Lesson) -> str:
    return lesson.model_dump_json(exclude_defaults=True)


def _parse_lesson(raw: bytes) -> Lesson | None:
    try:
        return Lesson.model_validate_json(raw)
    except ValidationError:
        return None
