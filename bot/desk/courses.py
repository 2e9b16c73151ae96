"""How incidents went and what people thought of it, in Redis: the last ten thousand, also after the incidents themselves are gone."""

from datetime import datetime
from typing import cast

from pydantic import TypeAdapter
from redis.asyncio import Redis

from bot.desk.course import Course, Feedback, course_after
from bot.desk.desk import Board
from bot.store.keys import COURSES, COURSES_BY_AGE, FEEDBACK
from bot.tasks import awaited
from graph.ports import Progress
from graph.report import Report
from graph.state import Incident
from tools.clock import Clock

MOST = 10_000
_COURSE, _FEEDBACK = TypeAdapter(Course), TypeAdapter(Feedback)


class Courses:
    """All of them on one Redis."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def course(self, incident: str) -> Course | None:
        """None for an incident that is new here, or too old."""
        raw = await awaited(self._redis.hget(COURSES, incident))
        return _COURSE.validate_json(raw) if raw else None

    async def keep(self, incident: str, course: Course) -> None:
        """In the place of what was known; what is too much goes, the oldest first."""
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.hset(COURSES, incident, _COURSE.dump_json(course, exclude_defaults=True).decode())
            pipe.zadd(COURSES_BY_AGE, {incident: course.opened.timestamp()})
            await pipe.execute()
        old = await self._redis.zrange(COURSES_BY_AGE, 0, -MOST - 1)
        if old:
            async with self._redis.pipeline(transaction=True) as pipe:
                pipe.hdel(COURSES, *old)
                pipe.zrem(COURSES_BY_AGE, *old)
                await pipe.execute()

    async def say(self, feedback: Feedback) -> None:
        """Keep what somebody thought."""
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.lpush(FEEDBACK, _FEEDBACK.dump_json(feedback, exclude_defaults=True).decode())
            pipe.ltrim(FEEDBACK, 0, MOST - 1)
            await pipe.execute()

    async def since(self, start: datetime) -> tuple[list[Course], list[Feedback]]:
        """Incidents that were opened since then, and what was said since then."""
        named = cast(list[bytes], await self._redis.zrangebyscore(COURSES_BY_AGE, start.timestamp(), "+inf"))
        rows = await awaited(self._redis.hmget(COURSES, named)) if named else []
        said = [_FEEDBACK.validate_json(raw) for raw in await awaited(self._redis.lrange(FEEDBACK, 0, -1))]
        return [_COURSE.validate_json(raw) for raw in rows if raw], [one for one in said if one.at >= start]


def counted(board: Board, courses: Courses, clock: Clock) -> Board:
    """A board that, after each turn's report, keeps how the incident went so far."""
    return CountingBoard(board, courses, clock)


class CountingBoard:
    """Posts as before. Under the incident's lease, so a row is never written by two."""

    def __init__(self, board: Board, courses: Courses, clock: Clock) -> None:
        self._board, self._courses, self._clock = board, courses, clock

    async def progress(self, p: Progress) -> None:
        await self._board.progress(p)

    async def report(self, incident: str, state: Incident, report: Report) -> None:
        await self._board.report(incident, state, report)
        if state:
            before = await self._courses.course(incident)
            after = course_after(state, before, self._clock.now())
            if after != before:
                await self._courses.keep(incident, after)
