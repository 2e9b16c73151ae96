"""Metrics and feedback in Redis: the last ten thousand of each."""

from datetime import datetime
from typing import cast

from pydantic import TypeAdapter
from redis.asyncio import Redis

from bot.incidents.dispatch.metrics import Feedback, IncidentMetrics, update_metrics
from bot.store.keys import FEEDBACK_KEY, INCIDENT_METRICS_AGE_KEY, INCIDENT_METRICS_KEY
from bot.tasks import to_coroutine
from graph.report import Report
from graph.state import IncidentState
from tools.clock import Clock

MAX_ENTRIES = 10_000
_METRICS_ADAPTER, _FEEDBACK_ADAPTER = TypeAdapter(IncidentMetrics), TypeAdapter(Feedback)


class IncidentMetricsStore:
    """Metrics by incident, and a list of feedback."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def load_metrics(self, incident: str) -> IncidentMetrics | None:
        """Return the metrics; None for a new or too old incident."""
        raw = await to_coroutine(self._redis.hget(INCIDENT_METRICS_KEY, incident))
        return _METRICS_ADAPTER.validate_json(raw) if raw else None

    async def save_metrics(self, incident: str, course: IncidentMetrics) -> None:
        """Store the metrics; drop the oldest beyond MAX_ENTRIES."""
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.hset(INCIDENT_METRICS_KEY, incident, _METRICS_ADAPTER.dump_json(course, exclude_defaults=True).decode())
            pipe.zadd(INCIDENT_METRICS_AGE_KEY, {incident: course.opened.timestamp()})
            await pipe.execute()
        old = await self._redis.zrange(INCIDENT_METRICS_AGE_KEY, 0, -MAX_ENTRIES - 1)
        if old:
            async with self._redis.pipeline(transaction=True) as pipe:
                pipe.hdel(INCIDENT_METRICS_KEY, *old)
                pipe.zrem(INCIDENT_METRICS_AGE_KEY, *old)
                await pipe.execute()

    async def add_feedback(self, feedback: Feedback) -> None:
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.lpush(FEEDBACK_KEY, _FEEDBACK_ADAPTER.dump_json(feedback, exclude_defaults=True).decode())
            pipe.ltrim(FEEDBACK_KEY, 0, MAX_ENTRIES - 1)
            await pipe.execute()

    async def list_since(self, start: datetime) -> tuple[list[IncidentMetrics], list[Feedback]]:
        named = cast(list[bytes], await self._redis.zrangebyscore(INCIDENT_METRICS_AGE_KEY, start.timestamp(), "+inf"))
        rows = await to_coroutine(self._redis.hmget(INCIDENT_METRICS_KEY, named)) if named else []
        said = [_FEEDBACK_ADAPTER.validate_json(raw) for raw in await to_coroutine(self._redis.lrange(FEEDBACK_KEY, 0, -1))]
        return [_METRICS_ADAPTER.validate_json(raw) for raw in rows if raw], [one for one in said if one.at >= start]


async def record_metrics(courses: IncidentMetricsStore, clock: Clock, incident: str, state: IncidentState, report: Report) -> None:
    """Update the incident's metrics after a turn: a row has one writer, the lease's holder."""
    if state:
        before = await courses.load_metrics(incident)
        after = update_metrics(state, before, clock.now())
        if after != before:
            await courses.save_metrics(incident, after)
