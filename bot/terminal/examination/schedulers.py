"""Whether what schedules jobs can be asked, and knows the hosts by the names that the inventory gives them: without that nothing is drained.

A scheduler is one row of SCHEDULERS: which machine is asked for a host, and what it is asked.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from bot.terminal.examination.finding import Finding
from kb.scan import lines_in
from tools.inventory.hosts import Host, Inventory
from tools.inventory.ranges import fold
from tools.transport import Ran, Transport, Unreachable

SECONDS, CAP = 15.0, 1 << 20
NODE_NAMES = ("sinfo", "--noheader", "--Node", "--format", "%N")
ASK_CONTROLLER = "`scontrol ping` there, `systemctl status slurmctld munge` on the machine that runs it"

Probe = Callable[[Transport, str, Sequence[str]], Awaitable[list[Finding]]]
"""(how to reach it, the machine that is asked, hosts of ours that it schedules) → what was found."""


@dataclass(frozen=True, slots=True)
class Scheduler:
    """One kind of scheduler. `asked_for`: the machine of the inventory that is asked for this host; "" where it has no such scheduler."""

    part: str
    asked_for: Callable[[Host], str]
    probe: Probe


async def scheduler_findings(transport: Transport, inventory: Inventory, names: Sequence[str]) -> list[Finding]:
    """Every scheduler of these hosts, each asked once."""
    asked: list[Awaitable[list[Finding]]] = []
    for scheduler in SCHEDULERS:
        hosts: dict[str, list[str]] = {}
        for name in names:
            if machine := scheduler.asked_for(inventory.hosts[name]):
                hosts.setdefault(machine, []).append(name)
        asked += [scheduler.probe(transport, machine, own) for machine, own in hosts.items()]
    return [finding for rows in await asyncio.gather(*asked) for finding in rows]


async def _slurm(transport: Transport, controller: str, hosts: Sequence[str]) -> list[Finding]:
    try:
        ran = await transport.run(controller, NODE_NAMES, timeout=SECONDS, cap=CAP)
    except Unreachable as why:
        return [Finding("slurm", "fail", f"{controller} could not be asked: {why.why}", "without it nothing is drained or returned")]
    if ran.exit_status != 0 or ran.timed_out or ran.truncated:
        return [Finding("slurm", "fail", f"sinfo on {controller}: {_complaint(ran)}", _mend(ran))]
    return slurm_findings(controller, hosts, [line.strip() for line in lines_in(ran.text) if line.strip()])


def slurm_findings(controller: str, hosts: Sequence[str], known: Sequence[str]) -> list[Finding]:
    """Which of our hosts Slurm knows by that name. `known` may name one several times, once a partition."""
    ours, theirs = set(hosts), set(known)
    if strangers := ours - theirs:
        says = f"Slurm ({controller}) knows no node {fold(strangers)}" + (f"; it knows {fold(theirs - ours)}" if theirs - ours else "")
        return [
            Finding("slurm", "fail", says[:600], "the inventory names hosts as Slurm's NodeName does; where they live goes into `address`")
        ]
    return [Finding("slurm", "ok", f"{controller} answers and knows {fold(ours)}"[:600])]


def _complaint(ran: Ran) -> str:
    said = next((line.strip() for line in lines_in(ran.stderr.decode("utf-8", "replace")) if line.strip()), "")
    return said[:300] or ("no answer in time" if ran.timed_out or ran.exit_status is None else f"exit status {ran.exit_status}")


def _mend(ran: Ran) -> str:
    return (
        "install Slurm's commands on the `controller` of the inventory, or name another host" if ran.exit_status == 127 else ASK_CONTROLLER
    )


SCHEDULERS: tuple[Scheduler, ...] = (Scheduler("slurm", lambda host: host.controller, _slurm),)
