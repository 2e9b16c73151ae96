"""One node as a container: systemd as PID 1, its own control groups, restarted when it asks for a reboot."""

import contextlib
import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from deploy.lab.layout import Rack, RackNode
from deploy.lab.programs import LabRefusal

CGROUPS = Path("/sys/fs/cgroup")
REBOOT = 133  # exit status of systemd-nspawn when the container asked for a reboot
# Lets the node read the kernel log. Never CAP_SYS_TIME or CAP_SYS_MODULE: clock and modules belong to the host.
EXTRA_CAPABILITIES = "CAP_SYSLOG"
REMOVE_SECONDS = 15.0
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def find_cgroup_mounts() -> tuple[Path, ...]:
    """Return the cgroup mounts nspawn uses: the unified tree, or systemd's two in a hybrid layout."""
    if (CGROUPS / "cgroup.procs").exists():
        return (CGROUPS,)
    return tuple(path for path in (CGROUPS / "systemd", CGROUPS / "unified") if path.is_dir())


def get_control_groups(unit: str) -> list[Path]:
    """Return the node's control group in each mount, whether it exists or not."""
    return [path / unit for path in find_cgroup_mounts()]


def build_boot_command(rack: Rack, node: RackNode) -> list[str]:
    """Return the command that boots the node in its control groups. The node dies with its parent process."""
    unit = rack.unit(node)
    options = (f"--hostname={node.name}", f"--network-namespace-path=/run/netns/{unit}", f"--bind={rack.shared}:/shared")
    return ["setpriv", "--pdeathsig", "KILL", *run_in_control_groups(unit, build_nspawn_command(rack.root(node), unit, *options))]


def build_nspawn_command(root: Path, unit: str, *options: str, arguments: Sequence[str] = ()) -> list[str]:
    """Return the nspawn command for a booted container that is not registered with the host's service manager."""
    isolation = ("--register=no", "--keep-unit", "--resolv-conf=off", "--timezone=off", "--link-journal=no", "--console=pipe")
    identity = (f"--directory={root}", f"--machine={unit}", f"--capability={EXTRA_CAPABILITIES}")
    return ["systemd-nspawn", "--quiet", "--boot", *identity, *isolation, *options, *arguments]


def run_in_control_groups(unit: str, argv: Sequence[str]) -> list[str]:
    """Return the command that joins the node's control groups and becomes `argv`."""
    join_groups = "".join(f"echo $$ > {group}/cgroup.procs; " for group in get_control_groups(unit))
    return ["sh", "-ec", f'{join_groups}exec "$@"', "sh", *argv]


def make_control_groups(unit: str) -> None:
    """Create the node's control groups. Raises LabRefusal if that is not possible."""
    for group in get_control_groups(unit):
        try:
            group.mkdir(exist_ok=True)
        except OSError as error:
            raise LabRefusal(f"no control group can be made in {group.parent} ({error.strerror}): run where it is writable") from error


def remove_control_groups(unit: str) -> None:
    """Remove the node's control groups, innermost first, waiting for their last processes to end."""
    deadline = time.monotonic() + REMOVE_SECONDS
    while time.monotonic() < deadline:
        remaining = [group for group in get_control_groups(unit) if group.exists()]
        if not remaining:
            return
        folders = [path for group in remaining for path in (group, *group.rglob("*")) if path.is_dir()]
        for path in sorted(folders, key=lambda path: len(path.parts), reverse=True):
            with contextlib.suppress(OSError):
                path.rmdir()
        time.sleep(0.02)


def find_node_pids(unit: str) -> set[int]:
    """Return the host pids of all processes of the node."""
    pids: set[int] = set()
    for group in get_control_groups(unit):
        for folder, _, _ in os.walk(group):  # os.walk skips folders that vanish meanwhile
            with contextlib.suppress(OSError):
                pids |= {int(pid) for pid in (Path(folder) / "cgroup.procs").read_text().split()}
    return pids


def find_systemd_pid(rack: Rack, node: RackNode) -> int:
    """Return the host pid of the node's systemd. Raises LabRefusal while there is none."""
    for pid in sorted(find_node_pids(rack.unit(node))):
        try:
            status = Path(f"/proc/{pid}/status").read_text()
        except OSError:
            continue
        pids = _read_namespace_pids(status)
        if len(pids) > 1 and pids[-1] == "1":
            return pid
    raise LabRefusal(f"{node.name} is not running")


def _read_namespace_pids(status: str) -> list[str]:
    """Return a process's pids from `/proc/PID/status`: the host's first, then one for each nested namespace."""
    for line in status.splitlines():
        if line.startswith("NSpid:"):
            return line.split()[1:]
    return []


def build_enter_command(rack: Rack, node: RackNode, argv: Sequence[str]) -> list[str]:
    """Return the command that runs `argv` as root inside the node."""
    enter = [
        "nsenter",
        "--target",
        str(find_systemd_pid(rack, node)),
        *("--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup", "--root", "--wd"),
    ]
    return [*enter, "env", "-i", f"PATH={PATH}", "HOME=/root", "LC_ALL=C.UTF-8", *argv]


def run_in_node(rack: Rack, node: RackNode, *argv: str, stdin: str = "", seconds: float = 30.0) -> subprocess.CompletedProcess[str]:
    """Run a command as root inside the node. Raises LabRefusal if the node is not running or the command times out."""
    command = build_enter_command(rack, node, argv)
    try:
        return subprocess.run(command, input=stdin, capture_output=True, text=True, errors="replace", timeout=seconds, check=False)
    except subprocess.TimeoutExpired as error:
        raise LabRefusal(f"`{' '.join(argv)[:200]}` on {node.name} did not end in {seconds:g} s") from error


def run_checked_in_node(rack: Rack, node: RackNode, *argv: str, stdin: str = "", seconds: float = 30.0) -> str:
    """Run a command that must succeed and return its stdout. Raises LabRefusal if it fails."""
    result = run_in_node(rack, node, *argv, stdin=stdin, seconds=seconds)
    if result.returncode:
        message = (result.stderr.strip() or result.stdout.strip() or "it said nothing").splitlines()[-1]
        raise LabRefusal(f"`{' '.join(argv)[:200]}` on {node.name} ended with {result.returncode}: {message[:300]}")
    return result.stdout


def exec_in_node(rack: Rack, node: RackNode, argv: Sequence[str]) -> None:
    """Replace this process by `argv` inside the node, on the current terminal."""
    command = build_enter_command(rack, node, argv)
    os.execvp(command[0], command)
