"""The node kit's commands for modules, units, processes, containers, clock and disk: output, refusals and changes."""

from collections.abc import Mapping

from deploy.sandbox.cluster.answer import ShellAnswer, said
from deploy.sandbox.cluster.machines.state import NodeState
from deploy.sandbox.cluster.plan import Deed
from deploy.sandbox.cluster.render import containers
from deploy.sandbox.cluster.repairs.tool_run import OnNode, Outcome, Slots, ToolRun
from deploy.sandbox.cluster.simulation.deeds import FM
from tools.remedies.scripts import CLEANED_FOLDERS

# modules that must be unloaded before the key
DEPENDS: Mapping[str, tuple[str, ...]] = {
    "nvidia": ("nvidia_peermem", "nvidia_fs", "gdrdrv", "nvidia_uvm", "nvidia_modeset"), "nvidia_modeset": ("nvidia_drm",),
}  # fmt: skip

_FAILED = (
    "Job for {unit} failed because the control process exited with error code.\n"
    'See "systemctl status {unit}" and "journalctl -xeu {unit}" for details.\n'
)


def _modprobe_peermem(node: NodeState, place: ToolRun, slots: Slots) -> Outcome:
    if "nvidia_peermem" in node.modules:
        return Outcome(said(""))
    if not node.driver:
        return Outcome(said("", 1, f"modprobe: FATAL: Module nvidia-peermem not found in directory /lib/modules/{node.kernel}\n"))
    if place.told.get("S08", {}).get("misfit"):
        return Outcome(said("", 1, "modprobe: ERROR: could not insert 'nvidia_peermem': Invalid argument\n"))
    return Outcome(said(""), (), "modprobe", seconds=2.0)


def _restart_fabricmanager(node: NodeState, place: ToolRun, slots: Slots) -> Outcome:
    unit = "nvidia-fabricmanager.service"
    if node.services["nvidia-fabricmanager"].load == "not-found":
        return Outcome(said("", 5, f"Failed to restart {unit}: Unit {unit} not found.\n"))
    if node.fm_version != node.driver:
        why = (
            f"fabric manager NVIDIA GPU driver interface version {node.fm_version} don't match with driver version "
            f"{node.driver or '(none loaded)'}. Please update with matching NVIDIA driver package."
        )
        return Outcome(
            said("", 1, _FAILED.format(unit=unit)), (Deed("fabricmanager", node.name, place.at, {"works": False, "why": why}),), seconds=6.0
        )
    deed = Deed("fabricmanager", node.name, place.at, {"works": True})
    return Outcome(said(""), (deed,), "restart_fabricmanager", seconds=20.0)


def _reboot(node: NodeState, place: ToolRun, slots: Slots) -> Outcome:
    if node.inhibited:
        text = (
            'Operation inhibited by "Unattended Upgrades Shutdown" (PID 812 "unattended-upgr", user root), reason is "Upgrade in progress".\n'
            "Please retry operation after closing inhibitors and logging out other users.\n"
        )
        return Outcome(said("", 1, text))
    return Outcome(said(""), reboots=True, seconds=0.0)


def _kill(node: NodeState, place: ToolRun, slots: Slots) -> Outcome:
    pid = int(slots["pid"])
    proc = next((proc for proc in node.procs if proc.pid == pid), None)
    if proc is None:
        return Outcome(said("", 1, f"kill: ({pid}): No such process\n"))
    gpu = next((gpu for gpu in node.gpus if any(row.pid == pid for row in gpu.procs)), None)
    deaf = bool(place.told.get("S18", {}).get("deaf")) and proc.ppid == 1 and gpu is not None and slots["signal"] == "TERM"
    if proc.stat.startswith("D") or deaf:
        return Outcome(said(""))  # the signal is delivered without effect
    rank = next((rank for rank in place.world.job.of(node.name) if rank.pid == pid), None)
    deed = Deed("kill", node.name, place.at, {"pid": pid} | ({"ends_job": True} if rank else {}))
    return Outcome(said(""), (deed,), "" if rank or gpu is None else "kill", gpu.index if gpu else None, 1.0)


def _rmmod(node: NodeState, place: ToolRun, slots: Slots) -> Outcome:
    name = slots["module"]
    if name not in node.modules:
        return Outcome(said("", 1, f"rmmod: ERROR: Module {name} is not currently loaded\n"))
    above = [other for other in DEPENDS.get(name, ()) if other in node.modules]
    if above:
        return Outcome(said("", 1, f"rmmod: ERROR: Module {name} is in use by: {' '.join(above)}\n"))
    if (name == "nvidia_uvm" and any(gpu.procs for gpu in node.gpus)) or (name == "nvidia" and _holders(node)):
        return Outcome(said("", 1, f"rmmod: ERROR: Module {name} is in use\n"))
    return Outcome(said(""), (Deed("module", node.name, place.at, {"name": name, "loaded": False}),), seconds=1.0)


