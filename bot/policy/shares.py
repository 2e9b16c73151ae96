"""How much one customer may ask of us at a time, and what somebody over it waits for. Pure: tables and one decision.

Whoever is over a limit waits and is told until when; nothing that was said is lost. Our own people, and whoever asks for a person, wait for
no limit. The budget for the model is no reason to wait: rules decide alone until it is there again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from kb.shapes import StrictModel

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
LOOK_AGAIN = timedelta(seconds=30)
"""After how long it is asked again whether an incident of theirs has ended: nobody knows when one will."""


class Limit(StrEnum):
    """What there is a share of. `MODEL` lets nobody wait."""

    INCIDENTS = "incidents"
    MENTIONS = "mentions"
    LOOKING = "looking"
    MODEL = "model"


class Share(StrictModel):
    """What one customer may have. `turns` is how often their turn comes where several customers wait: twice as often with 2."""

    incidents: Annotated[int, Field(ge=1)] = 10
    mentions_per_hour: Annotated[int, Field(ge=1)] = 60
    look_seconds_per_hour: Annotated[float, Field(gt=0)] = 3600.0
    model_usd_per_day: Annotated[float, Field(ge=0)] = 2.0
    turns: Annotated[int, Field(ge=1, le=10)] = 1


WORDS: Mapping[str, str] = {
    "incidents": "incidents of theirs at which we are at once; one that was handed over to your people or answered counts no more",
    "mentions_per_hour": "messages and clicks of theirs that begin a look, within an hour",
    "look_seconds_per_hour": "seconds that looks at their machines took, within an hour, all of them added up",
    "model_usd_per_day": "dollars that a model may cost for their incidents within a day of UTC; past it rules decide alone",
    "turns": "how often their turn comes where several customers wait, compared with the others",
}
"""What each limit means, for the page and the refusals of a file."""


class Shares(StrictModel):
    """The table of a site: what every customer may have, and those who may have something else."""

    every: Share = Share()
    tenants: Mapping[str, Share] = Field(default_factory=dict)

    def of(self, tenant: str) -> Share:
        """What this customer may have; our own people (no tenant) are bound by nothing that is counted."""
        return self.tenants.get(tenant, self.every)


@dataclass(frozen=True, slots=True)
class ShareUsed:
    """What a customer has of it now. `mentions`: when the ones of the last hour began; `looks`: when those ended, and their seconds."""

    incidents: int = 0
    mentions: Sequence[datetime] = ()
    looks: Sequence[tuple[datetime, float]] = ()
    usd: float = 0.0


@dataclass(frozen=True, slots=True)
class Over:
    """Which limit somebody is over. `until`: when it goes on; None where that is up to others. `waits`: whether anything waits for it."""

    limit: Limit
    until: datetime | None = None
    waits: bool = True

    def again_at(self, now: datetime) -> datetime:
        """When to ask again."""
        return self.until or now + LOOK_AGAIN


@dataclass(frozen=True, slots=True)
class TenantWaits:
    """What of one customer waits for their share: its incidents, the oldest first, since when, and why. `new`: those of them in which
    nothing was begun yet."""

    tenant: str
    incidents: tuple[str, ...]
    since: datetime
    why: Over
    new: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ShareAsked:
    """What is wanted. `opens`: it would be one more incident; `ours`: our own people want it too, or a person was asked for."""

    opens: bool = False
    ours: bool = False


def over(share: Share, used: ShareUsed, asked: ShareAsked, now: datetime) -> Over | None:
    """The limit that stands against it now, of several the one that lasts longest; None where it may begin."""
    if asked.ours:
        return None
    mentions = _room_at(share.mentions_per_hour, [(at, 1.0) for at in used.mentions], now, full=1.0)
    looks = _room_at(share.look_seconds_per_hour, used.looks, now, full=0.0)
    timed = [Over(limit, at) for limit, at in ((Limit.MENTIONS, mentions), (Limit.LOOKING, looks)) if at is not None]
    if timed:
        return max(timed, key=lambda one: one.until or now)
    if asked.opens and used.incidents >= share.incidents:
        return Over(Limit.INCIDENTS)
    if used.usd >= share.model_usd_per_day:
        return Over(Limit.MODEL, tomorrow(now), waits=False)
    return None


def tomorrow(now: datetime) -> datetime:
    """When the next day of UTC begins."""
    return datetime(now.year, now.month, now.day, tzinfo=now.tzinfo) + DAY


def _room_at(most: float, spent: Sequence[tuple[datetime, float]], now: datetime, *, full: float) -> datetime | None:
    """When so much of the last hour's spending is over that `full` more fits (of what has no size yet: that something does); None if now."""
    rows = sorted((at, size) for at, size in spent if at > now - HOUR)
    left = sum(size for _, size in rows)
    for at, size in [(now - HOUR, 0.0), *rows]:
        left -= size
        if left + full <= most and (full or left < most):
            return None if at <= now - HOUR else at + HOUR
    return None
