"""A node kit tool's environment and outcome."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from deploy.sandbox.cluster.answer import ShellAnswer
from deploy.sandbox.cluster.machines.state import ClusterState, NodeState
from deploy.sandbox.cluster.plan import MachineAction


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """What a tool prints and what it changes on the machine.

    `actions` and `operation` are empty if nothing changes. `seconds` is the virtual duration. `reboots` says that the
    machine goes down.
    """

    answer: ShellAnswer
    actions: tuple[MachineAction, ...] = ()
    operation: str = ""
    gpu: int | None = None
    seconds: float = 0.2
    reboots: bool = False
    further_operations: tuple[str, ...] = ()  # further operations of the same call

    @property
    def changes(self) -> bool:
        return bool(self.actions or self.operation or self.reboots)


@dataclass(frozen=True, slots=True)
class ToolRun:
    """Where and when a tool runs.

    `node` is None on the controller. `fault_args` holds the arguments of the active faults by fault id.
    """

    world: ClusterState
    name: str
    at: float
    fault_args: Mapping[str, Mapping[str, Any]]
    scheduler_refuses: str = ""
    seed: int = 0

    @property
    def node(self) -> NodeState | None:
        return self.world.nodes.get(self.name)


Slots = Mapping[str, str]
NodeTool = Callable[[NodeState, ToolRun, Slots], ToolOutcome]
