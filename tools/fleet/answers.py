"""The fleet's requests and answers, with their cost, and the cache of answers by host."""

import heapq
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from tools.clock import Clock
from tools.fact import Fact

# The fleet's requests and answers, with their cost.

# concurrent checks per host, both for execution and for the makespan (`tools.ssh.client.SshLimits.sessions`)
DEFAULT_LANES = 5


@dataclass(frozen=True, slots=True)
class CheckRequest:
    """One check on one host."""

    host: str
    check: str


@dataclass(frozen=True, slots=True)
class CheckAnswer:
    """One check's facts on one host. `could_not`: why it was unobserved, or ""."""

    host: str
    check: str
    facts: tuple[Fact, ...]
    seconds: float = 0.0
    could_not: str = ""
    cached: bool = False


@dataclass(frozen=True, slots=True)
class FleetAnswers:
    """All answers of one `run_checks` and their cost. Cached answers cost nothing."""

    answers: tuple[CheckAnswer, ...] = ()
    check_seconds: float = 0.0
    makespan_seconds: float = 0.0
    exclusive_gpu_seconds: float = 0.0

    @property
    def facts(self) -> list[Fact]:
        return [fact for answer in self.answers for fact in answer.facts]

    @property
    def checks(self) -> int:
        """Checks that ran, without cached ones."""
        return sum(not answer.cached for answer in self.answers)


# called with each answer as it arrives; may be a coroutine function
AnswerCallback = Callable[[CheckAnswer], Awaitable[None] | None]


def compute_makespan(seconds: Sequence[float], lanes: int = DEFAULT_LANES) -> float:
    """Return the time for these durations on `lanes` lanes, longest first."""
    busy = [0.0] * lanes
    for length in sorted(seconds, reverse=True):
        heapq.heapreplace(busy, busy[0] + length)
    return max(busy)


# Per-host cache of boot ids and passive answers.

NAMING_KEYS = ("gpu.bdf", "ib.bdf")  # facts that name a host's devices


@dataclass(slots=True)
class _CachedAnswer:
    answer: CheckAnswer
    until: datetime


@dataclass(slots=True)
class _HostCache:
    """One host's cache. `generation` tells answers begun before a change of the host from later ones."""

    boot_id: str = ""
    generation: int = 0
    kept: dict[str, _CachedAnswer] = field(default_factory=dict)


class AnswerCache:
    """Cached answers. `lifetime` bounds their re-use on the same boot."""

    def __init__(self, clock: Clock, lifetime: timedelta) -> None:
        self._clock, self._lifetime = clock, lifetime
        self._hosts: dict[str, _HostCache] = {}

    def get_answer(self, host: str, check: str) -> CheckAnswer | None:
        """Return the cached answer with zero cost, or None."""
        cached = self._get_host(host).kept.get(check)
        return replace(cached.answer, cached=True, seconds=0.0) if cached and cached.until > self._clock.now() else None

    def get_generation(self, host: str) -> int:
        """Return the generation to pass to `put_answer`."""
        return self._get_host(host).generation

    def put_answer(self, answer: CheckAnswer, generation: int) -> None:
        """Store an answer, unless the host was changed meanwhile."""
        row = self._get_host(answer.host)
        if row.generation == generation:
            row.kept[answer.check] = _CachedAnswer(answer, self._clock.now() + self._lifetime)

    def list_naming_facts(self, host: str) -> list[Fact]:
        cached = self._get_host(host).kept.values()
        return [fact for row in cached for fact in row.answer.facts if fact.key in NAMING_KEYS]

    def get_boot_id(self, host: str) -> str:
        return self._get_host(host).boot_id

    def set_boot_id(self, host: str, boot_id: str) -> None:
        """Record the boot id; a new boot drops the old answers."""
        row = self._get_host(host)
        if row.boot_id and row.boot_id != boot_id:
            row.kept.clear()
        row.boot_id = boot_id

    def forget_host(self, host: str) -> None:
        """Drop the host's answers, also of running checks."""
        row = self._get_host(host)
        row.kept.clear()
        row.generation += 1

    def invalidate_before(self, hosts: Iterable[str], since: datetime) -> None:
        """Drop these hosts' answers older than `since`."""
        for row in (self._hosts[host] for host in hosts if host in self._hosts):
            row.kept = {check: cached for check, cached in row.kept.items() if cached.until - self._lifetime >= since}

    def drop_expired(self) -> None:
        now = self._clock.now()
        for row in self._hosts.values():
            row.kept = {check: cached for check, cached in row.kept.items() if cached.until > now}

    def _get_host(self, host: str) -> _HostCache:
        return self._hosts.setdefault(host, _HostCache())
