"""Effects of an action that do not depend on faults: a reset zeroes volatile counters, a reboot empties the ring buffer.
Effects on faults are in `remedies.py`.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

from deploy.sandbox.cluster.machines.healthy import COUNTERS, HW_COUNTERS
from deploy.sandbox.cluster.machines.log_lines import Job, JournalLine, KernelLine
from deploy.sandbox.cluster.machines.noise import build_boot_lines, build_harmless_journal
from deploy.sandbox.cluster.machines.profiles import get_driver_branch
from deploy.sandbox.cluster.machines.state import ClusterState, ControllerState, EccCounts, GpuState, NodeState
from deploy.sandbox.cluster.plan import MachineAction
from deploy.sandbox.cluster.seeded_random import make_token
from deploy.sandbox.cluster.simulation import remedies

FABRIC_MANAGER = "nvidia-fabricmanager"
MODULE_SIZES = {"nvidia": 56_778_752, "nvidia_uvm": 1_515_520, "nvidia_modeset": 1_306_624, "nvidia_drm": 77_824, "nvidia_peermem": 16_384}
# Seconds between the kernel's start and the machine's first answer, less if it went down later than that.
KERNEL_START_SECONDS = 45.0


def apply_action(world: ClusterState, action: MachineAction, seed: int) -> None:
    """Apply an action to the world."""
    if world.controller and action.node == world.controller.name:
        _apply_to_controller(world.controller, action, seed)
    elif action.node:
        ACTIONS[action.kind](world.nodes[action.node], action, world.job, seed)


def make_boot_id(seed: int, name: str, boots: int) -> str:
    """Return a machine's boot id after `boots` simulated boots."""
    return make_token(seed, name, "boot", boots)[:32] if boots else make_token(seed, name, "boot")[:32]


def _apply_to_controller(machine: ControllerState, action: MachineAction, seed: int) -> None:
    if action.kind == "down":
        machine.reachable = False
    elif action.kind == "boot":
        machine.boots += 1
        machine.reachable = True
        machine.boot_id = make_boot_id(seed, machine.name, machine.boots)


def _power_off(node: NodeState, action: MachineAction, job: Job, seed: int) -> None:
    node.reachable = False
    node.inhibited = False
    node.booted = action.at


def _boot_node(node: NodeState, action: MachineAction, job: Job, seed: int) -> None:
    """Reset everything in memory; disks, firmware and cables stay."""
    node.boots += 1
    node.reachable = True
    node.previous_boot_id, node.boot_id = node.boot_id, make_boot_id(seed, node.name, node.boots)
    began = max(action.at - KERNEL_START_SECONDS, min(node.booted, action.at))
    node.booted = began
    node.registered_gpus = sum(gpu.answers for gpu in node.gpus)
    _restart_logs(node, action.at, job)
    _restart_processes(node)
    for gpu in node.gpus:
        gpu.volatile = EccCounts()
        gpu.held = False
    for hca in node.hcas:
        hca.counters = dict.fromkeys(COUNTERS, 0)
        hca.hw_counters = dict.fromkeys(HW_COUNTERS, 0)
    node.oom_kills = dict.fromkeys((path for path in node.oom_kills if "/job_" not in path), 0)
    node.oom_hits = {}
    node.memory_used = node.memory_total // 40
    node.swap_used = 0


def _restart_logs(node: NodeState, up: float, job: Job) -> None:
    """Write the logs of a boot that took from `node.booted` to `up`; older lines become lines of the previous boot."""
    began, pace = node.booted, min((up - node.booted) / 30, 1.0)
    boot_lines = [
        line for line in build_boot_lines(node.profile, node.name, began, node.driver) if node.driver or not _is_driver_line(line)
    ]
    timed_lines = [replace(line, t=began + (line.t - began) * pace) for line in boot_lines]
    node.kernel_log = [replace(line, boot="before") if line.t < began else line for line in node.kernel_log] + timed_lines
    units = [line for line in build_harmless_journal(node.profile, began, node.driver, job) if began <= line.t <= began + 60]
    node.journal = [replace(line, boot="before") if line.t < began else line for line in node.journal]
    node.journal += [replace(line, t=began + (line.t - began) * (up - began) / 60) for line in units]


