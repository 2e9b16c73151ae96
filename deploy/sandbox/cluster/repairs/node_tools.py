"""The node kit's commands for modules, units, processes, containers, clock and disk: output, refusals and changes."""

from collections.abc import Mapping

from deploy.sandbox.cluster.answer import ShellAnswer, text_answer
from deploy.sandbox.cluster.machines.state import NodeState
from deploy.sandbox.cluster.plan import MachineAction
from deploy.sandbox.cluster.render import containers
from deploy.sandbox.cluster.repairs.tool_run import NodeTool, Slots, ToolOutcome, ToolRun
from deploy.sandbox.cluster.simulation.actions import FABRIC_MANAGER
from tools.remedies.scripts import CLEANED_FOLDERS

# modules that must be unloaded before the key
DEPENDANTS: Mapping[str, tuple[str, ...]] = {
    "nvidia": ("nvidia_peermem", "nvidia_fs", "gdrdrv", "nvidia_uvm", "nvidia_modeset"), "nvidia_modeset": ("nvidia_drm",),
}  # fmt: skip

_FAILED = (
    "Job for {unit} failed because the control process exited with error code.\n"
    'See "systemctl status {unit}" and "journalctl -xeu {unit}" for details.\n'
)


def _load_peermem(node: NodeState, tool_run: ToolRun, slots: Slots) -> ToolOutcome:
    if "nvidia_peermem" in node.modules:
        return ToolOutcome(text_answer(""))
    if not node.driver:
        return ToolOutcome(
            text_answer("", 1, f"modprobe: FATAL: Module nvidia-peermem not found in directory /lib/modules/{node.kernel}\n")
        )
    if tool_run.fault_args.get("S08", {}).get("misfit"):
        return ToolOutcome(text_answer("", 1, "modprobe: ERROR: could not insert 'nvidia_peermem': Invalid argument\n"))
    return ToolOutcome(text_answer(""), (), "modprobe", seconds=2.0)


def _restart_fabricmanager(node: NodeState, tool_run: ToolRun, slots: Slots) -> ToolOutcome:
    unit = "nvidia-fabricmanager.service"
    if node.services["nvidia-fabricmanager"].load == "not-found":
        return ToolOutcome(text_answer("", 5, f"Failed to restart {unit}: Unit {unit} not found.\n"))
    if node.fm_version != node.driver:
        why = (
            f"fabric manager NVIDIA GPU driver interface version {node.fm_version} don't match with driver version "
            f"{node.driver or '(none loaded)'}. Please update with matching NVIDIA driver package."
        )
        return ToolOutcome(
            text_answer("", 1, _FAILED.format(unit=unit)),
            (MachineAction("fabricmanager", node.name, tool_run.at, {"works": False, "why": why}),),
            seconds=6.0,
        )
    action = MachineAction("fabricmanager", node.name, tool_run.at, {"works": True})
    return ToolOutcome(text_answer(""), (action,), "restart_fabricmanager", seconds=20.0)


def _reboot(node: NodeState, tool_run: ToolRun, slots: Slots) -> ToolOutcome:
    if node.inhibited:
        text = (
            'Operation inhibited by "Unattended Upgrades Shutdown" (PID 812 "unattended-upgr", user root), reason is "Upgrade in progress".\n'
            "Please retry operation after closing inhibitors and logging out other users.\n"
        )
        return ToolOutcome(text_answer("", 1, text))
    return ToolOutcome(text_answer(""), reboots=True, seconds=0.0)


