"""Check that this machine can run a rack before anything is created; the last check boots a small container."""

import os
import platform
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from deploy.lab.container import build_nspawn_command, find_cgroup_mounts, make_control_groups, remove_control_groups, run_in_control_groups
from deploy.lab.image import find_package_source, get_system_codename
from deploy.lab.programs import LabRefusal, run

REQUIRED_PROGRAMS = ("systemd-nspawn", "debootstrap", "zstd", "ip", "nsenter", "setpriv", "ssh-keygen", "mount", "apt-get")
REQUIRED_CAPABILITIES = {"CAP_SYS_ADMIN": 21, "CAP_NET_ADMIN": 12}  # bits of CapEff in /proc/PID/status
SUPPORTED_DISTRIBUTIONS = {"debian", "ubuntu"}
TRY_SECONDS = 60.0
TRY_SCRIPT = """mount -t tmpfs none "$1"
mkdir "$1/root" "$1/upper" "$1/work"
mount -t overlay -o "lowerdir=$2,upperdir=$1/upper,workdir=$1/work" none "$1/root"
shift 2
exec "$@"
"""


def find_obstacle(image: Path | None = None) -> str:
    """Return why this machine cannot run a rack, or "". With `image`, also try to boot a container."""
    return next(iter(_iter_obstacles(image)), "")


def _iter_obstacles(image: Path | None) -> Iterator[str]:
    if platform.system() != "Linux" or not SUPPORTED_DISTRIBUTIONS & set(_read_distribution_ids()):
        yield "a rack needs Debian or Ubuntu"
        return
    if os.geteuid() != 0:
        yield "a rack needs root: sudo make lab"
        return
    capabilities = _read_effective_capabilities()
    missing = [name for name, bit in REQUIRED_CAPABILITIES.items() if not capabilities >> bit & 1]
    if missing:
        yield f"a rack needs {' and '.join(missing)}, which this machine does not give to root: run it in a virtual machine, or a container with --privileged"
        return
    if not find_cgroup_mounts() or not any(os.access(path, os.W_OK) for path in find_cgroup_mounts()):
        yield "a rack needs control groups that can be written: mount /sys/fs/cgroup read-write"
        return
    try:
        find_package_source()
    except LabRefusal as error:
        yield str(error)
        return
    if image and (why_not := _try_booting(image)):
        yield why_not


def describe_missing_programs() -> str:
    """Return which programs are not installed, as a sentence, or ""."""
    missing = [name for name in REQUIRED_PROGRAMS if shutil.which(name, path=os.defpath + ":/usr/sbin:/sbin") is None]
    return f"{', '.join(missing)} not installed: make setup-rack" if missing else ""


def require_rack_support(image: Path | None = None) -> None:
    """Raise LabRefusal if this machine cannot run a rack."""
    if why := find_obstacle(image) or describe_missing_programs():
        raise LabRefusal(why)


def _read_distribution_ids() -> list[str]:
    try:
        distribution = platform.freedesktop_os_release()
    except OSError:
        return []
    if not get_system_codename():
        return []
    return [distribution.get("ID", ""), *distribution.get("ID_LIKE", "").split()]


def _read_effective_capabilities() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("CapEff:")), 16)


def _try_booting(image: Path) -> str:
    """Boot the image once, in memory and in its own namespaces, and let it power off."""
    unit = f"rmlabtry{os.getpid()}"
    with tempfile.TemporaryDirectory(prefix="rackmedic-lab-") as folder:
        boot = build_nspawn_command(Path(folder) / "root", unit, "--private-network", arguments=("systemd.unit=poweroff.target",))
        try:
            make_control_groups(unit)
            run(
                "unshare",
                "--mount",
                *run_in_control_groups(unit, ["sh", "-ec", TRY_SCRIPT, "sh", folder, str(image), *boot]),
                seconds=TRY_SECONDS,
            )
        except LabRefusal as error:
            return f"a container of the image does not start here: {str(error)[-300:]}"
        finally:
            remove_control_groups(unit)
    return ""
