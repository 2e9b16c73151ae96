"""What the fleet remembers of hosts between looks: the boot they named last, and answers that may be used again for a while."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from tools.clock import Clock
from tools.fact import Fact
from tools.fleet.answers import CheckAnswer

NAMING_KEYS = ("gpu.bdf", "ib.bdf")
"""Facts that say what a host calls its devices."""


@dataclass(slots=True)
class _CachedAnswer:
    answer: CheckAnswer
    until: datetime


@dataclass(slots=True)
class _HostCache:
    """`generation` tells an answer begun before the host was changed from one begun after."""

    boot_id: str = ""
    generation: int = 0
    kept: dict[str, _CachedAnswer] = field(default_factory=dict)


class AnswerCache:
    """Of every host that was asked. `lifetime`: how long a passive answer may be used again on the same boot."""

    def __init__(self, clock: Clock, lifetime: timedelta) -> None:
        self._clock, self._lifetime = clock, lifetime
        self._hosts: dict[str, _HostCache] = {}

    def get_answer(self, host: str, check: str) -> CheckAnswer | None:
        """The answer as it was kept, if it still counts; it costs nothing."""
        kept = self._get_host(host).kept.get(check)
        return replace(kept.answer, cached=True, seconds=0.0) if kept and kept.until > self._clock.now() else None

    def get_generation(self, host: str) -> int:
        """To be handed to `keep` with an answer that is begun now."""
        return self._get_host(host).generation

    def put_answer(self, answer: CheckAnswer, generation: int) -> None:
        """Keep an answer, unless the host was changed while it was had."""
        row = self._get_host(answer.host)
        if row.generation == generation:
            row.kept[answer.check] = _CachedAnswer(answer, self._clock.now() + self._lifetime)

    def list_naming_facts(self, host: str) -> list[Fact]:
        """What the host's kept answers say of the names of its devices."""
        kept = self._get_host(host).kept.values()
        return [fact for row in kept for fact in row.answer.facts if fact.key in NAMING_KEYS]

    def get_boot_id(self, host: str) -> str:
        """The boot id that the host named last, "" when it never did."""
        return self._get_host(host).boot_id

    def set_boot_id(self, host: str, boot_id: str) -> None:
        """A new boot id makes everything kept from the boot before worthless."""
        row = self._get_host(host)
        if row.boot_id and row.boot_id != boot_id:
            row.kept.clear()
        row.boot_id = boot_id

    def forget_host(self, host: str) -> None:
        """Something changed on the host: nothing kept of it counts any more, nor what is being asked now."""
        row = self._get_host(host)
        row.kept.clear()
        row.generation += 1

    def invalidate_before(self, hosts: Iterable[str], since: datetime) -> None:
        """What these hosts answered before then does not count any more."""
        for row in (self._hosts[host] for host in hosts if host in self._hosts):
            row.kept = {check: kept for check, kept in row.kept.items() if kept.until - self._lifetime >= since}

    def drop_expired(self) -> None:
        """What nobody may use again is not held."""
        now = self._clock.now()
        for row in self._hosts.values():
            row.kept = {check: kept for check, kept in row.kept.items() if kept.until > now}

    def _get_host(self, host: str) -> _HostCache:
        return self._hosts.setdefault(host, _HostCache())
