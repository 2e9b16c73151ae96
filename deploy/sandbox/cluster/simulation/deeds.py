"""Effects of a deed that do not depend on faults: a reset zeroes volatile counters, a reboot empties the ring buffer.
Effects on faults are in `remedies.py`.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

from deploy.sandbox.cluster.chance import token
from deploy.sandbox.cluster.machines.healthy import COUNTERS, HW_COUNTERS
from deploy.sandbox.cluster.machines.lines import Job, JournalLine, KernelLine
from deploy.sandbox.cluster.machines.noise import boot_lines, quiet_journal
from deploy.sandbox.cluster.machines.profiles import branch
from deploy.sandbox.cluster.machines.state import ClusterState, ControllerState, EccCounts, GpuState, NodeState
from deploy.sandbox.cluster.plan import Deed
from deploy.sandbox.cluster.simulation import remedies

FM = "nvidia-fabricmanager"
SIZES = {"nvidia": 56_778_752, "nvidia_uvm": 1_515_520, "nvidia_modeset": 1_306_624, "nvidia_drm": 77_824, "nvidia_peermem": 16_384}
# Seconds between the kernel's start and the machine's first answer, less if it went down later than that.
KERNEL_STARTS = 45.0


def do(world: ClusterState, deed: Deed, seed: int) -> None:
    """Apply a deed to the world."""
    if world.controller and deed.node == world.controller.name:
        _controller(world.controller, deed, seed)
    elif deed.node:
        DEEDS[deed.what](world.nodes[deed.node], deed, world.job, seed)


def boot_id(seed: int, name: str, boots: int) -> str:
    """Return a machine's boot id after `boots` simulated boots."""
    return token(seed, name, "boot", boots)[:32] if boots else token(seed, name, "boot")[:32]


def _controller(machine: ControllerState, deed: Deed, seed: int) -> None:
    if deed.what == "down":
        machine.reachable = False
    elif deed.what == "boot":
        machine.boots += 1
        machine.reachable, machine.boot_id = True, boot_id(seed, machine.name, machine.boots)


def _down(node: NodeState, deed: Deed, job: Job, seed: int) -> None:
    node.reachable, node.inhibited = False, False
    node.booted = deed.at


def _boot(node: NodeState, deed: Deed, job: Job, seed: int) -> None:
    """Reset everything in memory; disks, firmware and cables stay."""
    node.boots += 1
    node.reachable = True
    node.previous_boot_id, node.boot_id = node.boot_id, boot_id(seed, node.name, node.boots)
    began = max(deed.at - KERNEL_STARTS, min(node.booted, deed.at))
    node.booted = began
    node.registered_gpus = sum(gpu.answers for gpu in node.gpus)
    _logs_start_again(node, deed.at, job)
    _processes_start_again(node)
    for gpu in node.gpus:
        gpu.volatile, gpu.held = EccCounts(), False
    for hca in node.hcas:
        hca.counters, hca.hw_counters = dict.fromkeys(COUNTERS, 0), dict.fromkeys(HW_COUNTERS, 0)
    node.oom_kills = dict.fromkeys((path for path in node.oom_kills if "/job_" not in path), 0)
    node.oom_hits = {}
    node.memory_used, node.swap_used = node.memory_total // 40, 0


def _logs_start_again(node: NodeState, up: float, job: Job) -> None:
    began, pace = node.booted, min((up - node.booted) / 30, 1.0)
    fresh = [line for line in boot_lines(node.profile, node.name, began, node.driver) if node.driver or not _of_driver(line)]
    said = [replace(line, t=began + (line.t - began) * pace) for line in fresh]
    node.kernel_log = [replace(line, boot="before") if line.t < began else line for line in node.kernel_log] + said
    units = [line for line in quiet_journal(node.profile, began, node.driver, job) if began <= line.t <= began + 60]
    node.journal = [replace(line, boot="before") if line.t < began else line for line in node.journal]
    node.journal += [replace(line, t=began + (line.t - began) * (up - began) / 60) for line in units]


def _of_driver(line: KernelLine) -> bool:
    return "nvidia" in line.text.lower() or "NVRM" in line.text


def _processes_start_again(node: NodeState) -> None:
    """Restart system processes; drop others that started before the boot."""
    for proc in node.procs:
        if proc.user == "root" and not proc.comm.startswith("slurmstepd"):
            proc.started = max(proc.started, node.booted)
    node.procs = [proc for proc in node.procs if proc.started >= node.booted]
    alive = {proc.pid for proc in node.procs}
    for gpu in node.gpus:
        gpu.procs = [proc for proc in gpu.procs if proc.pid in alive]


def _gpu_reset(node: NodeState, deed: Deed, job: Job, seed: int) -> None:
    gpu = node.gpus[deed.args["gpu"]]
    gpu.volatile = EccCounts()
    if gpu.remap.pending:
        gpu.remap.pending, gpu.remap.unc, gpu.remap.high = False, gpu.remap.unc + 1, gpu.remap.high + 1
    node.kernel_log += [KernelLine(deed.at, "info", f"nvidia {gpu.bdf}: {text}") for text in ("resetting", "reset done")]
    if deed.args.get("asked") and branch(node.driver) >= 570:
        text = "154, pid='<unknown>', name=<unknown>, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)"
        node.kernel_log.append(KernelLine(deed.at, "warn", f"NVRM: Xid (PCI:{gpu.pci}): {text}"))


