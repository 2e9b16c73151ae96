"""Doctor's checks of schedulers: they answer, and know the inventory's nodes."""

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass

from bot.cli.doctor.finding import Finding
from kb.needle_search import split_lines
from tools.inventory.host_ranges import fold_host_names
from tools.inventory.inventory import Host, Inventory
from tools.transport import CommandResult, Transport, Unreachable

PROBE_TIMEOUT_SECONDS = 15.0
MAX_OUTPUT_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class SchedulerProbe:
    """How a scheduler lists node names, one per line after `prefix`."""

    part: str  # kind, as in the inventory
    called: str
    argv: tuple[str, ...]
    prefix: str
    install: str  # fix if the command is missing
    mend: str  # fix if the command fails

    def get_machine_for(self, host: Host) -> str:
        """Return the host's controller, if it has this scheduler."""
        return host.controller if host.scheduler == self.part else ""


SCHEDULERS: tuple[SchedulerProbe, ...] = (
    SchedulerProbe(
        part="slurm",
        called="Slurm",
        argv=("sinfo", "--noheader", "--Node", "--format", "%N"),
        prefix="",
        install="install Slurm's commands on the `controller` of the inventory, or name another host",
        mend="`scontrol ping` there, `systemctl status slurmctld munge` on the machine that runs it",
    ),
    SchedulerProbe(
        part="kubernetes",
        called="Kubernetes",
        argv=("kubectl", "get", "nodes", "-o", "name", "--request-timeout=10s"),
        prefix="node/",
        install="install kubectl on the `controller` of the inventory, or name another host",
        mend="`kubectl get nodes` there as the account that RackMedic logs in with: a kubeconfig, and leave to read nodes",
    ),
)


async def check_schedulers(transport: Transport, inventory: Inventory, names: Sequence[str]) -> list[Finding]:
    probes: list[Awaitable[Finding]] = []
    for probe in SCHEDULERS:
        hosts: dict[str, list[Host]] = {}
        for host in (inventory.hosts[name] for name in names):
            if machine := probe.get_machine_for(host):
                hosts.setdefault(machine, []).append(host)
        probes += [_probe_scheduler(probe, transport, machine, own) for machine, own in hosts.items()]
    return list(await asyncio.gather(*probes))


async def _probe_scheduler(probe: SchedulerProbe, transport: Transport, machine: str, hosts: Sequence[Host]) -> Finding:
    try:
        result = await transport.run(machine, probe.argv, timeout=PROBE_TIMEOUT_SECONDS, cap=MAX_OUTPUT_BYTES)
    except Unreachable as error:
        return Finding(probe.part, "fail", f"{machine} could not be asked: {error.why}", "without it nothing is drained or returned")
    if result.exit_status != 0 or result.timed_out or result.truncated:
        mend = probe.install if result.exit_status == 127 else probe.mend
        return Finding(probe.part, "fail", f"{probe.argv[0]} on {machine}: {_format_failure(result)}", mend)
    return _check_node_names(
        probe, machine, hosts, {line.strip().removeprefix(probe.prefix) for line in split_lines(result.text) if line.strip()}
    )


def _check_node_names(probe: SchedulerProbe, machine: str, hosts: Sequence[Host], theirs: set[str]) -> Finding:
    own_names = {host.node_name for host in hosts}
    if strangers := own_names - theirs:
        unknown_note = f"; it knows {fold_host_names(theirs - own_names)}" if theirs - own_names else ""
        sentence = f"{probe.called} ({machine}) knows no node {fold_host_names(strangers)}{unknown_note}"
        return Finding(probe.part, "fail", sentence[:600], f"name hosts as {probe.called} does, or give a host its name there with `node:`")
    return Finding(probe.part, "ok", f"{machine} answers and knows {fold_host_names(own_names)}"[:600])


def _format_failure(result: CommandResult) -> str:
    error_line = next((line.strip() for line in split_lines(result.stderr.decode("utf-8", "replace")) if line.strip()), "")
    return error_line[:300] or (
        "no answer in time" if result.timed_out or result.exit_status is None else f"exit status {result.exit_status}"
    )
