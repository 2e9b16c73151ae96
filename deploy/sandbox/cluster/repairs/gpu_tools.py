"""nvidia-smi as root on a simulated machine: output, refusals and changes."""

from collections.abc import Mapping

from deploy.sandbox.cluster.answer import ShellAnswer, text_answer
from deploy.sandbox.cluster.machines.state import GpuState, NodeState
from deploy.sandbox.cluster.plan import MachineAction
from deploy.sandbox.cluster.render import nvidia
from deploy.sandbox.cluster.repairs.tool_run import NodeTool, Slots, ToolOutcome, ToolRun

SILENT_GSP_SECONDS = 9.0  # One GPU's process list comes from the kernel module; with a silent GSP it is late.


def _list_processes(node: NodeState, tool_run: ToolRun, slots: Slots) -> ToolOutcome:
    if trouble := nvidia.find_failure(node):
        return ToolOutcome(trouble)
    return ToolOutcome(text_answer("".join(f"{proc.pid}\n" for _, gpu in nvidia.list_gpus(node) if gpu.answers for proc in gpu.procs)))


def _list_gpu_processes(node: NodeState, tool_run: ToolRun, slots: Slots) -> ToolOutcome:
    gpu, trouble = _find_gpu(node, slots)
    if gpu is None:
        return ToolOutcome(trouble)
    return ToolOutcome(text_answer("".join(f"{proc.pid}\n" for proc in gpu.procs)), seconds=SILENT_GSP_SECONDS if gpu.hang else 0.2)


def _reset_gpu(node: NodeState, tool_run: ToolRun, slots: Slots) -> ToolOutcome:
    gpu, trouble = _find_gpu(node, slots)
    if gpu is None:
        return ToolOutcome(trouble)
    if gpu.procs or gpu.held:
        return ToolOutcome(text_answer(_IN_USE_TEXT.format(bdf=_get_long_address(gpu)), 255))
    action = MachineAction("gpu_reset", node.name, tool_run.at, {"gpu": gpu.index, "asked": gpu.recovery_action != "None"})
    further_operations = ("mig_off",) if gpu.mig and gpu.mig_leaves else ()
    return ToolOutcome(
        text_answer(f"GPU {_get_long_address(gpu)} was successfully reset.\nAll done.\n"),
        (action,),
        "gpu_reset",
        gpu.index,
        90.0,
        further_operations=further_operations,
    )


_IN_USE_TEXT = (
    "The following GPUs could not be reset:\n  GPU {bdf}: In use by another client\n\n1 device is currently being used by one or more other "
    "processes (e.g., Fabric Manager, CUDA application, graphics application such as an X server, or a monitoring application such as another "
    "instance of nvidia-smi). Please first kill all processes using this device and all compute applications running in the system.\n"
)


def _reset_locked_clocks(node: NodeState, tool_run: ToolRun, slots: Slots) -> ToolOutcome:
    return _reset_clocks(node, slots, "locked_clocks")


def _reset_application_clocks(node: NodeState, tool_run: ToolRun, slots: Slots) -> ToolOutcome:
    return _reset_clocks(node, slots, "application_clocks")


def _reset_clocks(node: NodeState, slots: Slots, operation: str) -> ToolOutcome:
    gpu, trouble = _find_gpu(node, slots)
    if gpu is None:
        return ToolOutcome(trouble)
    return ToolOutcome(text_answer("All done.\n"), (), operation, gpu.index, 1.0)


def _set_power_limit(node: NodeState, tool_run: ToolRun, slots: Slots) -> ToolOutcome:
    if trouble := nvidia.find_failure(node):
        return ToolOutcome(trouble)
    watts, profile, there = float(slots["watts"]), node.profile, [gpu for _, gpu in nvidia.list_gpus(node)]
    if not profile.power_min <= watts <= profile.power_limit:
        text = (
            f"Provided power limit {watts:.2f} W is not a valid power limit which should be between {profile.power_min:.2f} W and "
            f"{profile.power_limit:.2f} W for GPU {_get_long_address(there[0])}\nTerminating early due to previous errors.\n"
        )
        return ToolOutcome(text_answer(text, 2))
    if lost := next((gpu for gpu in there if gpu.lost), None):
        return ToolOutcome(_refuse_lost_gpu(lost))
    rows = [f"Power limit for GPU {_get_long_address(gpu)} was set to {watts:.2f} W from {gpu.power_limit:.2f} W.\n" for gpu in there]
    action = MachineAction("power_limit", node.name, tool_run.at, {"watts": int(watts)})
    operation = "power_limit" if watts >= profile.power_limit else ""
    return ToolOutcome(text_answer("".join(rows) + "\nAll done.\n"), (action,), operation, seconds=2.0)