def _holders(node: NodeState) -> bool:
    """Return whether a daemon or a GPU reservation has the driver open."""
    running = [
        name for name in ("nvidia-persistenced", "nvidia-dcgm", FM) if name in node.services and node.services[name].active == "active"
    ]
    return bool(running) or any(gpu.held for gpu in node.gpus)


def _modprobe(node: NodeState, place: ToolRun, slots: Slots) -> Outcome:
    name = slots["module"].replace("-", "_")
    if name in node.modules:
        return Outcome(said(""))
    if not node.driver_disk:
        return Outcome(said("", 1, f"modprobe: FATAL: Module {name} not found in directory /lib/modules/{node.kernel}\n"))
    deed = Deed("module", node.name, place.at, {"name": name, "loaded": True})
    return Outcome(said(""), (deed,), "load_driver" if name == "nvidia" else "", seconds=12.0 if name == "nvidia" else 2.0)


def _dkms(node: NodeState, place: ToolRun, slots: Slots) -> Outcome:
    if place.told.get("S03", {}).get("headers") == "missing":
        text = (
            f"Error! Your kernel headers for kernel {node.kernel} cannot be found at /lib/modules/{node.kernel}/build or "
            f"/lib/modules/{node.kernel}/source.\nPlease install the linux-headers-{node.kernel} package.\n"
        )
        return Outcome(said("", 11, text), seconds=2.0)
    if node.driver_disk:
        return Outcome(said(""), seconds=1.0)
    text = f"Building module:\nCleaning build area...\nBuilding module(s)...........\nnvidia.ko:\n - Installation to /lib/modules/{node.kernel}/updates/dkms/\n"
    return Outcome(said(text), (Deed("built", node.name, place.at, {"kernel": node.kernel}),), seconds=150.0)


def _service(node: NodeState, place: ToolRun, slots: Slots) -> Outcome:
    """`systemctl` for units without special behaviour."""
    verb, name = slots["verb"], slots["unit"]
    unit, service = f"{name}.service", node.services.get(name)
    if service is None or service.load == "not-found":
        return Outcome(said("", 5, f"Failed to {verb} {unit}: Unit {unit} not found.\n"))
    if name == FM and verb != "stop":
        return _restart_fabricmanager(node, place, slots)
    if name in ("nvidia-persistenced", "nvidia-dcgm") and verb != "stop" and "nvidia" not in node.modules:
        return Outcome(said("", 1, _FAILED.format(unit=unit)), (_unit(node, place, name, active=False),), seconds=3.0)
    operation = "restart_docker" if name == "docker" and node.around.configured and verb != "stop" else ""
    return Outcome(said(""), (_unit(node, place, name, active=verb != "stop"),), operation, seconds=5.0)


def _unit(node: NodeState, place: ToolRun, name: str, *, active: bool) -> Deed:
    return Deed("service", node.name, place.at, {"unit": name, "active": active})


def _is_active(node: NodeState, place: ToolRun, slots: Slots) -> Outcome:
    service = node.services.get(slots["unit"])
    return Outcome(said("", 0 if service is not None and service.active == "active" else 3))


def _cat(node: NodeState, place: ToolRun, slots: Slots) -> Outcome:
    """`systemctl cat`, shortened; an error if there is no such unit."""
    service, name = node.services.get(slots["unit"]), slots["unit"]
    if service is None or service.load == "not-found":
        return Outcome(said("", 1, f"No files found for {name}.service.\n"))
    return Outcome(said(f"# /lib/systemd/system/{name}.service\n"))


def _is_enabled(node: NodeState, place: ToolRun, slots: Slots) -> Outcome:
    service = node.services.get(slots["unit"])
    return Outcome(said("", 0 if service is not None and service.load == "loaded" else 1))


NO_DOCKER = "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?\n"


def _container(node: NodeState, place: ToolRun, slots: Slots) -> ShellAnswer | None:
    """Return docker's error for the container, or None."""
    if node.services["docker"].active != "active":
        return said("", 1, NO_DOCKER)
    if slots["container"] != containers.container_id(place.seed, node.name, place.world.job.id):
        return said("", 1, f"Error response from daemon: No such container: {slots['container']}\n")
    return None


def _inside(node: NodeState, place: ToolRun, slots: Slots) -> Outcome:
    """`docker exec … nvidia-smi -L`."""
    if trouble := _container(node, place, slots):
        return Outcome(trouble)
    if node.around.devices_lost:
        return Outcome(said("Failed to initialize NVML: Unknown Error\n", 255))
    return Outcome(said("".join(f"GPU {gpu.index}: {node.profile.product} (UUID: {gpu.uuid})\n" for gpu in node.gpus)))


