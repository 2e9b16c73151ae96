"""Log lines of the kernel, units and ranks. Times are seconds from t0."""

from dataclasses import dataclass, field
from typing import Literal

Level = Literal["emerg", "alert", "crit", "err", "warn", "notice", "info", "debug"]
Boot = Literal["now", "before"]


@dataclass(frozen=True, slots=True)
class KernelLine:
    t: float
    level: Level
    text: str
    boot: Boot = "now"


@dataclass(frozen=True, slots=True)
class JournalLine:
    """One journal message of a unit."""

    t: float
    unit: str
    identifier: str
    priority: int
    text: str
    boot: Boot = "now"


@dataclass(frozen=True, slots=True)
class JobLine:
    """One line of a rank's log. `stamp`: timestamp format, either none, Python logging's, or PyTorch C++'s."""

    t: float
    text: str
    stamp: Literal["", "python", "torch"] = ""


@dataclass(slots=True)
class Rank:
    """One rank of the job and its log lines."""

    rank: int
    node: str
    local: int
    pid: int
    lines: list[JobLine] = field(default_factory=list)


@dataclass(slots=True)
class Job:
    """The incident's job: eight ranks on each node, in order. `ended` is None while it runs."""

    id: str
    started: float
    ended: float | None
    ranks: list[Rank]
    has_log: bool = True
    slow_from: float = 0.0
    slow_factor: float = 1.0
    slow_until: float | None = None
    silent_from: float | None = None
    stopped: bool = False  # ended from outside

    def of(self, node: str) -> list[Rank]:
        return [rank for rank in self.ranks if rank.node == node]
