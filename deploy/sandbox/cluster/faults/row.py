"""A fault is one decorated function: its row says what it is and what becomes of the job, its body what it does to the world."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from deploy.sandbox.cluster.faults.scene import Scene

Scope = Literal["gpu", "node", "job", "cluster", "switch", "rack"]
JobFate = Literal["runs", "slows", "hangs", "dies", "never starts"]

Act = Callable[[Scene], None]


@dataclass(frozen=True, slots=True)
class Fault:
    """A row of the catalogue. Faults of a GPU or node happen on each named node, all others once to all of them together."""

    id: str
    label: str
    title: str
    scope: Scope
    job: JobFate
    act: Act

    @property
    def once(self) -> bool:
        """Whether it happens to the named nodes together."""
        return self.scope not in ("gpu", "node")


FAULTS: dict[str, Fault] = {}
"""Every fault by id, filled by the modules of this package when `faults` is imported."""


def fault(number: str, label: str, title: str, scope: Scope, job: JobFate) -> Callable[[Act], Act]:
    """Enter the decorated function into FAULTS."""

    def enter(act: Act) -> Act:
        if number in FAULTS:
            raise ValueError(f"two faults are called {number}")
        FAULTS[number] = Fault(number, label, title, scope, job, act)
        return act

    return enter