def _is_driver_line(line: KernelLine) -> bool:
    return "nvidia" in line.text.lower() or "NVRM" in line.text


def _restart_processes(node: NodeState) -> None:
    """Restart system processes; drop others that started before the boot."""
    for proc in node.procs:
        if proc.user == "root" and not proc.comm.startswith("slurmstepd"):
            proc.started = max(proc.started, node.booted)
    node.procs = [proc for proc in node.procs if proc.started >= node.booted]
    alive = {proc.pid for proc in node.procs}
    for gpu in node.gpus:
        gpu.procs = [proc for proc in gpu.procs if proc.pid in alive]


def _reset_gpu(node: NodeState, action: MachineAction, job: Job, seed: int) -> None:
    gpu = node.gpus[action.args["gpu"]]
    gpu.volatile = EccCounts()
    if gpu.remap.pending:
        gpu.remap.pending, gpu.remap.unc, gpu.remap.high = False, gpu.remap.unc + 1, gpu.remap.high + 1
    node.kernel_log += [KernelLine(action.at, "info", f"nvidia {gpu.bdf}: {text}") for text in ("resetting", "reset done")]
    if action.args.get("asked") and get_driver_branch(node.driver) >= 570:
        text = "154, pid='<unknown>', name=<unknown>, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)"
        node.kernel_log.append(KernelLine(action.at, "warn", f"NVRM: Xid (PCI:{gpu.pci}): {text}"))


def _scar_gpu(node: NodeState, action: MachineAction, job: Job, seed: int) -> None:
    effect = remedies.EFFECTS[action.args["fault"], action.args["operation"]]
    if effect.scar:
        effect.scar(node.gpus[action.args["gpu"]])


def _set_power_limit(node: NodeState, action: MachineAction, job: Job, seed: int) -> None:
    for gpu in node.gpus:
        gpu.power_limit = action.args["watts"]
        if gpu.power_draw > gpu.power_limit:
            gpu.power_draw = gpu.power_limit - 0.7
            gpu.reasons.sw_power_cap = True
            gpu.reasons.idle = False


def _kill_process(node: NodeState, action: MachineAction, job: Job, seed: int) -> None:
    _remove_process(node, action.args["pid"])


def _remove_process(node: NodeState, pid: int) -> None:
    node.procs = [proc for proc in node.procs if proc.pid != pid]
    for gpu in node.gpus:
        gpu.procs = [proc for proc in gpu.procs if proc.pid != pid]


def _reuse_pid(node: NodeState, action: MachineAction, job: Job, seed: int) -> None:
    """Replace the process by an unrelated one with the same pid."""
    old = next(proc for proc in node.procs if proc.pid == action.args["pid"])
    _remove_process(node, old.pid)
    node.procs.append(
        replace(old, ppid=1, user="carol", started=action.at, stat="S", cpu=0.1, cgroup="/user.slice", comm="vim", args="vim notes")
    )


def _restart_fabric_manager(node: NodeState, action: MachineAction, job: Job, seed: int) -> None:
    """Restart the fabric manager and log it in the journal."""
    unit, service = f"{FABRIC_MANAGER}.service", node.services[FABRIC_MANAGER]
    rows: list[tuple[int, str, str]] = [(6, "systemd", "Starting NVIDIA fabric manager service...")]
    if action.args["works"]:
        service.active = "active"
        service.sub = "running"
        service.result = "success"
        service.exit_status = 0
        rows += [
            (6, "nv-fabricmanager", "Successfully configured all the available NVSwitches to route GPU NVLink traffic."),
            (6, "systemd", "Started NVIDIA fabric manager service."),
        ]
    else:
        rows += [
            (3, "nv-fabricmanager", str(action.args["why"])),
            (4, "systemd", f"{unit}: Control process exited, code=exited, status=1/FAILURE"),
            (4, "systemd", f"{unit}: Failed with result 'exit-code'."),
        ]
        service.active = "failed"
        service.sub = "failed"
        service.result = "exit-code"
        service.exit_status = 1
    node.journal += [JournalLine(action.at, unit, who, priority, text) for priority, who, text in rows]


