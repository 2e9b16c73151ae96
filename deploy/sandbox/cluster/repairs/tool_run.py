"""Where a tool of the node kit runs, and what comes of it. Pure values."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from deploy.sandbox.cluster.answer import ShellAnswer
from deploy.sandbox.cluster.machines.state import ClusterState, NodeState
from deploy.sandbox.cluster.plan import Deed


@dataclass(frozen=True, slots=True)
class Outcome:
    """`deeds` and `operation` are empty where nothing changes. `seconds`: how long it takes on the virtual clock. `reboots`: the machine goes down."""

    answer: ShellAnswer
    deeds: tuple[Deed, ...] = ()
    operation: str = ""
    gpu: int | None = None
    seconds: float = 0.2
    reboots: bool = False
    also: tuple[str, ...] = ()
    """Further operations of the same call."""

    @property
    def changes(self) -> bool:
        """Whether anything is different afterwards."""
        return bool(self.deeds or self.operation or self.reboots)


@dataclass(frozen=True, slots=True)
class ToolRun:
    """Where and when a tool is run. `node` is None on the controller. `told`: the arguments of the faults that are there, by fault."""

    world: ClusterState
    name: str
    at: float
    told: Mapping[str, Mapping[str, Any]]
    scheduler_refuses: str = ""
    seed: int = 0

    @property
    def node(self) -> NodeState | None:
        """The GPU machine it runs on."""
        return self.world.nodes.get(self.name)


Slots = Mapping[str, str]
OnNode = Callable[[NodeState, ToolRun, Slots], Outcome]
