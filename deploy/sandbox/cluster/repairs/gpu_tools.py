"""nvidia-smi as root on a simulated machine: output, refusals and changes."""

from collections.abc import Mapping

from deploy.sandbox.cluster.answer import ShellAnswer, said
from deploy.sandbox.cluster.machines.state import GpuState, NodeState
from deploy.sandbox.cluster.plan import Deed
from deploy.sandbox.cluster.render import nvidia
from deploy.sandbox.cluster.repairs.tool_run import OnNode, Outcome, Slots, ToolRun

GSP_SECONDS = 9.0  # One GPU's process list comes from the kernel module; with a silent GSP it is late.


def _process_list(node: NodeState, place: ToolRun, slots: Slots) -> Outcome:
    if trouble := nvidia.failure(node):
        return Outcome(trouble)
    return Outcome(said("".join(f"{proc.pid}\n" for _, gpu in nvidia.listed(node) if gpu.answers for proc in gpu.procs)))


def _processes_of_one(node: NodeState, place: ToolRun, slots: Slots) -> Outcome:
    gpu, trouble = _addressed(node, slots)
    if gpu is None:
        return Outcome(trouble)
    return Outcome(said("".join(f"{proc.pid}\n" for proc in gpu.procs)), seconds=GSP_SECONDS if gpu.hang else 0.2)


def _gpu_reset(node: NodeState, place: ToolRun, slots: Slots) -> Outcome:
    gpu, trouble = _addressed(node, slots)
    if gpu is None:
        return Outcome(trouble)
    if gpu.procs or gpu.held:
        return Outcome(said(_IN_USE.format(bdf=_long(gpu)), 255))
    deed = Deed("gpu_reset", node.name, place.at, {"gpu": gpu.index, "asked": gpu.recovery_action != "None"})
    also = ("mig_off",) if gpu.mig and gpu.mig_leaves else ()
    return Outcome(said(f"GPU {_long(gpu)} was successfully reset.\nAll done.\n"), (deed,), "gpu_reset", gpu.index, 90.0, also=also)


_IN_USE = (
    "The following GPUs could not be reset:\n  GPU {bdf}: In use by another client\n\n1 device is currently being used by one or more other "
    "processes (e.g., Fabric Manager, CUDA application, graphics application such as an X server, or a monitoring application such as another "
    "instance of nvidia-smi). Please first kill all processes using this device and all compute applications running in the system.\n"
)


def _locked_clocks(node: NodeState, place: ToolRun, slots: Slots) -> Outcome:
    return _clocks(node, slots, "locked_clocks")


def _application_clocks(node: NodeState, place: ToolRun, slots: Slots) -> Outcome:
    return _clocks(node, slots, "application_clocks")


def _clocks(node: NodeState, slots: Slots, operation: str) -> Outcome:
    gpu, trouble = _addressed(node, slots)
    if gpu is None:
        return Outcome(trouble)
    return Outcome(said("All done.\n"), (), operation, gpu.index, 1.0)


def _power_limit(node: NodeState, place: ToolRun, slots: Slots) -> Outcome:
    if trouble := nvidia.failure(node):
        return Outcome(trouble)
    watts, profile, there = float(slots["watts"]), node.profile, [gpu for _, gpu in nvidia.listed(node)]
    if not profile.power_min <= watts <= profile.power_limit:
        text = (
            f"Provided power limit {watts:.2f} W is not a valid power limit which should be between {profile.power_min:.2f} W and "
            f"{profile.power_limit:.2f} W for GPU {_long(there[0])}\nTerminating early due to previous errors.\n"
        )
        return Outcome(said(text, 2))
    if lost := next((gpu for gpu in there if gpu.lost), None):
        return Outcome(_lost(lost))
    rows = [f"Power limit for GPU {_long(gpu)} was set to {watts:.2f} W from {gpu.power_limit:.2f} W.\n" for gpu in there]
    deed = Deed("power_limit", node.name, place.at, {"watts": int(watts)})
    operation = "power_limit" if watts >= profile.power_limit else ""
    return Outcome(said("".join(rows) + "\nAll done.\n"), (deed,), operation, seconds=2.0)


def _compute_mode(node: NodeState, place: ToolRun, slots: Slots) -> Outcome:
    gpu, trouble = _addressed(node, slots)
    if gpu is None:
        return Outcome(trouble)
    return Outcome(said(f"Set compute mode to DEFAULT for GPU {_long(gpu)}.\nAll done.\n"), (), "compute_mode", gpu.index, 1.0)


