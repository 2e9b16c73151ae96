"""The cluster as its users see it: commands are answered, nodes are broken and healed. Asking changes nothing but the list of what was refused."""

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from deploy.sandbox.cluster import world as worlds
from deploy.sandbox.cluster.answer import HANGS, Answer, said
from deploy.sandbox.cluster.case_values import T0, Case, Output
from deploy.sandbox.cluster.chance import dice
from deploy.sandbox.cluster.faults import FAULTS
from deploy.sandbox.cluster.grammar import PRIVILEGED, Asked, recognise
from deploy.sandbox.cluster.plan import Happening, Modifier, Plan
from deploy.sandbox.cluster.profiles import PROFILES, WITHOUT_NVLINK
from deploy.sandbox.cluster.render import RENDERERS
from deploy.sandbox.cluster.render.view import View
from deploy.sandbox.cluster.state import NodeState, World
from deploy.sandbox.cluster.timing import REFUSED_SECONDS, SECONDS

BEGAN_AGO = 640.0
"""A fault made on a live cluster began this long ago, so that the job's time limits have run out by now."""


class NoSuchThing(ValueError):
    """A break that cannot be: unknown fault, node or GPU. The message lists what there is."""


@dataclass(frozen=True, slots=True)
class UnsafeCommand:
    """A command that is in no table and was therefore not answered."""

    host: str
    argv: tuple[str, ...]