def _kill(node: NodeState, tool_run: ToolRun, slots: Slots) -> ToolOutcome:
    pid = int(slots["pid"])
    proc = next((proc for proc in node.procs if proc.pid == pid), None)
    if proc is None:
        return ToolOutcome(text_answer("", 1, f"kill: ({pid}): No such process\n"))
    gpu = next((gpu for gpu in node.gpus if any(row.pid == pid for row in gpu.procs)), None)
    is_orphan = proc.ppid == 1 and gpu is not None
    ignores_term = is_orphan and bool(tool_run.fault_args.get("S18", {}).get("deaf"))
    if proc.stat.startswith("D") or (ignores_term and slots["signal"] == "TERM"):
        return ToolOutcome(text_answer(""))  # the signal is delivered without effect
    rank = next((rank for rank in tool_run.world.job.of(node.name) if rank.pid == pid), None)
    action = MachineAction("kill", node.name, tool_run.at, {"pid": pid} | ({"ends_job": True} if rank else {}))
    return ToolOutcome(text_answer(""), (action,), "" if rank or gpu is None else "kill", gpu.index if gpu else None, 1.0)


def _unload_module(node: NodeState, tool_run: ToolRun, slots: Slots) -> ToolOutcome:
    name = slots["module"]
    if name not in node.modules:
        return ToolOutcome(text_answer("", 1, f"rmmod: ERROR: Module {name} is not currently loaded\n"))
    dependants = [other for other in DEPENDANTS.get(name, ()) if other in node.modules]
    if dependants:
        return ToolOutcome(text_answer("", 1, f"rmmod: ERROR: Module {name} is in use by: {' '.join(dependants)}\n"))
    if (name == "nvidia_uvm" and any(gpu.procs for gpu in node.gpus)) or (name == "nvidia" and _is_driver_open(node)):
        return ToolOutcome(text_answer("", 1, f"rmmod: ERROR: Module {name} is in use\n"))
    return ToolOutcome(text_answer(""), (MachineAction("module", node.name, tool_run.at, {"name": name, "loaded": False}),), seconds=1.0)


def _is_driver_open(node: NodeState) -> bool:
    """Return whether a daemon or a GPU reservation has the driver open."""
    for name in ("nvidia-persistenced", "nvidia-dcgm", FABRIC_MANAGER):
        if name in node.services and node.services[name].active == "active":
            return True
    return any(gpu.held for gpu in node.gpus)


def _load_module(node: NodeState, tool_run: ToolRun, slots: Slots) -> ToolOutcome:
    name = slots["module"].replace("-", "_")
    if name in node.modules:
        return ToolOutcome(text_answer(""))
    if not node.driver_disk:
        return ToolOutcome(text_answer("", 1, f"modprobe: FATAL: Module {name} not found in directory /lib/modules/{node.kernel}\n"))
    action = MachineAction("module", node.name, tool_run.at, {"name": name, "loaded": True})
    return ToolOutcome(text_answer(""), (action,), "load_driver" if name == "nvidia" else "", seconds=12.0 if name == "nvidia" else 2.0)


def _build_driver(node: NodeState, tool_run: ToolRun, slots: Slots) -> ToolOutcome:
    if tool_run.fault_args.get("S03", {}).get("headers") == "missing":
        text = (
            f"Error! Your kernel headers for kernel {node.kernel} cannot be found at /lib/modules/{node.kernel}/build or "
            f"/lib/modules/{node.kernel}/source.\nPlease install the linux-headers-{node.kernel} package.\n"
        )
        return ToolOutcome(text_answer("", 11, text), seconds=2.0)
    if node.driver_disk:
        return ToolOutcome(text_answer(""), seconds=1.0)
    text = f"Building module:\nCleaning build area...\nBuilding module(s)...........\nnvidia.ko:\n - Installation to /lib/modules/{node.kernel}/updates/dkms/\n"
    return ToolOutcome(text_answer(text), (MachineAction("built", node.name, tool_run.at, {"kernel": node.kernel}),), seconds=150.0)


