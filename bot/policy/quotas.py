"""The quota of each tenant: incidents at once, mentions per hour, turns. Pure: tables and one decision.

An item over a limit waits, and its tenant is told when it continues; nothing is lost. Operators' items and requests for
a person are not limited.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from kb.schema import StrictModel

HOUR = timedelta(hours=1)
# How often to check whether an incident of the tenant has ended; its end cannot be predicted.
RECHECK_INTERVAL = timedelta(seconds=30)


class QuotaLimit(StrEnum):
    INCIDENTS = "incidents"
    MENTIONS = "mentions"


class Quota(StrictModel):
    """Limits of one tenant. `turns` is its weight in the queue: 2 is served twice as often as 1."""

    removed_fields: ClassVar[Mapping[str, str]] = {
        "look_seconds_per_hour": "bound a customer with `incidents` and `mentions_per_hour`",
        "model_usd_per_day": "bound what a model costs with RACKMEDIC_MODEL_USD_PER_INCIDENT and `incidents`",
    }

    incidents: Annotated[int, Field(ge=1)] = 10
    mentions_per_hour: Annotated[int, Field(ge=1)] = 60
    turns: Annotated[int, Field(ge=1, le=10)] = 1


# For the documentation and a file's error messages.
LIMIT_DESCRIPTIONS: Mapping[str, str] = {
    "incidents": "open incidents at once; answered or handed-over ones do not count",
    "mentions_per_hour": "messages and clicks that start checks, within an hour",
    "turns": "weight in the queue: 2 is served twice as often as 1",
}


class Quotas(StrictModel):
    """The quotas of a site: the default, and those of single tenants."""

    every: Quota = Quota()
    tenants: Mapping[str, Quota] = Field(default_factory=dict)

    def get_quota(self, tenant: str) -> Quota:
        """Return the tenant's quota, or the default. Callers exempt operators."""
        return self.tenants.get(tenant, self.every)


@dataclass(frozen=True, slots=True)
class QuotaUsage:
    """What a tenant uses now. `mentions`: start times within the last hour."""

    incidents: int = 0
    mentions: Sequence[datetime] = ()


@dataclass(frozen=True, slots=True)
class ExceededLimit:
    """The limit that a tenant exceeds. `until`: when it is free; None if that depends on other incidents."""

    limit: QuotaLimit
    until: datetime | None = None

    def get_retry_time(self, now: datetime) -> datetime:
        return self.until or now + RECHECK_INTERVAL


@dataclass(frozen=True, slots=True)
class WaitingTenant:
    """A tenant's waiting incidents, oldest first, since when, and why. `new`: those without a first turn."""

    tenant: str
    incidents: tuple[str, ...]
    since: datetime
    why: ExceededLimit
    new: frozenset[str] = frozenset()


def find_exceeded_limit(quota: Quota, used: QuotaUsage, now: datetime, *, opens: bool) -> ExceededLimit | None:
    """Return the exceeded limit, preferably one with a known end, or None. `opens`: the item is a new incident."""
    mentions = sorted(at for at in used.mentions if at > now - HOUR)
    if len(mentions) >= quota.mentions_per_hour:
        return ExceededLimit(QuotaLimit.MENTIONS, mentions[-quota.mentions_per_hour] + HOUR)
    return ExceededLimit(QuotaLimit.INCIDENTS) if opens and used.incidents >= quota.incidents else None