def _restart_container(node: NodeState, place: ToolRun, slots: Slots) -> Outcome:
    if trouble := _container(node, place, slots):
        return Outcome(trouble)
    return Outcome(said(f"{slots['container']}\n"), (), "restart_container", seconds=12.0)


def _configure_runtime(node: NodeState, place: ToolRun, slots: Slots) -> Outcome:
    text = (
        'time="2026-06-01T12:00:31Z" level=info msg="Config file does not exist; using empty config"\n'
        'time="2026-06-01T12:00:31Z" level=info msg="Wrote updated config to /etc/docker/daemon.json"\n'
        'time="2026-06-01T12:00:31Z" level=info msg="It is recommended that docker daemon be restarted."\n'
    )
    return Outcome(said("", 0, text), (Deed("configured", node.name, place.at),), seconds=1.0)


def _wait_for_time(node: NodeState, place: ToolRun, slots: Slots) -> Outcome:
    if node.services["chronyd"].active != "active":
        return Outcome(said("506 Cannot talk to daemon\n", 1))
    return Outcome(said(f"try: 1, refid: 0A000001, correction: {abs(node.skew):.9f}, skew: 0.102\n"), seconds=10.0)


def _step_clock(node: NodeState, place: ToolRun, slots: Slots) -> Outcome:
    if node.services["chronyd"].active != "active":
        return Outcome(said("506 Cannot talk to daemon\n", 1))
    return Outcome(said("200 OK\n"), (), "step_clock", seconds=1.0)


def _measure_again(node: NodeState, place: ToolRun, slots: Slots) -> Outcome:
    if node.services["chronyd"].active != "active":
        return Outcome(said("506 Cannot talk to daemon\n", 1))
    return Outcome(said("200 OK\n"))


def _governor(node: NodeState, place: ToolRun, slots: Slots) -> Outcome:
    return Outcome(said("".join(f"Setting cpu: {cpu}\n" for cpu in range(node.profile.cpus))), (), "governor", seconds=2.0)


def old_files(node: NodeState, place: ToolRun, slots: Slots) -> Outcome:
    """Delete and list abandoned files; above 1 GiB the disk is no longer full."""
    gone = [file for file in node.around.leftovers if file.hours >= int(slots["older_than"]) / 60]
    rows = [
        f"{1310000 + n:>9} {file.blocks // 2:>8} -rw-r--r--   1 {file.owner:<8} {file.owner:<8} {file.size:>11} {file.dated} {file.path}\n"
        for n, file in enumerate(gone)
    ]
    much = sum(file.size for file in gone) > 1 << 30
    return Outcome(said("".join(rows)), (), "cleanup" if much else "", seconds=60.0 if much else 20.0)


def _power_cycle(node: NodeState, place: ToolRun, slots: Slots) -> Outcome:
    return Outcome(said("Chassis Power Control: Cycle\n"), (), "power_cycle", reboots=True, seconds=0.0)


def _nothing(node: NodeState, place: ToolRun, slots: Slots) -> Outcome:
    return Outcome(said(""))


# the only command with blanks in its words
OLD_FILES = (
    "find", *CLEANED_FOLDERS, "-xdev", "-type", "f", "-mmin", "<older_than>", "!", "-path", "*/systemd-private-*", "-delete",
    "-ls",
)  # fmt: skip

TOOLS: Mapping[str, OnNode] = {
    "modprobe nvidia-peermem": _modprobe_peermem,
    "modprobe <module>": _modprobe,
    "rmmod <module>": _rmmod,
    "dkms autoinstall": _dkms,
    "systemctl restart nvidia-fabricmanager.service": _restart_fabricmanager,
    "systemctl restart systemd-modules-load.service": _nothing,
    "systemctl is-active --quiet <unit>.service": _is_active,
    "systemctl is-enabled --quiet <unit>.service": _is_enabled,
    "systemctl cat <unit>.service": _cat,
    "systemctl <verb> <unit>.service": _service,
    "systemctl reboot": _reboot,
    "ipmitool chassis power cycle": _power_cycle,
    "kill -<signal> <pid>": _kill,
    "docker exec --user 65534:65534 --workdir / <container> nvidia-smi -L": _inside,
    "docker restart --time 30 <container>": _restart_container,
    "nvidia-ctk runtime configure --runtime=docker": _configure_runtime,
    "chronyc waitsync 6 0 0 5": _wait_for_time,
    "chronyc makestep": _step_clock,
    "chronyc burst 4/4": _measure_again,
    "cpupower frequency-set -g performance": _governor,
}
