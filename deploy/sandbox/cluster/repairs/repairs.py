"""Repairs of the cluster: effects of the node kit's tools, and accidents."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from deploy.sandbox.cluster.plan import Plan, What
from deploy.sandbox.cluster.repairs.instruments import outcome
from deploy.sandbox.cluster.repairs.tool_run import Outcome, ToolRun
from deploy.sandbox.cluster.simulation import remedies, turns
from deploy.sandbox.cluster.simulation.simulation import NoSuchThing, Simulation


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
                plan = remedies.struck(plan, remedies.Blow(operation, host, now, found.gpu, self._scale))
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
