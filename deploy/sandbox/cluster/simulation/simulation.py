"""The simulated cluster over time: a growing plan, and the state it yields at a moment. Knows no commands."""

import hashlib
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

from deploy.sandbox.cluster.machines.state import ClusterState
from deploy.sandbox.cluster.plan import InjectedFault, Plan
from deploy.sandbox.cluster.simulation import world as worlds

DEFAULT_PACE = 0.02  # real seconds per virtual second of a remedy: a 15-minute reboot takes 18 s


class SimulationRefusal(ValueError):
    """Something that cannot be done here: unknown fault, node or GPU, or not now. The message says what there is."""


class Simulation:
    """Live with a clock: t0 is the current minute. Without a clock t0 is fixed."""

    def __init__(self, plan: Plan, *, t0: datetime, clock: Callable[[], datetime] | None, pace: float) -> None:
        self.pace = pace
        self._plan = plan
        self._started = t0
        self._clock = clock
        self._first = plan
        self._built: dict[tuple[object, ...], ClusterState] = {}
        self._watchers: list[Callable[[], None]] = []

    @property
    def hosts(self) -> tuple[str, ...]:
        return self._plan.names

    @property
    def controller(self) -> str:
        return self._plan.controller

    @property
    def machines(self) -> tuple[str, ...]:
        """Return all hosts on the network: the nodes and the controller."""
        return (*self.hosts, self.controller) if self.controller else self.hosts

    @property
    def profile(self) -> str:
        return self._plan.profile

    @property
    def t0(self) -> datetime:
        """Return the time of the ticket; on a live cluster the current minute."""
        return truncate_to_minute(self._clock()) if self._clock else self._started

    @property
    def injected_faults(self) -> tuple[InjectedFault, ...]:
        """Return the injected faults. Only for scoring, never for a diagnosis."""
        return self._plan.injected_faults

    @property
    def live(self) -> bool:
        return self._clock is not None

    def reachable(self, host: str, at: float = 0.0) -> bool:
        """Return whether a machine is on the network."""
        world = self.world(at)
        if world.controller and host == world.controller.name:
            return world.controller.reachable
        return host in self.hosts and world.nodes[host].reachable

    def world(self, at: float = 0.0, *, faded: bool = False, hidden: bool = False) -> ClusterState:
        """Return the state `at` seconds after t0."""
        age, at = self._age, self._since_t0(at)
        happened = tuple(h for h in self._plan.injected_faults if h.at - age <= at)
        key = (age, faded, hidden, tuple(id(h) for h in happened))
        if key not in self._built:
            if self._clock:
                self._built.clear()
            self._built[key] = worlds.build_world(
                _shift_plan(replace(self._plan, injected_faults=happened), age), faded=faded, hidden=hidden
            )
        return self._built[key]

    def watch(self, changed: Callable[[], None]) -> None:
        """Call `changed` after every change."""
        self._watchers.append(changed)

    @property
    def untouched(self) -> bool:
        """Return whether no state has been built since the start."""
        return self._plan is self._first and not self._built

    def state_hash(self) -> str:
        """Return a digest of the whole state. Queries do not change it."""
        return hashlib.sha256(repr(self.world()).encode()).hexdigest()

    @property
    def _age(self) -> float:
        return (self.t0 - self._started).total_seconds()

    @property
    def _scale(self) -> float:
        """Return plan seconds per virtual second; a live cluster runs in real time."""
        return self.pace if self._clock else 1.0

    def _since_t0(self, at: float) -> float:
        """Return `at`, on a live cluster at least the seconds since the current minute."""
        return max(at, (self._clock() - self.t0).total_seconds() if self._clock else 0.0)

    def _now(self, at: float = 0.0) -> float:
        """Return the current time in plan seconds."""
        return self._age + self._since_t0(at)

    def _change(self, plan: Plan) -> None:
        self._plan = plan
        self._built.clear()
        for changed in self._watchers:
            changed()


def _shift_plan(plan: Plan, age: float) -> Plan:
    """Return the plan with times relative to t0."""
    injected_faults = tuple(replace(h, at=h.at - age, ended=None if h.ended is None else h.ended - age) for h in plan.injected_faults)
    return replace(
        plan, injected_faults=injected_faults, actions=tuple(replace(action, at=action.at - age) for action in plan.actions), age=age
    )


def truncate_to_minute(moment: datetime) -> datetime:
    return moment - timedelta(seconds=moment.second, microseconds=moment.microsecond)
