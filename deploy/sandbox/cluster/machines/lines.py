"""What gets written: by the kernel, by units, and by the ranks of the incident's job. Times are seconds from t0."""

from dataclasses import dataclass, field
from typing import Literal

Level = Literal["emerg", "alert", "crit", "err", "warn", "notice", "info", "debug"]
Boot = Literal["now", "before"]


@dataclass(frozen=True, slots=True)
class KernelLine:
    """One kernel message."""

    t: float
    level: Level
    text: str
    boot: Boot = "now"


@dataclass(frozen=True, slots=True)
class JournalLine:
    """One message of a unit in the journal."""

    t: float
    unit: str
    identifier: str
    priority: int
    text: str
    boot: Boot = "now"


@dataclass(frozen=True, slots=True)
class JobLine:
    """One line of a rank's log. `stamp` says how its writer prints the time: not at all, as Python's logging does, or as PyTorch's C++ does."""

    t: float
    text: str
    stamp: Literal["", "python", "torch"] = ""


@dataclass(slots=True)
class Rank:
    """One rank of the job and what it wrote."""

    rank: int
    node: str
    local: int
    pid: int
    lines: list[JobLine] = field(default_factory=list)


@dataclass(slots=True)
class Job:
    """The incident's job. It runs on every listed node, eight ranks each, in order. `ended` is None while it runs."""

    id: str
    started: float
    ended: float | None
    ranks: list[Rank]
    has_log: bool = True
    slow_from: float = 0.0
    slow_factor: float = 1.0
    slow_until: float | None = None
    silent_from: float | None = None
    stopped: bool = False
    """Somebody or something outside it ended it, not a fault of its own."""

    def of(self, node: str) -> list[Rank]:
        """The ranks on one node."""
        return [rank for rank in self.ranks if rank.node == node]
