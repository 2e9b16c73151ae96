"""Metrics and feedback of incidents in Redis. The last ten thousand of each are kept."""

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
    """Stores the metrics of each incident, and people's feedback."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def load_metrics(self, incident: str) -> IncidentMetrics | None:
        """Return the metrics. Return None for an incident that is new or too old."""
        raw = await to_coroutine(self._redis.hget(INCIDENT_METRICS_KEY, incident))
        return _METRICS_ADAPTER.validate_json(raw) if raw else None

    async def save_metrics(self, incident: str, metrics: IncidentMetrics) -> None:
        """Store the metrics, and drop the oldest ones beyond MAX_ENTRIES."""
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.hset(INCIDENT_METRICS_KEY, incident, _METRICS_ADAPTER.dump_json(metrics, exclude_defaults=True).decode())
            pipe.zadd(INCIDENT_METRICS_AGE_KEY, {incident: metrics.opened.timestamp()})
            await pipe.execute()
        oldest = await self._redis.zrange(INCIDENT_METRICS_AGE_KEY, 0, -MAX_ENTRIES - 1)
        if oldest:
            async with self._redis.pipeline(transaction=True) as pipe:
                pipe.hdel(INCIDENT_METRICS_KEY, *oldest)
                pipe.zrem(INCIDENT_METRICS_AGE_KEY, *oldest)
                await pipe.execute()

    async def add_feedback(self, feedback: Feedback) -> None:
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.lpush(FEEDBACK_KEY, _FEEDBACK_ADAPTER.dump_json(feedback, exclude_defaults=True).decode())
            pipe.ltrim(FEEDBACK_KEY, 0, MAX_ENTRIES - 1)
            await pipe.execute()

    async def list_since(self, start: datetime) -> tuple[list[IncidentMetrics], list[Feedback]]:
        """Return the metrics of incidents that were opened since then, and the feedback given since then."""
        incidents = cast(list[bytes], await self._redis.zrangebyscore(INCIDENT_METRICS_AGE_KEY, start.timestamp(), "+inf"))
        stored_metrics = await to_coroutine(self._redis.hmget(INCIDENT_METRICS_KEY, incidents)) if incidents else []
        metrics = [_METRICS_ADAPTER.validate_json(raw) for raw in stored_metrics if raw]
        stored_feedback = await to_coroutine(self._redis.lrange(FEEDBACK_KEY, 0, -1))
        feedback = [_FEEDBACK_ADAPTER.validate_json(raw) for raw in stored_feedback]
        return metrics, [entry for entry in feedback if entry.at >= start]


async def record_metrics(metrics_store: IncidentMetricsStore, clock: Clock, incident: str, state: IncidentState, report: Report) -> None:
    """Update the incident's metrics after a turn. Only the holder of the incident's lease calls this."""
    if state:
        before = await metrics_store.load_metrics(incident)
        after = update_metrics(state, before, clock.now())
        if after != before:
            await metrics_store.save_metrics(incident, after)
