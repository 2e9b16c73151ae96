"""Metrics of an incident: computed from its turns and stored in Redis."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal, cast

from pydantic import TypeAdapter
from redis.asyncio import Redis

from bot.store.keys import FEEDBACK_KEY, INCIDENT_METRICS_AGE_KEY, INCIDENT_METRICS_KEY
from bot.tasks import to_coroutine
from graph.incident_view import IncidentView
from graph.report import Report
from graph.state import ABSTAIN, NO_FAULT, DiagnosisOutcome, IncidentState
from tools.clock import Clock

# Metrics of an incident that outlive it.


@dataclass(frozen=True, slots=True)
class IncidentMetrics:
    """Seconds since the opening; None for what has not happened."""

    opened: datetime
    outcome: DiagnosisOutcome | Literal[""] = ""
    labels: tuple[str, ...] = ()
    diagnosed: float | None = None  # first time that a cause, or the absence of a fault, was proven
    recovered: float | None = None  # when every remediation was proven, or a person closed it with a mended cause
    truth: str = ""  # label that a person closed or corrected it with
    closed: bool = False


@dataclass(frozen=True, slots=True)
class Feedback:
    """A later one of the same person about the same incident replaces it."""

    incident: str
    user: str
    useful: bool
    at: datetime
    reason: str = ""  # of `bot.incidents.cards.feedback.REASONS`; empty where useful
    words: str = ""
    labels: tuple[str, ...] = ()  # the diagnosis


@dataclass(frozen=True, slots=True)
class MetricsSummary:
    """Durations are in seconds."""

    incidents: int = 0
    outcomes: Mapping[str, int] = field(default_factory=dict)
    labels: Mapping[str, "LabelMetrics"] = field(default_factory=dict)
    to_diagnosis: Sequence[float] = ()
    to_recovery: Sequence[float] = ()
    checked: int = 0  # incidents with a true cause, or none, by a person's word
    right: int = 0  # of these, correctly diagnosed
    up: int = 0
    down: int = 0
    reasons: Mapping[str, int] = field(default_factory=dict)
    latest: tuple[Feedback, ...] = ()  # comments, newest first


@dataclass(frozen=True, slots=True)
class LabelMetrics:
    """How often a label was diagnosed, and how often people confirmed it."""

    diagnosed: int = 0
    checked: int = 0
    right: int = 0
    up: int = 0
    down: int = 0


MAX_LATEST_COMMENTS = 10


def update_metrics(state: IncidentState, before: IncidentMetrics | None, now: datetime) -> IncidentMetrics:
    rows = IncidentView(state)
    was = before or IncidentMetrics(rows.opened_at or now)
    seconds = max(0.0, round((now - was.opened).total_seconds(), 3))
    report, ticket = rows.report, rows.ticket
    found_now = tuple(dict.fromkeys(cause.label for cause in report.root_causes)) if report else ()
    outcome = report.outcome if report and report.outcome != "handed_off" else was.outcome
    found = outcome in ("diagnosed", "no_fault")
    truth = (ticket.true_label if ticket else "") or (rows.correction.label if rows.correction else "")
    over = rows.lifecycle == "watching" or (rows.lifecycle == "closed" and truth not in ("", NO_FAULT, ABSTAIN))
    return replace(
        was,
        outcome=outcome,
        labels=found_now or (was.labels if outcome == "no_fault" else ()),
        diagnosed=was.diagnosed if was.diagnosed is not None or not found else seconds,
        recovered=was.recovered if was.recovered is not None or not over else seconds,
        truth=truth or was.truth,
        closed=rows.lifecycle == "closed",
    )


def summarize_metrics(courses: Iterable[IncidentMetrics], feedback: Iterable[Feedback]) -> MetricsSummary:
    rows, said = list(courses), _keep_latest_feedback(feedback)
    known = [row for row in rows if row.truth not in ("", ABSTAIN)]
    labels = sorted({label for row in rows for label in row.labels} | {label for one in said for label in one.labels})
    return MetricsSummary(
        incidents=len(rows),
        outcomes=_count_by_name(row.outcome for row in rows if row.outcome),
        labels={label: _summarize_label(label, rows, said) for label in labels},
        to_diagnosis=sorted(row.diagnosed for row in rows if row.diagnosed is not None),
        to_recovery=sorted(row.recovered for row in rows if row.recovered is not None),
        checked=len(known),
        right=sum(_is_correctly_diagnosed(row) for row in known),
        up=sum(one.useful for one in said),
        down=sum(not one.useful for one in said),
        reasons=_count_by_name(one.reason for one in said if one.reason),
        latest=tuple(sorted((one for one in said if one.words), key=lambda one: one.at, reverse=True)[:MAX_LATEST_COMMENTS]),
    )


def _keep_latest_feedback(feedback: Iterable[Feedback]) -> list[Feedback]:
    return list({(one.incident, one.user): one for one in sorted(feedback, key=lambda one: one.at)}.values())


def _is_correctly_diagnosed(row: IncidentMetrics) -> bool:
    return row.outcome == "no_fault" if row.truth == NO_FAULT else any(_is_label_or_descendant(label, row.truth) for label in row.labels)


def _is_label_or_descendant(label: str, truth: str) -> bool:
    """People may name a branch of the taxonomy."""
    return label == truth or label.startswith(f"{truth}.")


def _summarize_label(label: str, rows: Sequence[IncidentMetrics], said: Sequence[Feedback]) -> LabelMetrics:
    mine = [row for row in rows if label in row.labels]
    known = [row for row in mine if row.truth not in ("", ABSTAIN)]
    votes = [one.useful for one in said if label in one.labels]
    return LabelMetrics(
        len(mine), len(known), sum(_is_label_or_descendant(label, row.truth) for row in known), sum(votes), votes.count(False)
    )


def _count_by_name(names: Iterable[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for name in names:
        found[name] = found.get(name, 0) + 1
    return dict(sorted(found.items(), key=lambda row: (-row[1], row[0])))


def percentile(sorted_values: Sequence[float], share: float) -> float | None:
    """Return the nearest-rank percentile; None without values."""
    if not sorted_values:
        return None
    return sorted_values[max(0, -(-int(share * 100) * len(sorted_values) // 100) - 1)]


# Metrics and feedback in Redis: the last ten thousand of each.

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
