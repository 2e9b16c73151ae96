"""What to simulate: nodes, faults and actions, as frozen values made from a case, a page or remedies."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class InjectedFault:
    """A fault of the catalogue on some nodes from a time on.

    `at`: seconds from t0, negative for the past. `key`: separates the fault's random draws from those of others.
    `after`: number of earlier actions. `ended`: time since which only the fault's log lines remain. `jobs`: the fault is
    hidden and returns with that many later runs of the job.
    """

    fault: str
    nodes: tuple[str, ...]
    at: float
    gpus: tuple[int, ...] = ()
    args: Mapping[str, Any] = field(default_factory=dict)
    key: str = ""
    after: int = 0
    ended: float | None = None
    jobs: int = 0


ActionKind = Literal[
    "boot", "built", "cancel", "configured", "down", "drain", "fabricmanager", "gpu_reset", "hold", "inhibit", "job", "kill", "mark", "mig_leaves",
    "module", "nothing", "persistence", "power_limit", "resume", "reuse", "scar", "service",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class MachineAction:
    """An action on a machine (or on the job if `node` is empty) by a remedy, an admin or an accident. `at` as in
    InjectedFault. The plan keeps actions in order; `simulation/actions.py` implements them.
    """

    kind: ActionKind
    node: str
    at: float
    args: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Modifier:
    """A control (H…) or a difficulty (R…): `ID(key=value, …)@host`."""

    id: str
    args: Mapping[str, str] = field(default_factory=dict)
    host: str = ""

    def whole(self, name: str, default: int) -> int:
        """Return an integer argument, or the default if it is missing or malformed."""
        text = self.args.get(name, "")
        return int(text) if text.lstrip("-").isdigit() else default


@dataclass(frozen=True, slots=True)
class Plan:
    """The input of `world.build`. `age`: seconds the cluster has run since its clock started."""

    profile: str
    names: tuple[str, ...]
    seed: int
    injected_faults: tuple[InjectedFault, ...] = ()
    modifiers: tuple[Modifier, ...] = ()
    job: str = ""
    age: float = 0.0
    actions: tuple[MachineAction, ...] = ()
    controller: str = ""
    reported_job: str = ""  # the ticket's job id, if it names one

    def of(self, *ids: str) -> tuple[Modifier, ...]:
        return tuple(modifier for modifier in self.modifiers if modifier.id in ids)