class Cluster:
    """One simulated cluster. With a clock it is live: its t0 is the present minute; without one its t0 stands still."""

    def __init__(
        self,
        plan: Plan,
        *,
        t0: datetime = T0,
        outputs: Mapping[str, Mapping[str, Output]] | None = None,
        clock: Callable[[], datetime] | None = None,
    ) -> None:
        self._plan, self._started, self._clock = plan, t0, clock
        self._outputs = outputs or {}
        self._built: dict[tuple[object, ...], World] = {}
        self._samples: Counter[tuple[str, str]] = Counter()
        self._watchers: list[Callable[[], None]] = []
        self._breaks = 0
        self.unsafe_commands: list[UnsafeCommand] = []

    @classmethod
    def of(
        cls,
        profile: str = "dgx-h100-8",
        nodes: Sequence[str] = ("gpu-001", "gpu-002", "gpu-003", "gpu-004"),
        job: str = "",
        seed: int = 0,
        clock: Callable[[], datetime] | None = None,
    ) -> "Cluster":
        """A healthy live cluster whose job runs; `clock` gives the present (UTC), the real one by default."""
        clock = clock or (lambda: datetime.now(UTC))
        if profile not in PROFILES:
            raise NoSuchThing(f"there is no profile {profile}; there are {', '.join(PROFILES)}")
        return cls(Plan(profile, tuple(nodes), seed, job=job), t0=_minute(clock()), clock=clock)

    @classmethod
    def from_case(cls, case: Case, seed: int = 0) -> "Cluster":
        """The cluster of a case, as it is when the ticket is posted. H06 speaks of machines without NVLink, so there they all are."""
        nothing_to_do = PROFILES[case.profile].links and any(modifier.id == "H06" for modifier in case.modifiers)
        plan = Plan(WITHOUT_NVLINK if nothing_to_do else case.profile, case.nodes, seed, case.faults, case.modifiers)
        return cls(plan, t0=case.t0, outputs=case.outputs)

    @property
    def hosts(self) -> tuple[str, ...]:
        """The nodes in order."""
        return self._plan.names

    @property
    def profile(self) -> str:
        """The kind of machine."""
        return self._plan.profile

    @property
    def t0(self) -> datetime:
        """When the ticket is posted; on a live cluster the present minute."""
        return _minute(self._clock()) if self._clock else self._started

    @property
    def live(self) -> bool:
        """Whether it has a clock of its own, so that `at` need not be said."""
        return self._clock is not None

    @property
    def unsafe_command_count(self) -> int:
        """How many commands were refused because they are in no table."""
        return len(self.unsafe_commands)

    def reachable(self, host: str, at: float = 0.0) -> bool:
        """Whether a node answers the network at all."""
        return host in self.hosts and self.world(at).nodes[host].reachable

    def world(self, at: float = 0.0, *, faded: bool = False) -> World:
        """Everything as it is `at` seconds after t0."""
        age = self._age
        happened = tuple(h for h in self._plan.happenings if h.at - age <= max(at, 0.0))
        key = (age, faded, tuple(id(h) for h in happened))
        if key not in self._built:
            if self._clock:
                self._built.clear()
            moved = tuple(replace(h, at=h.at - age) for h in happened)
            self._built[key] = worlds.build(replace(self._plan, happenings=moved, age=age), faded=faded)
        return self._built[key]

    def answer(self, host: str, argv: Sequence[str], at: float = 0.0) -> Answer:
        """What the node prints for a command, `at` seconds after t0."""
        asked = recognise(argv)
        if asked is None:
            self.unsafe_commands.append(UnsafeCommand(host, tuple(argv)))
            word = argv[0] if argv else ""
            return replace(said("", 127, f"bash: line 1: {word}: command not found\n"), seconds=REFUSED_SECONDS)
        answer = self._spoilt(host, asked, argv) or self._given(host, asked) or self._rendered(host, asked, at)
        return replace(answer, seconds=SECONDS[asked.name]) if answer.status != 127 else answer

    def faults_catalogue(self) -> list[dict[str, str]]:
        """Every fault that can be made, for a menu."""
        rows = (FAULTS[number] for number in sorted(FAULTS))
        return [{"id": row.id, "label": row.label, "title": row.title, "scope": row.scope} for row in rows]

    def break_(
        self, fault_id: str, node: str | Sequence[str] = "*", gpu: int | None = None, t: float | None = None, **args: Any
    ) -> dict[str, Any]:
        """Make a fault on a node, some, or all ("*"); what concerns the whole cluster happens to all.

        `t` is when it began, in seconds from now; some ten minutes ago by default.
        """
        if fault_id not in FAULTS:
            raise NoSuchThing(f"there is no fault {fault_id}; there are {', '.join(sorted(FAULTS))}")
        everywhere = node == "*" or FAULTS[fault_id].scope == "cluster"
        names = self.hosts if everywhere else (node,) if isinstance(node, str) else tuple(node)
        unknown = [name for name in names if name not in self.hosts]
        if unknown or not names:
            raise NoSuchThing(f"there is no node {', '.join(unknown) or '(none named)'}; there are {', '.join(self.hosts)}")
        if gpu is not None and not 0 <= gpu < 8:
            raise NoSuchThing(f"there is no GPU {gpu}; a node has 0 to 7")
        self._breaks += 1
        began = self._age + (-BEGAN_AGO if t is None else t)
        row = Happening(fault_id, names, began, () if gpu is None else (gpu,), args, f"break {self._breaks}")
        self._change((*self._plan.happenings, row))
        return {"fault": fault_id, "label": FAULTS[fault_id].label, "nodes": list(names), "gpu": gpu, "args": args}

    def heal(self, node: str | None = None) -> None:
        """Undo every fault, or every one on a node."""
        if node is not None and node not in self.hosts:
            raise NoSuchThing(f"there is no node {node}; there are {', '.join(self.hosts)}")
        left = []
        for row in self._plan.happenings:
            names = () if node is None else tuple(name for name in row.nodes if name != node)
            left += [replace(row, nodes=names)] if names else []
        self._change(tuple(left))

    def watch(self, changed: Callable[[], None]) -> None:
        """Call this after every break and every healing."""
        self._watchers.append(changed)

    def state_summary(self) -> dict[str, Any]:
        """What a page shows: nodes, what is broken on them, the job."""
        world = self.world()
        return {
            "t0": self.t0.isoformat(),
            "profile": self.profile,
            "job": {"id": world.job.id, "ranks": len(world.job.ranks), "running": world.job.ended is None},
            "nodes": [self._node_row(node) for node in world.nodes.values()],
            "unsafe_commands": self.unsafe_command_count,
        }

    def state_hash(self) -> str:
        """A digest of everything there is. Looking does not change it."""
        return hashlib.sha256(repr(self.world()).encode()).hexdigest()

    @property
    def _age(self) -> float:
        """Seconds a live cluster has run for."""
        return (self.t0 - self._started).total_seconds()

    def _node_row(self, node: NodeState) -> dict[str, Any]:
        rows = [row for row in self._plan.happenings if node.name in row.nodes]
        broken = [_broken(row) for row in rows]
        return {
            "name": node.name,
            "reachable": node.reachable,
            "gpus": len(node.gpus),
            "gpus_answering": sum(gpu.answers for gpu in node.gpus),
            "faults": broken,
        }

    def _change(self, happenings: tuple[Happening, ...]) -> None:
        self._plan = replace(self._plan, happenings=happenings)
        self._built.clear()
        for changed in self._watchers:
            changed()

    def _spoilt(self, host: str, asked: Asked, argv: Sequence[str]) -> Answer | None:
        """R6: the check cannot be made here."""
        for modifier in self._plan.of("R6"):
            if modifier.host in ("", "*", host) and modifier.args["check"] in (asked.check, asked.name):
                how = modifier.args.get("how", "timeout")
                if how == "timeout":
                    return HANGS
                if how == "denied":
                    return said("", 1, "sudo: a password is required\n")
                if asked.as_root:
                    return replace(said("", 127, f"{argv[2]}: {PRIVILEGED[asked.name][0]}: not found\n"), seconds=REFUSED_SECONDS)
                return replace(said("", 127, f"bash: line 1: {argv[0]}: command not found\n"), seconds=REFUSED_SECONDS)
        return None

    def _given(self, host: str, asked: Asked) -> Answer | None:
        """The case's own output for this check."""
        rows = self._outputs.get(host, {})
        row = rows.get(asked.name) or rows.get(asked.check)
        return said(row.stdout, row.status, row.stderr) if row else None

    def _rendered(self, host: str, asked: Asked, at: float) -> Answer:
        node = self._seen(host, asked.name, at)
        if asked.as_root and not node.kit:
            return said("", 1, "sudo: a password is required\n")
        if asked.name == "env.job" and not asked.as_root and not node.kit:
            return replace(said("", 127, "bash: line 1: rackmedic-look: command not found\n"), seconds=REFUSED_SECONDS)
        as_root = asked.as_root or asked.name not in PRIVILEGED or not node.dmesg_restrict
        return RENDERERS[asked.name](View(node, self.world(at).job, self.t0, at, self._age, asked.slots, as_root, self._plan.seed))

    def _seen(self, host: str, command: str, at: float) -> NodeState:
        """The node as this look finds it: an intermittent fault may hide, a healed one is gone."""
        return self.world(at, faded=self._hides(host, command, at)).nodes[host]

    def _hides(self, host: str, command: str, at: float) -> bool:
        concerned = [row for row in self._plan.of("R11", "R12") if row.host in ("", "*", host)]
        if not concerned:
            return False
        number = self._samples[host, command]
        self._samples[host, command] += 1
        return any(self._gone(row, host, number, at) for row in concerned)

    def _gone(self, row: Modifier, host: str, number: int, at: float) -> bool:
        if row.id == "R12":
            return at >= row.whole("after", 240)
        seen, _, of = row.args.get("seen", "1of3").partition("of")
        first = dice(self._plan.seed, "R11", host).randrange(int(of))
        return (number + first) % int(of) >= int(seen)


def _broken(row: Happening) -> dict[str, Any]:
    fault = FAULTS[row.fault]
    return {"id": fault.id, "label": fault.label, "title": fault.title, "gpu": row.gpus[0] if row.gpus else None}


def _minute(moment: datetime) -> datetime:
    return moment - timedelta(seconds=moment.second, microseconds=moment.microsecond)