def _control_service(node: NodeState, tool_run: ToolRun, slots: Slots) -> ToolOutcome:
    """`systemctl` for units without special behaviour."""
    verb, name = slots["verb"], slots["unit"]
    unit, service = f"{name}.service", node.services.get(name)
    if service is None or service.load == "not-found":
        return ToolOutcome(text_answer("", 5, f"Failed to {verb} {unit}: Unit {unit} not found.\n"))
    if name == FABRIC_MANAGER and verb != "stop":
        return _restart_fabricmanager(node, tool_run, slots)
    if name in ("nvidia-persistenced", "nvidia-dcgm") and verb != "stop" and "nvidia" not in node.modules:
        return ToolOutcome(
            text_answer("", 1, _FAILED.format(unit=unit)), (_build_service_action(node, tool_run, name, active=False),), seconds=3.0
        )
    operation = "restart_docker" if name == "docker" and node.environment.configured and verb != "stop" else ""
    return ToolOutcome(text_answer(""), (_build_service_action(node, tool_run, name, active=verb != "stop"),), operation, seconds=5.0)


def _build_service_action(node: NodeState, tool_run: ToolRun, name: str, *, active: bool) -> MachineAction:
    return MachineAction("service", node.name, tool_run.at, {"unit": name, "active": active})


def _is_active(node: NodeState, tool_run: ToolRun, slots: Slots) -> ToolOutcome:
    service = node.services.get(slots["unit"])
    return ToolOutcome(text_answer("", 0 if service is not None and service.active == "active" else 3))


def _read_file(node: NodeState, tool_run: ToolRun, slots: Slots) -> ToolOutcome:
    """`systemctl cat`, shortened; an error if there is no such unit."""
    service, name = node.services.get(slots["unit"]), slots["unit"]
    if service is None or service.load == "not-found":
        return ToolOutcome(text_answer("", 1, f"No files found for {name}.service.\n"))
    return ToolOutcome(text_answer(f"# /lib/systemd/system/{name}.service\n"))


def _is_enabled(node: NodeState, tool_run: ToolRun, slots: Slots) -> ToolOutcome:
    service = node.services.get(slots["unit"])
    return ToolOutcome(text_answer("", 0 if service is not None and service.load == "loaded" else 1))


NO_DOCKER = "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?\n"


def _find_container_failure(node: NodeState, tool_run: ToolRun, slots: Slots) -> ShellAnswer | None:
    """Return docker's error for the container, or None."""
    if node.services["docker"].active != "active":
        return text_answer("", 1, NO_DOCKER)
    if slots["container"] != containers.make_container_id(tool_run.seed, node.name, tool_run.world.job.id):
        return text_answer("", 1, f"Error response from daemon: No such container: {slots['container']}\n")
    return None


def _run_in_container(node: NodeState, tool_run: ToolRun, slots: Slots) -> ToolOutcome:
    """`docker exec … nvidia-smi -L`."""
    if failure := _find_container_failure(node, tool_run, slots):
        return ToolOutcome(failure)
    if node.environment.devices_lost:
        return ToolOutcome(text_answer("Failed to initialize NVML: Unknown Error\n", 255))
    return ToolOutcome(text_answer("".join(f"GPU {gpu.index}: {node.profile.product} (UUID: {gpu.uuid})\n" for gpu in node.gpus)))


def _restart_container(node: NodeState, tool_run: ToolRun, slots: Slots) -> ToolOutcome:
    if failure := _find_container_failure(node, tool_run, slots):
        return ToolOutcome(failure)
    return ToolOutcome(text_answer(f"{slots['container']}\n"), (), "restart_container", seconds=12.0)


def _configure_runtime(node: NodeState, tool_run: ToolRun, slots: Slots) -> ToolOutcome:
    text = (
        'time="2026-06-01T12:00:31Z" level=info msg="Config file does not exist; using empty config"\n'
        'time="2026-06-01T12:00:31Z" level=info msg="Wrote updated config to /etc/docker/daemon.json"\n'
        'time="2026-06-01T12:00:31Z" level=info msg="It is recommended that docker daemon be restarted."\n'
    )
    return ToolOutcome(text_answer("", 0, text), (MachineAction("configured", node.name, tool_run.at),), seconds=1.0)


