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
    """What one tenant may have. `turns` is how often its turn comes where several tenants wait: twice as often with 2."""

    removed_fields: ClassVar[Mapping[str, str]] = {
        "look_seconds_per_hour": "bound a customer with `incidents` and `mentions_per_hour`",
        "model_usd_per_day": "bound what a model costs with RACKMEDIC_MODEL_USD_PER_INCIDENT and `incidents`",
    }

    incidents: Annotated[int, Field(ge=1)] = 10
    mentions_per_hour: Annotated[int, Field(ge=1)] = 60
    turns: Annotated[int, Field(ge=1, le=10)] = 1


# For the documentation and a file's error messages.
LIMIT_DESCRIPTIONS: Mapping[str, str] = {
    "incidents": "their incidents in work at once; one that was handed over to your people or answered no longer counts",
    "mentions_per_hour": "messages and clicks of theirs that begin a look, within an hour",
    "turns": "how often their turn comes where several customers wait, compared with the others",
}


class Quotas(StrictModel):
    """The table of a site: what every customer may have, and those who may have something else."""

    every: Quota = Quota()
    tenants: Mapping[str, Quota] = Field(default_factory=dict)

    def get_quota(self, tenant: str) -> Quota:
        """Return the tenant's quota. Operators (no tenant) have no counted limits."""
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