def _drain_node(node: NodeState, action: MachineAction, job: Job, seed: int) -> None:
    node.drain = action.args["reason"]


def _mark_node(node: NodeState, action: MachineAction, job: Job, seed: int) -> None:
    node.mark = action.args["reason"]


def _resume_node(node: NodeState, action: MachineAction, job: Job, seed: int) -> None:
    node.drain = ""


def _hold_gpu(node: NodeState, action: MachineAction, job: Job, seed: int) -> None:
    gpu: GpuState = node.gpus[action.args["gpu"]]
    gpu.held = True


def _inhibit_reboot(node: NodeState, action: MachineAction, job: Job, seed: int) -> None:
    node.inhibited = True


def _change_module(node: NodeState, action: MachineAction, job: Job, seed: int) -> None:
    """Load or unload a module. Driver-internal state belongs to the faults."""
    if action.args["loaded"]:
        node.modules[action.args["name"]] = MODULE_SIZES.get(action.args["name"], 16384)
    else:
        node.modules.pop(action.args["name"], None)


def _change_service(node: NodeState, action: MachineAction, job: Job, seed: int) -> None:
    service, name = node.services[action.args["unit"]], f"{action.args['unit']}.service"
    running = bool(action.args["active"])
    service.active, service.sub = ("active", "running") if running else ("inactive", "dead")
    service.result = "success"
    service.exit_status = 0
    node.journal.append(JournalLine(action.at, name, "systemd", 6, f"{'Started' if running else 'Stopped'} {name}."))


def _install_driver(node: NodeState, action: MachineAction, job: Job, seed: int) -> None:
    """Build the driver for the running kernel."""
    node.kernel = action.args["kernel"]
    node.driver_disk = node.driver_user
    node.dkms = [f"nvidia/{node.driver_user}, {node.kernel}, x86_64: installed"]


def _configure_engine(node: NodeState, action: MachineAction, job: Job, seed: int) -> None:
    node.environment.configured = True


def _schedule_mig_off(node: NodeState, action: MachineAction, job: Job, seed: int) -> None:
    node.gpus[action.args["gpu"]].mig_leaves = True


def _enable_persistence(node: NodeState, action: MachineAction, job: Job, seed: int) -> None:
    for gpu in node.gpus:
        gpu.persistence = True


def _do_nothing(node: NodeState, action: MachineAction, job: Job, seed: int) -> None:
    """Do nothing: `cancel` and `job` are applied with the job's runs."""


ACTIONS: Mapping[str, Callable[[NodeState, MachineAction, Job, int], None]] = {
    "boot": _boot_node,
    "built": _install_driver,
    "configured": _configure_engine,
    "mig_leaves": _schedule_mig_off,
    "module": _change_module,
    "persistence": _enable_persistence,
    "service": _change_service,
    "cancel": _do_nothing,
    "down": _power_off,
    "drain": _drain_node,
    "mark": _mark_node,
    "fabricmanager": _restart_fabric_manager,
    "gpu_reset": _reset_gpu,
    "hold": _hold_gpu,
    "inhibit": _inhibit_reboot,
    "job": _do_nothing,
    "kill": _kill_process,
    "nothing": _do_nothing,
    "power_limit": _set_power_limit,
    "resume": _resume_node,
    "reuse": _reuse_pid,
    "scar": _scar_gpu,
}
