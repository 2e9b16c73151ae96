"""Repairs of the cluster: effects of the node kit's tools, and accidents."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from deploy.sandbox.cluster.answer import ShellAnswer, text_answer
from deploy.sandbox.cluster.grammar import match_template
from deploy.sandbox.cluster.machines import kubernetes, scheduler
from deploy.sandbox.cluster.machines.state import ClusterState
from deploy.sandbox.cluster.plan import ActionKind, Plan
from deploy.sandbox.cluster.repairs import gpu_tools, node_tools
from deploy.sandbox.cluster.repairs.tool_run import NodeTool, Slots, ToolOutcome, ToolRun
from deploy.sandbox.cluster.simulation import plan_changes, remedies
from deploy.sandbox.cluster.simulation.simulation import Simulation, SimulationRefusal

# commands on a GPU node, as the kit's preconditions and remedies spell them
NODE_TOOLS: Mapping[tuple[str, ...], NodeTool] = {
    **{tuple(line.split()): act for line, act in {**gpu_tools.TOOLS, **node_tools.TOOLS}.items()},
    node_tools.OLD_FILES: node_tools.delete_old_files,
}

# scheduler commands that change something
SCHEDULER_TOOLS: Mapping[str, Callable[[ClusterState, float, Slots, str], scheduler.SlurmReply]] = {
    "scontrol update NodeName=<node> State=DRAIN Reason=<reason>": scheduler.drain_node,
    "scontrol update NodeName=<node> State=RESUME": scheduler.resume_node,
    "scancel <job>": scheduler.cancel_job,
}


class RepairableSimulation(Simulation):
    """All changes of the plan except break and heal."""

    def __init__(self, plan: Plan, *, t0: datetime, clock: Callable[[], datetime] | None, pace: float) -> None:
        super().__init__(plan, t0=t0, clock=clock, pace=pace)
        # Executions by the node kit, by machine, remedy and digest.
        self.executions: Counter[tuple[str, str, str]] = Counter()
        self.scheduler_refuses = ""
        """With what the scheduler refuses every change, such as `Access/permission denied`."""

    def foresee(self, host: str, argv: Sequence[str], at: float = 0.0) -> ToolOutcome | None:
        """Return a tool's outcome without applying it; None if no remedy uses the command."""
        world, now = self.world(at), self._now(at)
        fault_args = {
            row.fault: row.args for row in self._plan.injected_faults if host in row.nodes and row.ended is None and row.at <= now
        }
        return find_outcome(ToolRun(world, host, now, fault_args, self.scheduler_refuses, self._plan.seed), argv)

    def carry_out(self, host: str, argv: Sequence[str], at: float = 0.0) -> ToolOutcome | None:
        """Apply a tool's outcome and return it. A reboot is left to the caller, who has a clock."""
        found, now = self.foresee(host, argv, at), self._now(at)
        if found is not None and found.changes:
            plan = replace(self._plan, actions=(*self._plan.actions, *found.actions))
            for operation in filter(None, (found.operation, *found.further_operations)):
                plan = remedies.apply_operation(plan, remedies.AppliedOperation(operation, host, now, found.gpu, self._scale))
            self._change(plan)
            if any(action.kind == "resume" for action in found.actions) and not self.waits_for():
                self.next_run(at)
        return found

    def go_down(self, host: str, why: str = "off", at: float = 0.0) -> None:
        """Stop the machine, with the job and everything in memory."""
        if host not in self.machines:
            raise SimulationRefusal(f"there is no machine {host}; there are {', '.join(self.machines)}")
        if not plan_changes.is_down(self._plan, host):
            self._change(plan_changes.add_action(self._plan, "down", host, self._now(at), why=why))

    def come_up(self, host: str, at: float = 0.0) -> None:
        """Start the machine with a new boot id."""
        if plan_changes.is_down(self._plan, host):
            self._change(plan_changes.boot_machine(self._plan, host, self._now(at), self._scale))

    def drain(self, host: str, reason: str, at: float = 0.0) -> None:
        """Drain a node as another admin."""
        self._do(host, "drain", at, reason=reason)

    def end_process(self, host: str, pid: int, at: float = 0.0) -> None:
        """End a process without a remedy."""
        self._do(host, "kill", at, pid=pid)

    def reuse_pid(self, host: str, pid: int, at: float = 0.0) -> None:
        """End a process and give its pid to an unrelated one."""
        self._do(host, "reuse", at, pid=pid)

    def hold(self, host: str, gpu: int, at: float = 0.0) -> None:
        """Let a non-compute process open a GPU until the next boot."""
        self._do(host, "hold", at, gpu=gpu)

    def inhibit(self, host: str, at: float = 0.0) -> None:
        """Make the node refuse reboots until it next goes down."""
        self._do(host, "inhibit", at)

    def waits_for(self, at: float = 0.0) -> str:
        """Return why the next run of the job cannot start, or ""."""
        world = self.world(at)
        if world.job.ended is None:
            return "the job runs"
        missing = [node.name for node in world.nodes.values() if node.drain or not node.reachable]
        return f"the job needs {', '.join(missing)}" if missing else ""

    def stop_job(self, at: float = 0.0) -> None:
        """End the job as its owner would. Idempotent."""
        if self.world(at).job.ended is None:
            self._change(plan_changes.add_action(self._plan, "cancel", "", self._now(at)))

    def next_run(self, at: float = 0.0) -> None:
        """Restart the job, as the scheduler does when its last node is resumed. Raises SimulationRefusal with what it waits
        for.
        """
        if why := self.waits_for(at):
            raise SimulationRefusal(why)
        self._change(plan_changes.start_next_run(self._plan, self._now(at)))

    def _do(self, host: str, what: ActionKind, at: float, **args: Any) -> None:
        if host not in self.hosts:
            raise SimulationRefusal(f"there is no node {host}; there are {', '.join(self.hosts)}")
        self._change(plan_changes.add_action(self._plan, what, host, self._now(at), **args))


def find_outcome(tool_run: ToolRun, argv: Sequence[str]) -> ToolOutcome | None:
    """Return a command's outcome, or None if no remedy uses it."""
    for template, act in NODE_TOOLS.items():
        slots = match_template(template, argv)
        if slots is not None:
            return act(tool_run.node, tool_run, slots) if tool_run.node else ToolOutcome(_command_not_found(argv[0]))
    for line, ask in SCHEDULER_TOOLS.items():
        slots = match_template(tuple(line.split()), argv)
        if slots is not None:
            asked = ask(tool_run.world, tool_run.at, slots, tool_run.scheduler_refuses)
            return ToolOutcome(asked.answer, (asked.action,) if asked.action else (), seconds=1.0)
    for line, change in kubernetes.CHANGE_COMMANDS.items():
        slots = match_template(tuple(line.split()), argv)
        if slots is not None:
            answer, action = change(tool_run.world, tool_run.at, slots, tool_run.scheduler_refuses)
            return ToolOutcome(answer, (action,) if action else (), seconds=1.0)
    return None


def _command_not_found(word: str) -> ShellAnswer:
    return text_answer("", 127, f"{word}: command not found\n")
