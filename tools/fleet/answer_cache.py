"""Per-host cache of boot ids and passive answers."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from tools.clock import Clock
from tools.fact import Fact
from tools.fleet.answers import CheckAnswer

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
    answers: dict[str, _CachedAnswer] = field(default_factory=dict)


class AnswerCache:
    """Cached answers. `lifetime` bounds their re-use on the same boot."""

    def __init__(self, clock: Clock, lifetime: timedelta) -> None:
        self._clock = clock
        self._lifetime = lifetime
        self._hosts: dict[str, _HostCache] = {}

    def get_answer(self, host: str, check: str) -> CheckAnswer | None:
        """Return the cached answer with zero cost, or None."""
        cached = self._get_host(host).answers.get(check)
        return replace(cached.answer, cached=True, seconds=0.0) if cached and cached.until > self._clock.now() else None

    def get_generation(self, host: str) -> int:
        """Return the generation to pass to `put_answer`."""
        return self._get_host(host).generation

    def put_answer(self, answer: CheckAnswer, generation: int) -> None:
        """Store an answer, unless the host was changed meanwhile."""
        host_cache = self._get_host(answer.host)
        if host_cache.generation == generation:
            host_cache.answers[answer.check] = _CachedAnswer(answer, self._clock.now() + self._lifetime)

    def list_naming_facts(self, host: str) -> list[Fact]:
        cached_answers = self._get_host(host).answers.values()
        return [fact for cached_answers in cached_answers for fact in cached_answers.answer.facts if fact.key in NAMING_KEYS]

    def get_boot_id(self, host: str) -> str:
        return self._get_host(host).boot_id

    def set_boot_id(self, host: str, boot_id: str) -> None:
        """Record the boot id; a new boot drops the old answers."""
        host_cache = self._get_host(host)
        if host_cache.boot_id and host_cache.boot_id != boot_id:
            host_cache.answers.clear()
        host_cache.boot_id = boot_id

    def forget_host(self, host: str) -> None:
        """Drop the host's answers, also of running checks."""
        host_cache = self._get_host(host)
        host_cache.answers.clear()
        host_cache.generation += 1

    def invalidate_before(self, hosts: Iterable[str], since: datetime) -> None:
        """Drop these hosts' answers older than `since`."""
        for host_cache in (self._hosts[host] for host in hosts if host in self._hosts):
            host_cache.answers = {check: cached for check, cached in host_cache.answers.items() if cached.until - self._lifetime >= since}

    def drop_expired(self) -> None:
        now = self._clock.now()
        for host_cache in self._hosts.values():
            host_cache.answers = {check: cached for check, cached in host_cache.answers.items() if cached.until > now}

    def _get_host(self, host: str) -> _HostCache:
        return self._hosts.setdefault(host, _HostCache())