def _wait_for_time(node: NodeState, tool_run: ToolRun, slots: Slots) -> ToolOutcome:
    if node.services["chronyd"].active != "active":
        return ToolOutcome(text_answer("506 Cannot talk to daemon\n", 1))
    return ToolOutcome(text_answer(f"try: 1, refid: 0A000001, correction: {abs(node.skew):.9f}, skew: 0.102\n"), seconds=10.0)


def _correct_clock(node: NodeState, tool_run: ToolRun, slots: Slots) -> ToolOutcome:
    if node.services["chronyd"].active != "active":
        return ToolOutcome(text_answer("506 Cannot talk to daemon\n", 1))
    return ToolOutcome(text_answer("200 OK\n"), (), "step_clock", seconds=1.0)


def _measure_again(node: NodeState, tool_run: ToolRun, slots: Slots) -> ToolOutcome:
    if node.services["chronyd"].active != "active":
        return ToolOutcome(text_answer("506 Cannot talk to daemon\n", 1))
    return ToolOutcome(text_answer("200 OK\n"))


def _set_governor(node: NodeState, tool_run: ToolRun, slots: Slots) -> ToolOutcome:
    return ToolOutcome(text_answer("".join(f"Setting cpu: {cpu}\n" for cpu in range(node.profile.cpus))), (), "governor", seconds=2.0)


def delete_old_files(node: NodeState, tool_run: ToolRun, slots: Slots) -> ToolOutcome:
    """Delete and list abandoned files; above 1 GiB the disk is no longer full."""
    deleted_files = [file for file in node.environment.leftovers if file.hours >= int(slots["older_than"]) / 60]
    rows = [
        f"{1310000 + n:>9} {file.blocks // 2:>8} -rw-r--r--   1 {file.owner:<8} {file.owner:<8} {file.size:>11} {file.dated} {file.path}\n"
        for n, file in enumerate(deleted_files)
    ]
    frees_enough = sum(file.size for file in deleted_files) > 1 << 30
    return ToolOutcome(text_answer("".join(rows)), (), "cleanup" if frees_enough else "", seconds=60.0 if frees_enough else 20.0)


def _cycle_power(node: NodeState, tool_run: ToolRun, slots: Slots) -> ToolOutcome:
    return ToolOutcome(text_answer("Chassis Power Control: Cycle\n"), (), "power_cycle", reboots=True, seconds=0.0)


def _do_nothing(node: NodeState, tool_run: ToolRun, slots: Slots) -> ToolOutcome:
    return ToolOutcome(text_answer(""))


# the only command with blanks in its words
OLD_FILES = (
    "find", *CLEANED_FOLDERS, "-xdev", "-type", "f", "-mmin", "<older_than>", "!", "-path", "*/systemd-private-*", "-delete",
    "-ls",
)  # fmt: skip

TOOLS: Mapping[str, NodeTool] = {
    "modprobe nvidia-peermem": _load_peermem,
    "modprobe <module>": _load_module,
    "rmmod <module>": _unload_module,
    "dkms autoinstall": _build_driver,
    "systemctl restart nvidia-fabricmanager.service": _restart_fabricmanager,
    "systemctl restart systemd-modules-load.service": _do_nothing,
    "systemctl is-active --quiet <unit>.service": _is_active,
    "systemctl is-enabled --quiet <unit>.service": _is_enabled,
    "systemctl cat <unit>.service": _read_file,
    "systemctl <verb> <unit>.service": _control_service,
    "systemctl reboot": _reboot,
    "ipmitool chassis power cycle": _cycle_power,
    "kill -<signal> <pid>": _kill,
    "docker exec --user 65534:65534 --workdir / <container> nvidia-smi -L": _run_in_container,
    "docker restart --time 30 <container>": _restart_container,
    "nvidia-ctk runtime configure --runtime=docker": _configure_runtime,
    "chronyc waitsync 6 0 0 5": _wait_for_time,
    "chronyc makestep": _correct_clock,
    "chronyc burst 4/4": _measure_again,
    "cpupower frequency-set -g performance": _set_governor,
}
