"""A renderer's input: node, job, time of the query, and the node's clock."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from deploy.sandbox.cluster.machines.log_lines import Job
from deploy.sandbox.cluster.machines.state import NodeState


@dataclass(frozen=True, slots=True)
class Query:
    """A query of one node.

    `at` is in seconds from t0; later events are not visible yet. `age` is for how many seconds a live cluster has run.
    """

    node: NodeState
    job: Job
    t0: datetime
    at: float
    age: float
    slots: Mapping[str, str]
    as_root: bool
    seed: int
    nodes: Mapping[str, NodeState] = field(default_factory=dict)  # all nodes, for measurements between them

    def clock(self, t: float) -> datetime:
        """Return a time on this node's clock, which may be wrong, in its time zone."""
        return (self.t0 + timedelta(seconds=t + self.node.skew)).astimezone(ZoneInfo(self.node.tz))

    @property
    def now(self) -> datetime:
        return self.clock(self.at)
