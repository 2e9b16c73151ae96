"""The simulated cluster through time: a plan that grows, and the world it makes at a moment. Nothing here knows a command."""

import hashlib
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

from deploy.sandbox.cluster.machines.state import ClusterState
from deploy.sandbox.cluster.plan import Happening, Plan
from deploy.sandbox.cluster.simulation import world as worlds

PACE = 0.02
"""Real seconds in a virtual one where a remedy takes its time: a reboot of fifteen minutes is over in eighteen seconds."""


class NoSuchThing(ValueError):
    """Something that cannot be done here: unknown fault, node or GPU, or not now. The message says what there is."""


class Simulation:
    """With a clock it is live: its t0 is the present minute; without one its t0 stands still."""

    def __init__(self, plan: Plan, *, t0: datetime, clock: Callable[[], datetime] | None, pace: float) -> None:
        self.pace = pace
        self._plan, self._started, self._clock = plan, t0, clock
        self._first = plan
        self._built: dict[tuple[object, ...], ClusterState] = {}
        self._watchers: list[Callable[[], None]] = []

    @property
    def hosts(self) -> tuple[str, ...]:
        """The nodes in order."""
        return self._plan.names

    @property
    def controller(self) -> str:
        """The scheduler's machine; empty when there is none."""
        return self._plan.controller

    @property
    def machines(self) -> tuple[str, ...]:
        """Everything that answers the network: the nodes, and the controller."""
        return (*self.hosts, self.controller) if self.controller else self.hosts

    @property
    def profile(self) -> str:
        """The kind of machine."""
        return self._plan.profile

    @property
    def t0(self) -> datetime:
        """When the ticket is posted; on a live cluster the present minute."""
        return minute(self._clock()) if self._clock else self._started

    @property
    def happenings(self) -> tuple[Happening, ...]:
        """What was made to happen. For whoever marks answers, never for whoever gives them."""
        return self._plan.happenings

    @property
    def live(self) -> bool:
        """Whether it has a clock of its own, so that `at` need not be said."""
        return self._clock is not None

    def reachable(self, host: str, at: float = 0.0) -> bool:
        """Whether a machine answers the network at all."""
        world = self.world(at)
        if world.controller and host == world.controller.name:
            return world.controller.reachable
        return host in self.hosts and world.nodes[host].reachable

    def world(self, at: float = 0.0, *, faded: bool = False, hidden: bool = False) -> ClusterState:
        """Everything as it is `at` seconds after t0."""
        age, at = self._age, self._since_t0(at)
        happened = tuple(h for h in self._plan.happenings if h.at - age <= at)
        key = (age, faded, hidden, tuple(id(h) for h in happened))
        if key not in self._built:
            if self._clock:
                self._built.clear()
            self._built[key] = worlds.build(_moved(replace(self._plan, happenings=happened), age), faded=faded, hidden=hidden)
        return self._built[key]

    def watch(self, changed: Callable[[], None]) -> None:
        """Call this after every change."""
        self._watchers.append(changed)

    @property
    def untouched(self) -> bool:
        """Whether nobody has even looked: it is what its plan makes of it, and need not be built to know that."""
        return self._plan is self._first and not self._built

    def state_hash(self) -> str:
        """A digest of everything there is. Looking does not change it."""
        return hashlib.sha256(repr(self.world()).encode()).hexdigest()

    @property
    def _age(self) -> float:
        """Seconds a live cluster has run for."""
        return (self.t0 - self._started).total_seconds()

    @property
    def _scale(self) -> float:
        """Seconds of the plan in a virtual one: a live cluster's own time is real."""
        return self.pace if self._clock else 1.0

    def _since_t0(self, at: float) -> float:
        """A live cluster's t0 is the present minute; it is at least as late as its clock."""
        return max(at, (self._clock() - self.t0).total_seconds() if self._clock else 0.0)

    def _now(self, at: float = 0.0) -> float:
        """The present in the plan's seconds."""
        return self._age + self._since_t0(at)

    def _change(self, plan: Plan) -> None:
        self._plan = plan
        self._built.clear()
        for changed in self._watchers:
            changed()


def _moved(plan: Plan, age: float) -> Plan:
    """The plan in seconds from t0."""
    happenings = tuple(replace(h, at=h.at - age, ended=None if h.ended is None else h.ended - age) for h in plan.happenings)
    return replace(plan, happenings=happenings, deeds=tuple(replace(deed, at=deed.at - age) for deed in plan.deeds), age=age)


def minute(moment: datetime) -> datetime:
    """The minute it is in."""
    return moment - timedelta(seconds=moment.second, microseconds=moment.microsecond)