def _persistence(node: NodeState, place: ToolRun, slots: Slots) -> Outcome:
    if trouble := nvidia.failure(node):
        return Outcome(trouble)
    rows = [f"Enabled persistence mode for GPU {_long(gpu)}.\n" for _, gpu in nvidia.listed(node)]
    return Outcome(said("".join(rows) + "All done.\n"), (Deed("persistence", node.name, place.at),), seconds=3.0)


def _mig_instances(node: NodeState, place: ToolRun, slots: Slots) -> Outcome:
    """`nvidia-smi mig -dci` and `-dgi`: a reset restores the instances only if MIG mode stays on."""
    gpu, trouble = _addressed(node, slots)
    if gpu is None:
        return Outcome(trouble)
    kind = "compute" if slots["instances"] == "-dci" else "GPU"
    if not gpu.mig:
        return Outcome(said(f"No {kind} instances found: Not Found\n", 6))
    if gpu.procs or gpu.held:
        return Outcome(said(f"Unable to destroy {kind} instance ID  0 from GPU  {gpu.index}: In use by another client\n", 19))
    return Outcome(said(f"Successfully destroyed {kind} instance ID  0 from GPU  {gpu.index}\n"))


def _mig_off(node: NodeState, place: ToolRun, slots: Slots) -> Outcome:
    """Disable MIG: at once from Hopper on, with the next reset on A100."""
    gpu, trouble = _addressed(node, slots)
    if gpu is None:
        return Outcome(trouble)
    if not gpu.mig:
        return Outcome(said(f"MIG Mode for GPU {_long(gpu)} is already disabled.\nAll done.\n"))
    if gpu.procs or gpu.held:
        return Outcome(
            said(
                f"Unable to disable MIG Mode for GPU {_long(gpu)}: In use by another client\nTerminating early due to previous errors.\n",
                19,
            )
        )
    if "A100" not in node.profile.product:
        return Outcome(said(f"Disabled MIG Mode for GPU {_long(gpu)}\nAll done.\n"), (), "mig_off", gpu.index, 4.0)
    text = (
        f"Warning: MIG mode is in pending disable state for GPU {_long(gpu)}:Reset required\n"
        f"Reboot the system or try nvidia-smi --gpu-reset to make MIG mode effective on GPU {_long(gpu)}\nAll done.\n"
    )
    return Outcome(said(text), (Deed("mig_leaves", node.name, place.at, {"gpu": gpu.index}),), seconds=2.0)


def _addressed(node: NodeState, slots: Slots) -> tuple[GpuState, ShellAnswer] | tuple[None, ShellAnswer]:
    """Return the GPU at an address, or nvidia-smi's error. Another GPU that hangs does not matter."""
    trouble = nvidia.failure(node)
    if trouble and not trouble.hangs:
        return None, trouble
    gpu = next((gpu for gpu in node.gpus if gpu.bdf == slots["bdf"] and not gpu.missing), None)
    if gpu is None:
        return None, said("No devices were found\n", 6)
    return (None, _lost(gpu)) if gpu.lost else (gpu, said(""))


def _lost(gpu: GpuState) -> ShellAnswer:
    text = f"Unable to determine the device handle for GPU{gpu.index}: {gpu.bdf.upper()}: GPU is lost.  Reboot the system to recover this GPU\n"
    return said(text, 15)


def _long(gpu: GpuState) -> str:
    return f"0000{gpu.bdf.upper()}"


TOOLS: Mapping[str, OnNode] = {
    "nvidia-smi --query-compute-apps=pid --format=csv,noheader": _process_list,
    "nvidia-smi --query-compute-apps=pid --format=csv,noheader -i <bdf>": _processes_of_one,
    "nvidia-smi --gpu-reset -i <bdf>": _gpu_reset,
    "nvidia-smi -i <bdf> -rgc": _locked_clocks,
    "nvidia-smi -i <bdf> -rac": _application_clocks,
    "nvidia-smi -i <bdf> -c 0": _compute_mode,
    "nvidia-smi mig -i <bdf> <instances>": _mig_instances,
    "nvidia-smi -i <bdf> -mig 0": _mig_off,
    "nvidia-smi -pl <watts>": _power_limit,
    "nvidia-smi -pm 1": _persistence,
}