def _set_compute_mode(node: NodeState, tool_run: ToolRun, slots: Slots) -> ToolOutcome:
    gpu, trouble = _find_gpu(node, slots)
    if gpu is None:
        return ToolOutcome(trouble)
    return ToolOutcome(
        text_answer(f"Set compute mode to DEFAULT for GPU {_get_long_address(gpu)}.\nAll done.\n"), (), "compute_mode", gpu.index, 1.0
    )


def _enable_persistence(node: NodeState, tool_run: ToolRun, slots: Slots) -> ToolOutcome:
    if trouble := nvidia.find_failure(node):
        return ToolOutcome(trouble)
    rows = [f"Enabled persistence mode for GPU {_get_long_address(gpu)}.\n" for _, gpu in nvidia.list_gpus(node)]
    return ToolOutcome(text_answer("".join(rows) + "All done.\n"), (MachineAction("persistence", node.name, tool_run.at),), seconds=3.0)


def _delete_mig_instances(node: NodeState, tool_run: ToolRun, slots: Slots) -> ToolOutcome:
    """`nvidia-smi mig -dci` and `-dgi`: a reset restores the instances only if MIG mode stays on."""
    gpu, trouble = _find_gpu(node, slots)
    if gpu is None:
        return ToolOutcome(trouble)
    kind = "compute" if slots["instances"] == "-dci" else "GPU"
    if not gpu.mig:
        return ToolOutcome(text_answer(f"No {kind} instances found: Not Found\n", 6))
    if gpu.procs or gpu.held:
        return ToolOutcome(text_answer(f"Unable to destroy {kind} instance ID  0 from GPU  {gpu.index}: In use by another client\n", 19))
    return ToolOutcome(text_answer(f"Successfully destroyed {kind} instance ID  0 from GPU  {gpu.index}\n"))


def _disable_mig(node: NodeState, tool_run: ToolRun, slots: Slots) -> ToolOutcome:
    """Disable MIG: at once from Hopper on, with the next reset on A100."""
    gpu, trouble = _find_gpu(node, slots)
    if gpu is None:
        return ToolOutcome(trouble)
    if not gpu.mig:
        return ToolOutcome(text_answer(f"MIG Mode for GPU {_get_long_address(gpu)} is already disabled.\nAll done.\n"))
    if gpu.procs or gpu.held:
        return ToolOutcome(
            text_answer(
                f"Unable to disable MIG Mode for GPU {_get_long_address(gpu)}: In use by another client\nTerminating early due to previous errors.\n",
                19,
            )
        )
    if "A100" not in node.profile.product:
        return ToolOutcome(text_answer(f"Disabled MIG Mode for GPU {_get_long_address(gpu)}\nAll done.\n"), (), "mig_off", gpu.index, 4.0)
    text = (
        f"Warning: MIG mode is in pending disable state for GPU {_get_long_address(gpu)}:Reset required\n"
        f"Reboot the system or try nvidia-smi --gpu-reset to make MIG mode effective on GPU {_get_long_address(gpu)}\nAll done.\n"
    )
    return ToolOutcome(text_answer(text), (MachineAction("mig_leaves", node.name, tool_run.at, {"gpu": gpu.index}),), seconds=2.0)


def _find_gpu(node: NodeState, slots: Slots) -> tuple[GpuState, ShellAnswer] | tuple[None, ShellAnswer]:
    """Return the GPU at an address, or nvidia-smi's error. Another GPU that hangs does not matter."""
    trouble = nvidia.find_failure(node)
    if trouble and not trouble.hangs:
        return None, trouble
    gpu = next((gpu for gpu in node.gpus if gpu.bdf == slots["bdf"] and not gpu.missing), None)
    if gpu is None:
        return None, text_answer("No devices were found\n", 6)
    return (None, _refuse_lost_gpu(gpu)) if gpu.lost else (gpu, text_answer(""))


def _refuse_lost_gpu(gpu: GpuState) -> ShellAnswer:
    text = f"Unable to determine the device handle for GPU{gpu.index}: {gpu.bdf.upper()}: GPU is lost.  Reboot the system to recover this GPU\n"
    return text_answer(text, 15)


def _get_long_address(gpu: GpuState) -> str:
    return f"0000{gpu.bdf.upper()}"


TOOLS: Mapping[str, NodeTool] = {
    "nvidia-smi --query-compute-apps=pid --format=csv,noheader": _list_processes,
    "nvidia-smi --query-compute-apps=pid --format=csv,noheader -i <bdf>": _list_gpu_processes,
    "nvidia-smi --gpu-reset -i <bdf>": _reset_gpu,
    "nvidia-smi -i <bdf> -rgc": _reset_locked_clocks,
    "nvidia-smi -i <bdf> -rac": _reset_application_clocks,
    "nvidia-smi -i <bdf> -c 0": _set_compute_mode,
    "nvidia-smi mig -i <bdf> <instances>": _delete_mig_instances,
    "nvidia-smi -i <bdf> -mig 0": _disable_mig,
    "nvidia-smi -pl <watts>": _set_power_limit,
    "nvidia-smi -pm 1": _enable_persistence,
}