def _scar(node: NodeState, deed: Deed, job: Job, seed: int) -> None:
    effect = remedies.EFFECTS[deed.args["fault"], deed.args["operation"]]
    if effect.scar:
        effect.scar(node.gpus[deed.args["gpu"]])


def _power_limit(node: NodeState, deed: Deed, job: Job, seed: int) -> None:
    for gpu in node.gpus:
        gpu.power_limit = deed.args["watts"]
        if gpu.power_draw > gpu.power_limit:
            gpu.power_draw, gpu.reasons.sw_power_cap, gpu.reasons.idle = gpu.power_limit - 0.7, True, False


def _kill(node: NodeState, deed: Deed, job: Job, seed: int) -> None:
    _end(node, deed.args["pid"])


def _end(node: NodeState, pid: int) -> None:
    node.procs = [proc for proc in node.procs if proc.pid != pid]
    for gpu in node.gpus:
        gpu.procs = [proc for proc in gpu.procs if proc.pid != pid]


def _reuse(node: NodeState, deed: Deed, job: Job, seed: int) -> None:
    """Replace the process by an unrelated one with the same pid."""
    old = next(proc for proc in node.procs if proc.pid == deed.args["pid"])
    _end(node, old.pid)
    node.procs.append(
        replace(old, ppid=1, user="carol", started=deed.at, stat="S", cpu=0.1, cgroup="/user.slice", comm="vim", args="vim notes")
    )


def _fabricmanager(node: NodeState, deed: Deed, job: Job, seed: int) -> None:
    """Restart the fabric manager and log it in the journal."""
    unit, service = f"{FM}.service", node.services[FM]
    rows: list[tuple[int, str, str]] = [(6, "systemd", "Starting NVIDIA fabric manager service...")]
    if deed.args["works"]:
        service.active, service.sub, service.result, service.exit_status = "active", "running", "success", 0
        rows += [
            (6, "nv-fabricmanager", "Successfully configured all the available NVSwitches to route GPU NVLink traffic."),
            (6, "systemd", "Started NVIDIA fabric manager service."),
        ]
    else:
        rows += [
            (3, "nv-fabricmanager", str(deed.args["why"])),
            (4, "systemd", f"{unit}: Control process exited, code=exited, status=1/FAILURE"),
            (4, "systemd", f"{unit}: Failed with result 'exit-code'."),
        ]
        service.active, service.sub, service.result, service.exit_status = "failed", "failed", "exit-code", 1
    node.journal += [JournalLine(deed.at, unit, who, priority, text) for priority, who, text in rows]


def _drain(node: NodeState, deed: Deed, job: Job, seed: int) -> None:
    node.drain = deed.args["reason"]


def _mark(node: NodeState, deed: Deed, job: Job, seed: int) -> None:
    node.mark = deed.args["reason"]


def _resume(node: NodeState, deed: Deed, job: Job, seed: int) -> None:
    node.drain = ""


def _hold(node: NodeState, deed: Deed, job: Job, seed: int) -> None:
    gpu: GpuState = node.gpus[deed.args["gpu"]]
    gpu.held = True


def _inhibit(node: NodeState, deed: Deed, job: Job, seed: int) -> None:
    node.inhibited = True


def _module(node: NodeState, deed: Deed, job: Job, seed: int) -> None:
    """Load or unload a module. Driver-internal state belongs to the faults."""
    if deed.args["loaded"]:
        node.modules[deed.args["name"]] = SIZES.get(deed.args["name"], 16384)
    else:
        node.modules.pop(deed.args["name"], None)


def _service(node: NodeState, deed: Deed, job: Job, seed: int) -> None:
    service, name = node.services[deed.args["unit"]], f"{deed.args['unit']}.service"
    running = bool(deed.args["active"])
    service.active, service.sub = ("active", "running") if running else ("inactive", "dead")
    service.result, service.exit_status = "success", 0
    node.journal.append(JournalLine(deed.at, name, "systemd", 6, f"{'Started' if running else 'Stopped'} {name}."))


def _built(node: NodeState, deed: Deed, job: Job, seed: int) -> None:
    """Build the driver for the running kernel."""
    node.kernel, node.driver_disk = deed.args["kernel"], node.driver_user
    node.dkms = [f"nvidia/{node.driver_user}, {node.kernel}, x86_64: installed"]


def _configured(node: NodeState, deed: Deed, job: Job, seed: int) -> None:
    node.around.configured = True


def _mig_leaves(node: NodeState, deed: Deed, job: Job, seed: int) -> None:
    node.gpus[deed.args["gpu"]].mig_leaves = True


def _persistence(node: NodeState, deed: Deed, job: Job, seed: int) -> None:
    for gpu in node.gpus:
        gpu.persistence = True


def _nothing(node: NodeState, deed: Deed, job: Job, seed: int) -> None:
    """Do nothing: `cancel` and `job` are applied with the job's runs."""


DEEDS: Mapping[str, Callable[[NodeState, Deed, Job, int], None]] = {
    "boot": _boot,
    "built": _built,
    "configured": _configured,
    "mig_leaves": _mig_leaves,
    "module": _module,
    "persistence": _persistence,
    "service": _service,
    "cancel": _nothing,
    "down": _down,
    "drain": _drain,
    "mark": _mark,
    "fabricmanager": _fabricmanager,
    "gpu_reset": _gpu_reset,
    "hold": _hold,
    "inhibit": _inhibit,
    "job": _nothing,
    "kill": _kill,
    "nothing": _nothing,
    "power_limit": _power_limit,
    "resume": _resume,
    "reuse": _reuse,
    "scar": _scar,
}
