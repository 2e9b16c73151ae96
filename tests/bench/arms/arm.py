"""The arms' interface: inputs and answer of `solve`.

A solver sees the ticket, an inventory and a transport, never the case file, its truth or the cluster. Only the oracle
gets the cluster, to prove that every case is solvable.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from deploy.sandbox.cluster.access.case_run import CaseClock
from deploy.sandbox.cluster.access.cluster import Cluster
from kb.history.incidents import PastIncident
from kb.taxonomy.taxonomy import Taxonomy
from tools.checks.check_types import Check
from tools.inventory.inventory import Inventory
from tools.inventory.sku import Sku
from tools.transport import Transport

if TYPE_CHECKING:
    from tests.bench.model.endpoint import Line


@dataclass(frozen=True, slots=True)
class Knowledge:
    """A solver's prior knowledge. `removed` labels occur in none of it (layer `unseen`)."""

    taxonomy: Taxonomy
    past: tuple[PastIncident, ...]
    checks: Mapping[str, Check]
    skus: Mapping[str, Sku]
    removed: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Stage:
    """A case's inputs. `cluster` is set for the oracle only, `line` if there is a model."""

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
        """Return the time of the ticket."""
        return self.clock.now()


@dataclass(frozen=True, slots=True)
class Cost:
    """An answer's cost. `makespan`: seconds from first to last check; `check_seconds`: sum of all checks; both on the
    transport's clock. `gpu_seconds`: GPUs times seconds of exclusive checks.
    """

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
    """The solver's reasons in its own words, for readers of the report. Not marked."""

    says: str = ""
    saw: tuple[str, ...] = ()
    suspected: tuple[str, ...] = ()
    could_not_look: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """`labels`: named causes, surest first, or only `NO_FAULT` or `ABSTAIN`. `evidence`: cited (check, host) pairs.
    `plans`: first steps per cause, joined by " > ", with `@host` for one machine's. `writes`: requested commands
    that would change a machine; none was run. `likely`: a likely cause that it does not claim when it abstains.
    """

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
    async def solve(self, stage: Stage) -> Answer: ...
