"""A fault is one decorated function: the decorator describes it, the body changes the simulated state."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from deploy.sandbox.cluster.faults.context import FaultContext

Scope = Literal["gpu", "node", "job", "cluster", "switch", "rack"]
JobFate = Literal["runs", "slows", "hangs", "dies", "never starts"]

FaultFunction = Callable[[FaultContext], None]


@dataclass(frozen=True, slots=True)
class Fault:
    """A catalogue row. Faults of a GPU or node happen on each named node, all others once for all named nodes together."""

    id: str
    label: str
    title: str
    scope: Scope
    job: JobFate
    act: FaultFunction

    @property
    def once(self) -> bool:
        return self.scope not in ("gpu", "node")


FAULTS: dict[str, Fault] = {}  # filled by the modules of this package on import


def register_fault(number: str, label: str, title: str, scope: Scope, job: JobFate) -> Callable[[FaultFunction], FaultFunction]:
    """Register the decorated function in FAULTS. Raises ValueError for a duplicate id."""

    def enter(act: FaultFunction) -> FaultFunction:
        if number in FAULTS:
            raise ValueError(f"two faults are called {number}")
        FAULTS[number] = Fault(number, label, title, scope, job, act)
        return act

    return enter
