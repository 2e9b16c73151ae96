"""What a solver is given and what it must answer. This is the whole interface: a row of ARMS is an object with a name and `solve`.

A solver sees the ticket, an inventory and a transport. It never sees the case file, its truth or the cluster behind the transport; the
oracle alone is handed the cluster, to prove that every case can be solved.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from deploy.sandbox.cluster.doors.cluster import Cluster
from deploy.sandbox.cluster.doors.stage import CaseClock
from kb.history.incidents import PastIncident
from kb.taxonomy.taxonomy import Taxonomy
from tools.checks.check import Check
from tools.inventory.inventory import Inventory
from tools.inventory.sku import Sku
from tools.transport import Transport

if TYPE_CHECKING:
    from tests.bench.line import Line


@dataclass(frozen=True, slots=True)
class Knowledge:
    """What a solver may know beforehand. `removed` labels are in none of it: layer `unseen`."""

    taxonomy: Taxonomy
    past: tuple[PastIncident, ...]
    checks: Mapping[str, Check]
    skus: Mapping[str, Sku]
    removed: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Stage:
    """One case as a solver meets it. `cluster` is set for the oracle only, `line` where there is a language model."""

    text: str
    attachments: tuple[tuple[str, str], ...]
    inventory: Inventory
    transport: Transport
    clock: CaseClock
    knowledge: Knowledge
    cluster: Cluster | None = None
    line: "Line | None" = None

    @property
    def now(self) -> datetime:
        """When the ticket was posted."""
        return self.clock.now()


@dataclass(frozen=True, slots=True)
class Cost:
    """What an answer took. `makespan`: seconds from the first look to the last; `check_seconds`: all looks summed; both on the
    transport's clock. `gpu_seconds`: GPUs that an exclusive check had for itself, times how long."""

    makespan: float = 0.0
    check_seconds: float = 0.0
    gpu_seconds: float = 0.0
    checks: int = 0
    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    usd: float = 0.0

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(*(getattr(self, name) + getattr(other, name) for name in self.__slots__))


@dataclass(frozen=True, slots=True)
class Account:
    """What a solver says for itself, in its own words, for people who read the report. Nothing of it is marked."""

    says: str = ""
    saw: tuple[str, ...] = ()
    suspected: tuple[str, ...] = ()
    could_not_look: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """`labels`: every cause named, surest first; `NO_FAULT` or `ABSTAIN` alone otherwise. `evidence`: (check, host) pairs cited.
    `plans`: what would be done first about each cause, steps joined by " > ", with `@host` where it is one machine's. `writes`: commands
    that it asked for and that would have changed a machine; none was run. `likely`: what it calls likely and does not claim, where it
    abstains."""

    labels: tuple[str, ...]
    hosts: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    evidence: tuple[tuple[str, str], ...] = ()
    cost: Cost = field(default_factory=Cost)
    confidence: float | None = None
    plans: tuple[str, ...] = ()
    writes: int = 0
    account: Account | None = None
    likely: str = ""


class NotRun(Exception):
    """The arm cannot run here; the text says why and stands in the results in place of figures."""


class Arm(Protocol):
    """A way to solve cases."""

    async def solve(self, stage: Stage) -> Answer: ...
