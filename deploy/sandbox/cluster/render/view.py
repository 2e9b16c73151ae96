"""What a renderer is given: one node, the job, the time at which it is looked at, and how that node writes times."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from deploy.sandbox.cluster.machines.lines import Job
from deploy.sandbox.cluster.machines.state import NodeState


@dataclass(frozen=True, slots=True)
class View:
    """A look at one node. `at`: seconds from t0; what happens later is not visible yet. `age`: how long a live cluster has run for."""

    node: NodeState
    job: Job
    t0: datetime
    at: float
    age: float
    slots: Mapping[str, str]
    as_root: bool
    seed: int
    nodes: Mapping[str, NodeState] = field(default_factory=dict)
    """All nodes, for what is measured between them."""

    def clock(self, t: float) -> datetime:
        """A time as this node's (perhaps wrong) clock has it, in its own time zone."""
        return (self.t0 + timedelta(seconds=t + self.node.skew)).astimezone(ZoneInfo(self.node.tz))

    @property
    def now(self) -> datetime:
        """This node's idea of now."""
        return self.clock(self.at)
