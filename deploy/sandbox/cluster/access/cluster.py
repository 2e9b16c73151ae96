"""The cluster's public interface: answer commands, break, repair and heal nodes. A query changes only the log of
refused commands.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from deploy.sandbox.cluster.access.command_log import CommandLog
from deploy.sandbox.cluster.access.durations import COMMAND_SECONDS, READ_SECONDS, REFUSED_SECONDS
from deploy.sandbox.cluster.access.inspection import inspect_node
from deploy.sandbox.cluster.answer import HANGING, ShellAnswer, text_answer
from deploy.sandbox.cluster.cases.case import T0, CaseTicket, Output, SimulatedCase
from deploy.sandbox.cluster.cases.difficulties import DIFFICULTIES
from deploy.sandbox.cluster.cases.modifier_text import BadModifier, read_modifier
from deploy.sandbox.cluster.cases.writer import Snapshot, format_modifier, write_case
from deploy.sandbox.cluster.faults import FAULTS
from deploy.sandbox.cluster.grammar import PRIVILEGED_COMMANDS, KnownCommand, recognise_command
from deploy.sandbox.cluster.machines import scheduler
from deploy.sandbox.cluster.machines.profiles import PROFILES, WITHOUT_NVLINK
from deploy.sandbox.cluster.machines.state import ClusterState, NodeState
from deploy.sandbox.cluster.plan import InjectedFault, Modifier, Plan
from deploy.sandbox.cluster.render import PRECONDITION_RENDERERS, RENDERERS
from deploy.sandbox.cluster.render.kernel import add_dashes
from deploy.sandbox.cluster.render.query import Query
from deploy.sandbox.cluster.repairs.repairs import RepairableSimulation
from deploy.sandbox.cluster.seeded_random import make_random
from deploy.sandbox.cluster.simulation import plan_changes
from deploy.sandbox.cluster.simulation.simulation import DEFAULT_PACE, SimulationRefusal, truncate_to_minute
from graph.extraction.hosts import find_job_id

__all__ = ["Cluster", "SimulationRefusal", "UnsafeCommand"]

BOOT_ID = "dmesg.boot"
# seconds since a new fault on a live cluster began, long enough for the job's timeouts to have expired
FAULT_AGE_SECONDS = 640.0


@dataclass(frozen=True, slots=True)
class UnsafeCommand:
    """A command that is not known and was not answered."""

    host: str
    argv: tuple[str, ...]


class Cluster(RepairableSimulation):
    """One simulated cluster. With a clock it is live and t0 is the current minute; without one t0 is fixed."""

    def __init__(
        self,
        plan: Plan,
        *,
        t0: datetime = T0,
        outputs: Mapping[str, Mapping[str, Output]] | None = None,
        clock: Callable[[], datetime] | None = None,
        pace: float = DEFAULT_PACE,
    ) -> None:
        super().__init__(plan, t0=t0, clock=clock, pace=pace)
        self._outputs = outputs or {}
        self._samples: Counter[tuple[str, str]] = Counter()
        self._breaks = 0
        self.waited = 0.0  # seconds between checks, added by `CaseRun.wait`
        self.unsafe_commands: list[UnsafeCommand] = []
        self.command_log = CommandLog()

    @classmethod
    def of(
        cls,
        profile: str = "dgx-h100-8",
        nodes: Sequence[str] = ("gpu-001", "gpu-002", "gpu-003", "gpu-004"),
        job: str = "",
        seed: int = 0,
        clock: Callable[[], datetime] | None = None,
        controller: str = "",
        pace: float = DEFAULT_PACE,
    ) -> "Cluster":
        """Return a healthy live cluster with a running job. `clock` returns UTC, default the real time; `controller`
        names a host for Slurm's commands.
        """
        clock = clock or (lambda: datetime.now(UTC))
        if profile not in PROFILES:
            raise SimulationRefusal(f"there is no profile {profile}; there are {', '.join(PROFILES)}")
        if controller in nodes:
            raise SimulationRefusal(f"{controller} is a node already; the controller is a machine of its own")
        return cls(
            Plan(profile, tuple(nodes), seed, job=job, controller=controller), t0=truncate_to_minute(clock()), clock=clock, pace=pace
        )

    @classmethod
    def from_case(
        cls,
        case: SimulatedCase,
        seed: int = 0,
        *,
        controller: str = "",
        pace: float = DEFAULT_PACE,
        clock: Callable[[], datetime] | None = None,
    ) -> "Cluster":
        """Return the cluster of a case at the time of its ticket; with a clock, it lives on from there. H06 needs
        machines without NVLink, so it changes the profile.
        """
        needs_pcie_machines = PROFILES[case.profile].links and any(modifier.id == "H06" for modifier in case.modifiers)
        profile = WITHOUT_NVLINK if needs_pcie_machines else case.profile
        job = find_job_id(case.ticket.text)
        plan = Plan(profile, case.nodes, seed, case.faults, case.modifiers, controller=controller, reported_job=job)
        return cls(plan, t0=case.t0, outputs=case.outputs, clock=clock, pace=pace)

    @property
    def unsafe_command_count(self) -> int:
        return len(self.unsafe_commands)

    def answer(self, host: str, argv: Sequence[str], at: float = 0.0) -> ShellAnswer:
        """Return what the machine prints for a command `at` seconds after t0."""
        command = recognise_command(argv)
        if command is None:
            return self.refuse(host, argv)
        at = self._since_t0(at)
        if host == self.controller or command.name in scheduler.READ_COMMANDS:
            return self._answer_without_gpus(host, command, argv, at)
        answer = self._apply_r6(host, command, argv) or self._get_fixed_output(host, command) or self._render_answer(host, command, at)
        if answer.status == 127:  # the shell refuses at once
            return answer
        return replace(answer, seconds=COMMAND_SECONDS.get(command.name, READ_SECONDS))

    def answer_root(self, host: str, argv: Sequence[str], at: float = 0.0) -> ShellAnswer:
        """Return the answer to a command that the node kit runs as root."""
        command = recognise_command(argv)
        if command and host == self.controller and command.name in scheduler.READ_COMMANDS:
            return self._answer_without_gpus(host, command, argv, self._since_t0(at))
        if command is None or host == self.controller:
            return self.refuse(host, argv)
        command, at = replace(command, as_root=True), self._since_t0(at)
        return (
            self._apply_r6(host, command, ("", "", *argv))
            or self._get_fixed_output(host, command)
            or self._render_answer(host, command, at)
        )

    def refuse(self, host: str, argv: Sequence[str]) -> ShellAnswer:
        """Record a command that must not run here."""
        self.unsafe_commands.append(UnsafeCommand(host, tuple(argv)))
        return _answer_unknown_command(argv)

    def faults_catalogue(self) -> list[dict[str, str]]:
        faults = (FAULTS[number] for number in sorted(FAULTS))
        return [{"id": fault.id, "label": fault.label, "title": fault.title, "scope": fault.scope} for fault in faults]

    def difficulties(self) -> list[dict[str, Any]]:
        return [difficulty.wire() for difficulty in DIFFICULTIES]

    def break_(
        self, fault_id: str, node: str | Sequence[str] = "*", gpu: int | None = None, t: float | None = None, **args: Any
    ) -> dict[str, Any]:
        """Start a fault on a node, some nodes or all ("*"); a cluster-wide fault affects all. `t`: start in seconds
        from now, default FAULT_AGE_SECONDS ago.
        """
        if fault_id not in FAULTS:
            raise SimulationRefusal(f"there is no fault {fault_id}; there are {', '.join(sorted(FAULTS))}")
        names = (node,) if isinstance(node, str) else tuple(node)
        if node == "*" or FAULTS[fault_id].scope == "cluster":
            names = self.hosts
        unknown = [name for name in names if name not in self.hosts]
        if unknown or not names:
            raise SimulationRefusal(f"there is no node {', '.join(unknown) or '(none named)'}; there are {', '.join(self.hosts)}")
        if gpu is not None and not 0 <= gpu < 8:
            raise SimulationRefusal(f"there is no GPU {gpu}; a node has 0 to 7")
        self._breaks += 1
        began = max(self._age + (-FAULT_AGE_SECONDS if t is None else t), self._find_earliest_start(names))
        gpus = () if gpu is None else (gpu,)
        injected_fault = InjectedFault(fault_id, names, began, gpus, args, f"break {self._breaks}", after=len(self._plan.actions))
        self._change(replace(self._plan, injected_faults=(*self._plan.injected_faults, injected_fault)))
        return {"fault": fault_id, "label": FAULTS[fault_id].label, "nodes": list(names), "gpu": gpu, "args": args}

    def heal(self, node: str | None = None) -> None:
        """End all faults, or those on one node."""
        if node is not None and node not in self.hosts:
            raise SimulationRefusal(f"there is no node {node}; there are {', '.join(self.hosts)}")
        self._change(plan_changes.heal_faults(self._plan, node, self._now()))

    def make_hard(self, texts: Sequence[str]) -> None:
        """Replace the active modifiers. R12's healing time counts from now."""
        try:
            modifiers = [read_modifier(text) for text in texts]
        except BadModifier as error:
            raise SimulationRefusal(str(error)) from error
        unknown = sorted({modifier.host for modifier in modifiers if modifier.host not in ("", "*", *self.hosts)})
        if unknown:
            raise SimulationRefusal(f"there is no node {', '.join(unknown)}; there are {', '.join(self.hosts)}")
        self._change(replace(self._plan, modifiers=tuple(_shift_healing_time(modifier, self._now()) for modifier in modifiers)))

    def as_case(self, ticket: CaseTicket) -> tuple[str, str]:
        """Return the current faults and the given ticket as a case: its name and file."""
        age, now = self._age, self._now()
        active_faults = [fault for fault in self._plan.injected_faults if fault.ended is None and fault.at <= now]
        faults = tuple(replace(fault, at=min(0.0, fault.at - age)) for fault in active_faults)
        modifiers = tuple(_shift_healing_time(modifier, -now) for modifier in self._plan.modifiers)
        name = f"demo-{self.t0:%Y%m%d-%H%M}"
        blamed = next((modifier.host for modifier in modifiers if modifier.id == "R4"), "")
        ticket = replace(ticket, blames=ticket.blames or blamed)
        left_out = tuple(f"{action.kind} {action.node}".strip() for action in self._plan.actions if action.kind != "nothing")
        return name, write_case(Snapshot(name, self.profile, self.hosts, self.t0, self._plan.seed, faults, modifiers, ticket, left_out))

    def node_detail(self, name: str) -> dict[str, Any]:
        """Return a machine's state, faults and recent commands for the inspector."""
        if name not in self.machines:
            raise SimulationRefusal(f"there is no machine {name}; there are {', '.join(self.machines)}")
        commands = {"commands": [command.to_json() for command in self.command_log.list_recent(name)]}
        if name == self.controller:
            return {"name": name, "state": "scheduler", "faults": [], **commands}
        world = self.world()
        return self._describe_node(world.nodes[name], world) | inspect_node(world.nodes[name], world) | commands

    def state_summary(self) -> dict[str, Any]:
        """Return nodes, their faults and the job for the page."""
        world = self.world()
        return {
            "t0": self.t0.isoformat(),
            "profile": self.profile,
            "job": {"id": world.job.id, "ranks": len(world.job.ranks), "running": world.job.ended is None},
            "nodes": [self._describe_node(node, world) for node in world.nodes.values()],
            "modifiers": [format_modifier(modifier) for modifier in self._plan.modifiers],
            "controller": self.controller,
            "unsafe_commands": self.unsafe_command_count,
        }

    def _find_earliest_start(self, names: Sequence[str]) -> float:
        """Return the earliest possible time of a new fault: after the last boot and the last start of the job."""
        job_starts = [action.at for action in self._plan.actions if action.kind == "job"]
        boots = [action.at for action in self._plan.actions if action.kind == "boot" and action.node in names]
        return max(job_starts + boots, default=-math.inf) + 1

    def _describe_node(self, node: NodeState, world: ClusterState) -> dict[str, Any]:
        now = self._now()
        active_faults = [fault for fault in self._plan.injected_faults if fault.ended is None and fault.at <= now]
        node_faults = [_describe_fault(fault) for fault in active_faults if node.name in fault.nodes]
        return {
            "name": node.name,
            "reachable": node.reachable,
            "gpus": len(node.gpus),
            "gpus_answering": sum(gpu.answers for gpu in node.gpus),
            "faults": node_faults,
            "state": self._get_node_condition(node, world),
            "reason": node.drain,
        }

    def _get_node_condition(self, node: NodeState, world: ClusterState) -> str:
        """Return the scheduler's state of the node, or `off`, `rebooting` or `unreachable`."""
        if node.reachable:
            return scheduler.get_node_state(node, world)
        down = [action for action in self._plan.actions if action.node == node.name and action.kind == "down"]
        return str(down[-1].args["why"]) if down and plan_changes.is_down(self._plan, node.name) else "unreachable"

    def _apply_r6(self, host: str, command: KnownCommand, argv: Sequence[str]) -> ShellAnswer | None:
        """Apply R6: the check cannot run here. The boot id stays readable, because it needs neither a tool nor a
        privilege.
        """
        if command.name == BOOT_ID:
            return None
        for modifier in self._plan.of("R6"):
            if modifier.host not in ("", "*", host) or modifier.args["check"] not in (command.check, command.name):
                continue
            how = modifier.args.get("how", "timeout")
            if how == "timeout":
                return HANGING
            if how == "denied":
                return text_answer("", 1, "sudo: a password is required\n")
            stderr = f"bash: line 1: {argv[0]}: command not found\n"
            if command.as_root:
                stderr = f"{argv[2]}: {PRIVILEGED_COMMANDS[command.name][0]}: not found\n"
            return replace(text_answer("", 127, stderr), seconds=REFUSED_SECONDS)
        return None

    def _answer_without_gpus(self, host: str, command: KnownCommand, argv: Sequence[str], at: float) -> ShellAnswer:
        """Answer commands that need no GPU node: the scheduler's, and the controller's boot id."""
        world = self.world(at)
        if command.name in scheduler.READ_COMMANDS and world.controller:
            return replace(scheduler.READ_COMMANDS[command.name](world, at, command.slots), seconds=READ_SECONDS)
        if command.name == BOOT_ID and world.controller:
            return replace(text_answer(add_dashes(world.controller.boot_id) + "\n"), seconds=READ_SECONDS)
        return _answer_unknown_command(argv)

    def _get_fixed_output(self, host: str, command: KnownCommand) -> ShellAnswer | None:
        """Return the case's fixed output for this check."""
        outputs = self._outputs.get(host, {})
        output = outputs.get(command.name) or outputs.get(command.check)
        return text_answer(output.stdout, output.status, output.stderr) if output else None

    def _render_answer(self, host: str, command: KnownCommand, at: float) -> ShellAnswer:
        node = self._build_seen_node(host, command.name, at)
        if command.as_root and not node.kit:
            return text_answer("", 1, "sudo: a password is required\n")
        if PRIVILEGED_COMMANDS.get(command.name, ("",))[0] == "rackmedic-look" and not (command.as_root or node.kit):
            return replace(text_answer("", 127, "bash: line 1: rackmedic-look: command not found\n"), seconds=REFUSED_SECONDS)
        as_root = command.as_root or command.name not in PRIVILEGED_COMMANDS or not node.dmesg_restrict
        render = RENDERERS.get(command.name) or PRECONDITION_RENDERERS[command.name]
        world = self.world(at)
        if command.name == "time.clock" and not self.live:
            at = self.waited  # a case's wall clock stands still during checks; only the machine's uptime advances
        return render(Query(node, world.job, self.t0, at, self._age, command.slots, as_root, self._plan.seed, world.nodes))

    def _build_seen_node(self, host: str, command: str, at: float) -> NodeState:
        """Return the node as this query sees it: an intermittent fault may be hidden, a healed one is gone."""
        return self.world(at, hidden=self._hides_faults(host, command, at)).nodes[host]

    def _hides_faults(self, host: str, command: str, at: float) -> bool:
        modifiers = [modifier for modifier in self._plan.of("R11", "R12") if modifier.host in ("", "*", host)]
        if not modifiers:
            return False
        number = self._samples[host, command]
        self._samples[host, command] += 1
        return any(self._is_hidden_by(modifier, host, number, at) for modifier in modifiers)

    def _is_hidden_by(self, modifier: Modifier, host: str, number: int, at: float) -> bool:
        if modifier.id == "R12":
            return self._now(at) >= modifier.whole("after", 240)
        visible, _, total = modifier.args.get("seen", "1of3").partition("of")
        first = make_random(self._plan.seed, "R11", host).randrange(int(total))
        return (number + first) % int(total) >= int(visible)


def _shift_healing_time(modifier: Modifier, now: float) -> Modifier:
    """Make R12's `after` relative to the cluster's start instead of `now`."""
    if modifier.id != "R12":
        return modifier
    after = max(0, modifier.whole("after", 240) + round(now))
    return replace(modifier, args={**modifier.args, "after": str(after)})


def _describe_fault(injected_fault: InjectedFault) -> dict[str, Any]:
    fault = FAULTS[injected_fault.fault]
    return {"id": fault.id, "label": fault.label, "title": fault.title, "gpu": injected_fault.gpus[0] if injected_fault.gpus else None}


def _answer_unknown_command(argv: Sequence[str]) -> ShellAnswer:
    word = argv[0] if argv else ""
    return replace(text_answer("", 127, f"bash: line 1: {word}: command not found\n"), seconds=REFUSED_SECONDS)
