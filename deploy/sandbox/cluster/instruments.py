"""The tools that the node kit runs as root, as they behave on a simulated machine: what they print, what they refuse, and what they change.

Pure: the world in, an outcome out. The cluster carries it out.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deploy.sandbox.cluster import scheduler
from deploy.sandbox.cluster.answer import Answer, said
from deploy.sandbox.cluster.grammar import fits
from deploy.sandbox.cluster.plan import Deed
from deploy.sandbox.cluster.render import nvidia
from deploy.sandbox.cluster.state import GpuState, NodeState, World


@dataclass(frozen=True, slots=True)
class Outcome:
    """`deeds` and `operation` are empty where nothing changes. `seconds`: how long it takes on the virtual clock. `reboots`: the machine goes down."""

    answer: Answer
    deeds: tuple[Deed, ...] = ()
    operation: str = ""
    gpu: int | None = None
    seconds: float = 0.2
    reboots: bool = False

    @property
    def changes(self) -> bool:
        """Whether anything is different afterwards."""
        return bool(self.deeds or self.operation or self.reboots)


@dataclass(frozen=True, slots=True)
class Place:
    """Where and when a tool is run. `node` is None on the controller. `told`: the arguments of the faults that are there, by fault."""

    world: World
    name: str
    at: float
    told: Mapping[str, Mapping[str, Any]]
    scheduler_refuses: str = ""

    @property
    def node(self) -> NodeState | None:
        """The GPU machine it runs on."""
        return self.world.nodes.get(self.name)


Slots = Mapping[str, str]
OnNode = Callable[[NodeState, Place, Slots], Outcome]

GSP_SECONDS = 9.0
"""The list of one GPU's processes comes from the kernel module; when the firmware is silent it comes late."""


def outcome(place: Place, argv: Sequence[str]) -> Outcome | None:
    """What a command does here; None for one that no remedy has."""
    for template, act in ON_NODES.items():
        slots = fits(tuple(template.split()), argv)
        if slots is not None:
            return act(place.node, place, slots) if place.node else Outcome(_not_found(argv[0]))
    for template, ask in ON_CONTROLLER.items():
        slots = fits(tuple(template.split()), argv)
        if slots is not None:
            asked = ask(place.world, place.at, slots, place.scheduler_refuses)
            return Outcome(asked.answer, (asked.deed,) if asked.deed else (), seconds=1.0)
    return None


def _not_found(word: str) -> Answer:
    return said("", 127, f"{word}: command not found\n")


# --- nvidia-smi ---------------------------------------------------------------------------------------------------------


def _process_list(node: NodeState, place: Place, slots: Slots) -> Outcome:
    if trouble := nvidia.failure(node):
        return Outcome(trouble)
    return Outcome(said("".join(f"{proc.pid}\n" for _, gpu in nvidia.listed(node) if gpu.answers for proc in gpu.procs)))


def _processes_of_one(node: NodeState, place: Place, slots: Slots) -> Outcome:
    gpu, trouble = _addressed(node, slots)
    if gpu is None:
        return Outcome(trouble)
    return Outcome(said("".join(f"{proc.pid}\n" for proc in gpu.procs)), seconds=GSP_SECONDS if gpu.hang else 0.2)


def _gpu_reset(node: NodeState, place: Place, slots: Slots) -> Outcome:
    gpu, trouble = _addressed(node, slots)
    if gpu is None:
        return Outcome(trouble)
    if gpu.procs or gpu.held:
        return Outcome(said(_IN_USE.format(bdf=_long(gpu)), 255))
    deed = Deed("gpu_reset", node.name, place.at, {"gpu": gpu.index, "asked": gpu.recovery_action != "None"})
    return Outcome(said(f"GPU {_long(gpu)} was successfully reset.\nAll done.\n"), (deed,), "gpu_reset", gpu.index, 90.0)


_IN_USE = (
    "The following GPUs could not be reset:\n  GPU {bdf}: In use by another client\n\n1 device is currently being used by one or more other "
    "processes (e.g., Fabric Manager, CUDA application, graphics application such as an X server, or a monitoring application such as another "
    "instance of nvidia-smi). Please first kill all processes using this device and all compute applications running in the system.\n"
)


def _locked_clocks(node: NodeState, place: Place, slots: Slots) -> Outcome:
    return _clocks(node, slots, "locked_clocks")


def _application_clocks(node: NodeState, place: Place, slots: Slots) -> Outcome:
    return _clocks(node, slots, "application_clocks")


def _clocks(node: NodeState, slots: Slots, operation: str) -> Outcome:
    gpu, trouble = _addressed(node, slots)
    if gpu is None:
        return Outcome(trouble)
    return Outcome(said("All done.\n"), (), operation, gpu.index, 1.0)


def _power_limit(node: NodeState, place: Place, slots: Slots) -> Outcome:
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


