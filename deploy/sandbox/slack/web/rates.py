"""How often each method may be called: Slack's tiers as token buckets, each able to be changed or made to fail in a test."""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import ceil

TIER_1, TIER_2, TIER_3, TIER_4 = 1, 20, 50, 100
"""Calls a minute. A bucket starts full, so a burst of one minute's worth passes, as it does in Slack."""


@dataclass(frozen=True, slots=True)
class Rate:
    per_minute: float
    burst: int
    per_channel: bool = False


def tier(per_minute: int) -> Rate:
    return Rate(per_minute, max(per_minute, 5))


MOST_WAIT = 30
"""Seconds that a Retry-After names at most here."""
POSTING = Rate(60, 10, per_channel=True)
"""One message a second in a channel, short bursts allowed."""
UNLIMITED = Rate(1e9, 10**9)


@dataclass(slots=True)
class Bucket:
    left: float
    at: float


@dataclass
class Rates:
    clock: Callable[[], float]
    rules: dict[str, Rate]
    _buckets: dict[tuple[str, str], Bucket] = field(default_factory=dict)
    _failing: dict[str, tuple[int, int]] = field(default_factory=dict)
    _shut_until: float = 0.0

    def set(self, method: str, per_minute: float | None, burst: int | None = None, per_channel: bool = False) -> None:
        """Another limit for `method` ("*": for all of them); None: no limit at all."""
        rate = UNLIMITED if per_minute is None else Rate(per_minute, burst or max(1, ceil(per_minute)), per_channel)
        names = list(self.rules) if method == "*" else [method]
        self.rules |= dict.fromkeys(names, rate)
        self._buckets = {key: bucket for key, bucket in self._buckets.items() if key[0] not in names}

    def fail_next(self, method: str, times: int = 1, retry_after: int = 1) -> None:
        """Answer the next `times` calls with 429, whatever the bucket says."""
        self._failing[method] = (times, retry_after)

    def shut(self, seconds: float) -> None:
        """Every method answers 429 for so long, as in an incident of Slack's own."""
        self._shut_until = self.clock() + seconds

    def wait(self, method: str, channel: str) -> int:
        """Seconds to put in Retry-After; 0 when the call may pass."""
        times, retry_after = self._failing.get(method, (0, 0))
        if times:
            self._failing[method] = (times - 1, retry_after)
            return max(1, retry_after)
        if (shut := self._shut_until - self.clock()) > 0:
            return max(1, min(MOST_WAIT, ceil(shut)))
        rate = self.rules[method]
        bucket = self._refilled((method, channel if rate.per_channel else ""), rate)
        if bucket.left < 1:
            return max(1, ceil((1 - bucket.left) * 60 / rate.per_minute))
        bucket.left -= 1
        return 0

    def _refilled(self, key: tuple[str, str], rate: Rate) -> Bucket:
        now = self.clock()
        bucket = self._buckets.setdefault(key, Bucket(rate.burst, now))
        bucket.left = min(rate.burst, bucket.left + (now - bucket.at) * rate.per_minute / 60)
        bucket.at = now
        return bucket
