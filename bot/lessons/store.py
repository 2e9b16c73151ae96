"""Lessons in Redis: one hash, and a version by which processes notice changes.

Changes are compare-and-set on the stored bytes.
"""

from collections.abc import Callable
from typing import cast

from pydantic import ValidationError
from redis.asyncio import Redis

from bot.store.keys import LESSONS_KEY, LESSONS_VERSION_KEY
from bot.tasks import to_coroutine
from kb.history.lessons import Lesson

MAX_LESSONS = 500  # above it refused go first, then folded and retired, then drafts; accepted never

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
    def __init__(self, redis: Redis, *, max_lessons: int = MAX_LESSONS) -> None:
        self._redis = redis
        self._max_lessons = max_lessons
        self._offer, self._change, self._drop = (redis.register_script(text) for text in (OFFER_SCRIPT, CHANGE_SCRIPT, DROP_SCRIPT))

    async def get_version(self) -> int:
        return int(await self._redis.get(LESSONS_VERSION_KEY) or 0)

    async def list_lessons(self) -> list[Lesson]:
        """Return lessons by id; unreadable ones are skipped but kept."""
        rows = cast(dict[bytes, bytes], await to_coroutine(self._redis.hgetall(LESSONS_KEY)))
        return sorted((lesson for raw in rows.values() if (lesson := _parse_lesson(raw)) is not None), key=lambda one: one.id)

    async def get_lesson(self, lesson: str) -> Lesson | None:
        raw = await to_coroutine(self._redis.hget(LESSONS_KEY, lesson))
        return _parse_lesson(cast(bytes, raw)) if raw else None

    async def add_lesson(self, lesson: Lesson) -> bool:
        """Add a lesson; False if known or full."""
        if not await self._make_room():
            return False
        return bool(await self._offer(keys=[LESSONS_KEY, LESSONS_VERSION_KEY], args=[lesson.id, _serialize_lesson(lesson)]))

    async def update_lesson(self, lesson: str, change: Callable[[Lesson], Lesson]) -> Lesson | None:
        """Apply `change` atomically; None if missing. Its error leaves the lesson unchanged."""
        while True:
            raw = cast(bytes | None, await to_coroutine(self._redis.hget(LESSONS_KEY, lesson)))
            before = _parse_lesson(raw) if raw else None
            if raw is None or before is None:
                return None
            after = change(before)
            if after == before or await self._change(keys=[LESSONS_KEY, LESSONS_VERSION_KEY], args=[lesson, raw, _serialize_lesson(after)]):
                return after

    async def _make_room(self) -> bool:
        if await to_coroutine(self._redis.hlen(LESSONS_KEY)) < self._max_lessons:
            return True
        rows = [lesson for lesson in await self.list_lessons() if lesson.state in _DROP_ORDER]
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
