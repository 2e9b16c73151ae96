"""What the fleet remembers of hosts between looks: the boot they named last, and answers that may be used again for a while."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from tools.clock import Clock
from tools.fact import Fact
from tools.fleet.answers import Answer

NAMING = ("gpu.bdf", "ib.bdf")
"""Facts that say what a host calls its devices."""


@dataclass(slots=True)
class _Kept:
    answer: Answer
    until: datetime


@dataclass(slots=True)
class _Host:
    """`generation` tells an answer begun before the host was changed from one begun after."""

    boot_id: str = ""
    generation: int = 0
    kept: dict[str, _Kept] = field(default_factory=dict)


class Memory:
    """Of every host that was asked. `lifetime`: how long a passive answer may be used again on the same boot."""

    def __init__(self, clock: Clock, lifetime: timedelta) -> None:
        self._clock, self._lifetime = clock, lifetime
        self._hosts: dict[str, _Host] = {}

    def recall(self, host: str, check: str) -> Answer | None:
        """The answer as it was kept, if it still counts; it costs nothing."""
        kept = self._of(host).kept.get(check)
        return replace(kept.answer, cached=True, seconds=0.0) if kept and kept.until > self._clock.now() else None

    def generation(self, host: str) -> int:
        """To be handed to `keep` with an answer that is begun now."""
        return self._of(host).generation

    def keep(self, answer: Answer, generation: int) -> None:
        """Keep an answer, unless the host was changed while it was had."""
        row = self._of(answer.host)
        if row.generation == generation:
            row.kept[answer.check] = _Kept(answer, self._clock.now() + self._lifetime)

    def names(self, host: str) -> list[Fact]:
        """What the host's kept answers say of the names of its devices."""
        kept = self._of(host).kept.values()
        return [fact for row in kept for fact in row.answer.facts if fact.key in NAMING]

    def boot(self, host: str) -> str:
        """The boot id that the host named last, "" when it never did."""
        return self._of(host).boot_id

    def booted(self, host: str, boot_id: str) -> None:
        """A new boot id makes everything kept from the boot before worthless."""
        row = self._of(host)
        if row.boot_id and row.boot_id != boot_id:
            row.kept.clear()
        row.boot_id = boot_id

    def forget(self, host: str) -> None:
        """Something changed on the host: nothing kept of it counts any more, nor what is being asked now."""
        row = self._of(host)
        row.kept.clear()
        row.generation += 1

    def outdate(self, hosts: Iterable[str], since: datetime) -> None:
        """What these hosts answered before then does not count any more."""
        for row in (self._hosts[host] for host in hosts if host in self._hosts):
            row.kept = {check: kept for check, kept in row.kept.items() if kept.until - self._lifetime >= since}

    def drop_old(self) -> None:
        """What nobody may use again is not held."""
        now = self._clock.now()
        for row in self._hosts.values():
            row.kept = {check: kept for check, kept in row.kept.items() if kept.until > now}

    def _of(self, host: str) -> _Host:
        return self._hosts.setdefault(host, _Host())
