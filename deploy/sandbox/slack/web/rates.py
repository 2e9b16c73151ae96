"""Rate limits: Slack's tiers as token buckets; tests can change them or force failures."""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import ceil

# calls per minute; a full bucket allows a burst of one minute's calls, as in Slack
TIER_1, TIER_2, TIER_3, TIER_4 = 1, 20, 50, 100


@dataclass(frozen=True, slots=True)
class Rate:
    per_minute: float
    burst: int
    per_channel: bool = False


def make_tier_rate(per_minute: int) -> Rate:
    return Rate(per_minute, max(per_minute, 5))


MAX_RETRY_AFTER_SECONDS = 30  # maximum Retry-After in seconds
POSTING = Rate(60, 10, per_channel=True)  # one message per second and channel, with short bursts
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
        """Set the limit of `method` ("*": all); None removes it."""
        rate = UNLIMITED if per_minute is None else Rate(per_minute, burst or max(1, ceil(per_minute)), per_channel)
        names = list(self.rules) if method == "*" else [method]
        self.rules |= dict.fromkeys(names, rate)
        self._buckets = {key: bucket for key, bucket in self._buckets.items() if key[0] not in names}

    def fail_next(self, method: str, times: int = 1, retry_after: int = 1) -> None:
        """Answer the next `times` calls with 429."""
        self._failing[method] = (times, retry_after)

    def shut(self, seconds: float) -> None:
        """Answer every method with 429 for `seconds`, as in a Slack incident."""
        self._shut_until = self.clock() + seconds

    def wait(self, method: str, channel: str) -> int:
        """Return the Retry-After in seconds, 0 if the call may pass."""
        times, retry_after = self._failing.get(method, (0, 0))
        if times:
            self._failing[method] = (times - 1, retry_after)
            return max(1, retry_after)
        if (shut := self._shut_until - self.clock()) > 0:
            return max(1, min(MAX_RETRY_AFTER_SECONDS, ceil(shut)))
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
