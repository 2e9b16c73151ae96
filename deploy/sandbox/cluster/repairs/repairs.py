"""Repairs of the cluster: effects of the node kit's tools, and accidents."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from deploy.sandbox.cluster.answer import ShellAnswer, said
from deploy.sandbox.cluster.grammar import fits
from deploy.sandbox.cluster.machines import kubernetes, scheduler
from deploy.sandbox.cluster.machines.state import ClusterState
from deploy.sandbox.cluster.plan import Plan, What
from deploy.sandbox.cluster.repairs import gpu_tools, node_tools
from deploy.sandbox.cluster.repairs.tool_run import OnNode, Outcome, Slots, ToolRun
from deploy.sandbox.cluster.simulation import remedies, turns
from deploy.sandbox.cluster.simulation.simulation import NoSuchThing, Simulation

# commands on a GPU node, as the kit's preconditions and remedies spell them
ON_NODES: Mapping[tuple[str, ...], OnNode] = {
    **{tuple(line.split()): act for line, act in {**gpu_tools.TOOLS, **node_tools.TOOLS}.items()},
    node_tools.OLD_FILES: node_tools.old_files,
}

# scheduler commands that change something
ON_CONTROLLER: Mapping[str, Callable[[ClusterState, float, Slots, str], scheduler.SlurmReply]] = {
    "scontrol update NodeName=<node> State=DRAIN Reason=<reason>": scheduler.drain,
    "scontrol update NodeName=<node> State=RESUME": scheduler.resume,
    "scancel <job>": scheduler.cancel,
}


class Repairable(Simulation):
    """All changes of the plan except break and heal."""

    def __init__(self, plan: Plan, *, t0: datetime, clock: Callable[[], datetime] | None, pace: float) -> None:
        super().__init__(plan, t0=t0, clock=clock, pace=pace)
        # Executions by the node kit, by machine, remedy and digest.
        self.executions: Counter[tuple[str, str, str]] = Counter()
        self.scheduler_refuses = ""
        """With what the scheduler refuses every change, such as `Access/permission denied`."""

    def foresee(self, host: str, argv: Sequence[str], at: float = 0.0) -> Outcome | None:
        """Return a tool's outcome without applying it; None if no remedy uses the command."""
        world, now = self.world(at), self._now(at)
        told = {row.fault: row.args for row in self._plan.happenings if host in row.nodes and row.ended is None and row.at <= now}
        return outcome(ToolRun(world, host, now, told, self.scheduler_refuses, self._plan.seed), argv)

    def carry_out(self, host: str, argv: Sequence[str], at: float = 0.0) -> Outcome | None:
        """Apply a tool's outcome and return it. A reboot is left to the caller, who has a clock."""
        found, now = self.foresee(host, argv, at), self._now(at)
        if found is not None and found.changes:
            plan = replace(self._plan, deeds=(*self._plan.deeds, *found.deeds))
            for operation in filter(None, (found.operation, *found.also)):
                plan = remedies.apply_operation(plan, remedies.AppliedOperation(operation, host, now, found.gpu, self._scale))
            self._change(plan)
            if any(deed.what == "resume" for deed in found.deeds) and not self.waits_for():
                self.next_run(at)
        return found

    def go_down(self, host: str, why: str = "off", at: float = 0.0) -> None:
        """Stop the machine, with the job and everything in memory."""
        if host not in self.machines:
            raise NoSuchThing(f"there is no machine {host}; there are {', '.join(self.machines)}")
        if not turns.is_down(self._plan, host):
            self._change(turns.done(self._plan, "down", host, self._now(at), why=why))

    def come_up(self, host: str, at: float = 0.0) -> None:
        """Start the machine with a new boot id."""
        if turns.is_down(self._plan, host):
            self._change(turns.booted(self._plan, host, self._now(at), self._scale))

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
            self._change(turns.done(self._plan, "cancel", "", self._now(at)))

    def next_run(self, at: float = 0.0) -> None:
        """Restart the job, as the scheduler does when its last node is resumed. Raises NoSuchThing with what it waits
        for.
        """
        if why := self.waits_for(at):
            raise NoSuchThing(why)
        self._change(turns.next_run(self._plan, self._now(at)))

    def _do(self, host: str, what: What, at: float, **args: Any) -> None:
        if host not in self.hosts:
            raise NoSuchThing(f"there is no node {host}; there are {', '.join(self.hosts)}")
        self._change(turns.done(self._plan, what, host, self._now(at), **args))


def outcome(place: ToolRun, argv: Sequence[str]) -> Outcome | None:
    """Return a command's outcome, or None if no remedy uses it."""
    for template, act in ON_NODES.items():
        slots = fits(template, argv)
        if slots is not None:
            return act(place.node, place, slots) if place.node else Outcome(_not_found(argv[0]))
    for line, ask in ON_CONTROLLER.items():
        slots = fits(tuple(line.split()), argv)
        if slots is not None:
            asked = ask(place.world, place.at, slots, place.scheduler_refuses)
            return Outcome(asked.answer, (asked.deed,) if asked.deed else (), seconds=1.0)
    for line, change in kubernetes.CHANGES.items():
        slots = fits(tuple(line.split()), argv)
        if slots is not None:
            answer, deed = change(place.world, place.at, slots, place.scheduler_refuses)
            return Outcome(answer, (deed,) if deed else (), seconds=1.0)
    return None


def _not_found(word: str) -> ShellAnswer:
    return said("", 127, f"{word}: command not found\n")