def _addressed(node: NodeState, slots: Slots) -> tuple[GpuState, Answer] | tuple[None, Answer]:
    """The GPU at an address, or why nvidia-smi cannot talk to it. That another one hangs does not concern it."""
    trouble = nvidia.failure(node)
    if trouble and not trouble.hangs:
        return None, trouble
    gpu = next((gpu for gpu in node.gpus if gpu.bdf == slots["bdf"] and not gpu.missing), None)
    if gpu is None:
        return None, said("No devices were found\n", 6)
    return (None, _lost(gpu)) if gpu.lost else (gpu, said(""))


def _lost(gpu: GpuState) -> Answer:
    text = f"Unable to determine the device handle for GPU{gpu.index}: {gpu.bdf.upper()}: GPU is lost.  Reboot the system to recover this GPU\n"
    return said(text, 15)


def _long(gpu: GpuState) -> str:
    return f"0000{gpu.bdf.upper()}"


# --- modules, units, processes ------------------------------------------------------------------------------------------


def _modprobe_peermem(node: NodeState, place: Place, slots: Slots) -> Outcome:
    if "nvidia_peermem" in node.modules:
        return Outcome(said(""))
    if not node.driver:
        return Outcome(said("", 1, f"modprobe: FATAL: Module nvidia-peermem not found in directory /lib/modules/{node.kernel}\n"))
    if place.told.get("S08", {}).get("misfit"):
        return Outcome(said("", 1, "modprobe: ERROR: could not insert 'nvidia_peermem': Invalid argument\n"))
    return Outcome(said(""), (), "modprobe", seconds=2.0)


def _restart_fabricmanager(node: NodeState, place: Place, slots: Slots) -> Outcome:
    unit = "nvidia-fabricmanager.service"
    if node.services["nvidia-fabricmanager"].load == "not-found":
        return Outcome(said("", 5, f"Failed to restart {unit}: Unit {unit} not found.\n"))
    if node.fm_version != node.driver:
        why = (
            f"fabric manager NVIDIA GPU driver interface version {node.fm_version} don't match with driver version "
            f"{node.driver or '(none loaded)'}. Please update with matching NVIDIA driver package."
        )
        text = (
            f"Job for {unit} failed because the control process exited with error code.\n"
            f'See "systemctl status {unit}" and "journalctl -xeu {unit}" for details.\n'
        )
        return Outcome(said("", 1, text), (Deed("fabricmanager", node.name, place.at, {"works": False, "why": why}),), seconds=6.0)
    deed = Deed("fabricmanager", node.name, place.at, {"works": True})
    return Outcome(said(""), (deed,), "restart_fabricmanager", seconds=20.0)


def _reboot(node: NodeState, place: Place, slots: Slots) -> Outcome:
    if node.inhibited:
        text = (
            'Operation inhibited by "Unattended Upgrades Shutdown" (PID 812 "unattended-upgr", user root), reason is "Upgrade in progress".\n'
            "Please retry operation after closing inhibitors and logging out other users.\n"
        )
        return Outcome(said("", 1, text))
    return Outcome(said(""), reboots=True, seconds=0.0)


def _kill(node: NodeState, place: Place, slots: Slots) -> Outcome:
    pid = int(slots["pid"])
    proc = next((proc for proc in node.procs if proc.pid == pid), None)
    if proc is None:
        return Outcome(said("", 1, f"kill: ({pid}): No such process\n"))
    gpu = next((gpu for gpu in node.gpus if any(row.pid == pid for row in gpu.procs)), None)
    deaf = bool(place.told.get("S18", {}).get("deaf")) and proc.ppid == 1 and gpu is not None and slots["signal"] == "TERM"
    if proc.stat.startswith("D") or deaf:
        return Outcome(said(""))  # the signal is delivered, and nothing comes of it
    rank = next((rank for rank in place.world.job.of(node.name) if rank.pid == pid), None)
    deed = Deed("kill", node.name, place.at, {"pid": pid} | ({"ends_job": True} if rank else {}))
    return Outcome(said(""), (deed,), "" if rank or gpu is None else "kill", gpu.index if gpu else None, 1.0)


ON_NODES: Mapping[str, OnNode] = {
    "nvidia-smi --query-compute-apps=pid --format=csv,noheader": _process_list,
    "nvidia-smi --query-compute-apps=pid --format=csv,noheader -i <bdf>": _processes_of_one,
    "nvidia-smi --gpu-reset -i <bdf>": _gpu_reset,
    "nvidia-smi -i <bdf> -rgc": _locked_clocks,
    "nvidia-smi -i <bdf> -rac": _application_clocks,
    "nvidia-smi -pl <watts>": _power_limit,
    "modprobe nvidia-peermem": _modprobe_peermem,
    "systemctl restart nvidia-fabricmanager.service": _restart_fabricmanager,
    "systemctl reboot": _reboot,
    "kill -<signal> <pid>": _kill,
}
"""Commands of a GPU machine, as the kit's conditions and remedies word them."""

ON_CONTROLLER: Mapping[str, Callable[[World, float, Slots, str], scheduler.Asked]] = {
    "scontrol update NodeName=<node> State=DRAIN Reason=<reason>": scheduler.drain,
    "scontrol update NodeName=<node> State=RESUME": scheduler.resume,
    "scancel <job>": scheduler.cancel,
}
"""Commands of the scheduler that change something."""
