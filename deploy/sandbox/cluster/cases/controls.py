"""Healthy situations that look like faults, H01 to H08. The correct diagnosis of each is "nothing is wrong"."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from deploy.sandbox.cluster.machines.log_lines import JobLine, JournalLine, KernelLine
from deploy.sandbox.cluster.machines.noise import build_register_errors
from deploy.sandbox.cluster.machines.state import ClusterState, NodeState
from deploy.sandbox.cluster.plan import Modifier
from deploy.sandbox.cluster.seeded_random import make_random

HOUR = 3600.0


def choose_nodes(world: ClusterState, modifier: Modifier, seed: int) -> list[NodeState]:
    """Return the named node, all nodes for `*`, or a seeded random one if none is named."""
    names = list(world.nodes)
    if modifier.host == "*":
        return list(world.nodes.values())
    return [world.nodes[modifier.host or make_random(seed, modifier.id).choice(names)]]


def move_last_boot(node: NodeState, hours_ago: float) -> None:
    """Move the last boot, and the kernel log since, to `hours_ago` hours before now."""
    boot, shift = node.booted, -hours_ago * HOUR - node.booted
    starting = [replace(line, t=line.t + shift) for line in node.kernel_log if line.t < boot + 60]
    node.booted += shift
    node.kernel_log = starting + [line for line in node.kernel_log if line.t > node.booted + 60]


def _add_stale_xid79(world: ClusterState, modifier: Modifier, seed: int) -> None:
    for node in choose_nodes(world, modifier, seed):
        gpu = node.gpus[modifier.whole("gpu", 4) % 8]
        move_last_boot(node, 5.25)
        text = f"NVRM: Xid (PCI:{gpu.pci}): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
        node.kernel_log.append(KernelLine(-9.4 * HOUR, "warn", text, "before"))
    _restart_job_after(world, -5 * HOUR)


def _restart_job_after(world: ClusterState, t: float) -> None:
    """Move the job's start to after `t`."""
    if world.job.started < t:
        shift = t + 900 - world.job.started
        for rank in world.job.ranks:
            rank.lines = [JobLine(line.t + shift, line.text, line.stamp) if line.t + shift < t + 1200 else line for line in rank.lines]
        world.job.started += shift


def _add_benign_flood(world: ClusterState, modifier: Modifier, seed: int) -> None:
    for node in choose_nodes(world, modifier, seed):
        node.kernel_log += build_register_errors(node.name, seed, node.profile.hca_buses[0], modifier.whole("lines", 3000))


def _add_past_remaps(world: ClusterState, modifier: Modifier, seed: int) -> None:
    for node in choose_nodes(world, modifier, seed):
        gpu = node.gpus[modifier.whole("gpu", 2) % 8]
        gpu.aggregate.dram_corr = 214
        gpu.volatile.dram_corr = 3
        gpu.remap.corr = 4
        gpu.remap.high = 4


def _remove_job_log(world: ClusterState, modifier: Modifier, seed: int) -> None:
    world.job.has_log = False


def _lengthen_sequences(world: ClusterState, modifier: Modifier, seed: int) -> None:
    world.job.ranks[0].lines.insert(
        0, JobLine(world.job.started + 10, "[rank0] INFO resumed with seq_len=8192, the previous run had seq_len=4096", "python")
    )
    for rank in world.job.ranks:
        rank.lines = [JobLine(line.t, _double_step_time(line.text), line.stamp) for line in rank.lines]


def _double_step_time(text: str) -> str:
    head, mark, seconds = text.rpartition("step_time=")
    return f"{head}{mark}{float(seconds.rstrip('s')) * 2.05:.2f}s" if mark else text


def _stop_fabric_manager_without_switches(world: ClusterState, modifier: Modifier, seed: int) -> None:
    for node in choose_nodes(world, modifier, seed):
        service = node.services["nvidia-fabricmanager"]
        service.active = "inactive"
        service.sub = "dead"
        service.load = "loaded"
        service.result = "success"
        service.exit_status = 0
        text = "request to query NVSwitch device information from NVSwitch driver failed with error:WARNING Nothing to do [NV_WARN_NOTHING_TO_DO]"
        node.journal.append(JournalLine(-6 * HOUR, "nvidia-fabricmanager.service", "nv-fabricmanager", 4, text))


def _disable_ethernet_port(world: ClusterState, modifier: Modifier, seed: int) -> None:
    name = modifier.args.get("hca", "mlx5_1")
    for node in world.nodes.values():
        for hca in node.hcas:
            if hca.name == name:
                hca.link_layer = "Ethernet"
                hca.state = "Down"
                hca.phys = "Disabled"
                hca.rate = 100
                hca.lid = 0
                hca.sm_lid = 0
                hca.pkeys = ("0xffff",)
        node.env["NCCL_IB_HCA"] = ",".join(hca.name for hca in node.hcas if hca.name != name)
    for rank in world.job.ranks:
        rank.lines = [line for line in rank.lines if f"'{name}'" not in line.text]
        rank.lines = [JobLine(line.t, line.text.replace(f"[{name[5:]}]{name}:1/IB ", ""), line.stamp) for line in rank.lines]


def _add_user_interrupt(world: ClusterState, modifier: Modifier, seed: int) -> None:
    for node in choose_nodes(world, modifier, seed):
        gpu = node.gpus[modifier.whole("gpu", 1) % 8]
        for dt, code in ((0.0, 43), (0.4, 45)):
            text = f"NVRM: Xid (PCI:{gpu.pci}): {code}, pid=38117, name=python3, Ch 00000008"
            node.kernel_log.append(KernelLine(-4.2 * HOUR + dt, "warn", text))
        rank = world.job.of(node.name)[gpu.index]
        rank.lines.insert(
            0, JobLine(world.job.started + 1, f"[rank{rank.rank}] INFO previous run was stopped by the user (KeyboardInterrupt)", "python")
        )


CONTROLS: Mapping[str, Callable[[ClusterState, Modifier, int], None]] = {
    "H01": _add_stale_xid79,
    "H02": _add_benign_flood,
    "H03": _add_past_remaps,
    "H04": _remove_job_log,
    "H05": _lengthen_sequences,
    "H06": _stop_fabric_manager_without_switches,
    "H07": _disable_ethernet_port,
    "H08": _add_user_interrupt,
}
