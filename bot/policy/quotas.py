"""The quota of each tenant: how many incidents at once, how many mentions per hour, and how often its turn comes. Pure: tables and one decision.

An item over a limit waits, and its tenant is told when it goes on; nothing that was said is lost. Items of our own people, and requests for a
person, wait for no limit.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from kb.schema import StrictModel

HOUR = timedelta(hours=1)
RECHECK_INTERVAL = timedelta(seconds=30)
"""After how long it is asked again whether an incident of the tenant has ended: nobody knows when one will."""


class QuotaLimit(StrEnum):
    """The two limits of a tenant."""

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


LIMIT_DESCRIPTIONS: Mapping[str, str] = {
    "incidents": "incidents of theirs at which we are at once; one that was handed over to your people or answered counts no more",
    "mentions_per_hour": "messages and clicks of theirs that begin a look, within an hour",
    "turns": "how often their turn comes where several customers wait, compared with the others",
}
"""What each limit means, for the page and the refusals of a file."""


class Quotas(StrictModel):
    """The table of a site: what every customer may have, and those who may have something else."""

    every: Quota = Quota()
    tenants: Mapping[str, Quota] = Field(default_factory=dict)

    def get_quota(self, tenant: str) -> Quota:
        """What this customer may have; our own people (no tenant) are bound by nothing that is counted."""
        return self.tenants.get(tenant, self.every)


@dataclass(frozen=True, slots=True)
class QuotaUsage:
    """What a tenant uses now. `mentions`: when those of the last hour began."""

    incidents: int = 0
    mentions: Sequence[datetime] = ()


@dataclass(frozen=True, slots=True)
class ExceededLimit:
    """Which limit a tenant is over. `until`: when it goes on; None where that depends on others."""

    limit: QuotaLimit
    until: datetime | None = None

    def get_retry_time(self, now: datetime) -> datetime:
        """When to ask again."""
        return self.until or now + RECHECK_INTERVAL


@dataclass(frozen=True, slots=True)
class WaitingTenant:
    """What of one customer waits for their share: its incidents, the oldest first, since when, and why. `new`: those of them in which
    nothing was begun yet."""

    tenant: str
    incidents: tuple[str, ...]
    since: datetime
    why: ExceededLimit
    new: frozenset[str] = frozenset()


def find_exceeded_limit(share: Quota, used: QuotaUsage, now: datetime, *, opens: bool) -> ExceededLimit | None:
    """The limit that an item is over now, of both the one with a known end; None where it may begin. `opens`: it is one more incident."""
    mentions = sorted(at for at in used.mentions if at > now - HOUR)
    if len(mentions) >= share.mentions_per_hour:
        return ExceededLimit(QuotaLimit.MENTIONS, mentions[-share.mentions_per_hour] + HOUR)
    return ExceededLimit(QuotaLimit.INCIDENTS) if opens and used.incidents >= share.incidents else None
