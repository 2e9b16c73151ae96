"""Check that this machine can run a rack before anything is created; the last check boots a small container."""

import os
import platform
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from deploy.lab.container import hierarchies, in_groups, make_groups, nspawn, remove_groups
from deploy.lab.image import release, source
from deploy.lab.programs import LabRefusal, run

PROGRAMS = ("systemd-nspawn", "debootstrap", "zstd", "ip", "nsenter", "setpriv", "ssh-keygen", "mount", "apt-get")
CAP_SYS_ADMIN = 21
CAP_NET_ADMIN = 12
FAMILY = {"debian", "ubuntu"}
TRY_SECONDS = 60.0
TRY = """mount -t tmpfs none "$1"
mkdir "$1/root" "$1/upper" "$1/work"
mount -t overlay -o "lowerdir=$2,upperdir=$1/upper,workdir=$1/work" none "$1/root"
shift 2
exec "$@"
"""


def incapable(image: Path | None = None) -> str:
    """Return why this machine cannot run a rack, or "". With `image`, also try to boot a container."""
    return next(iter(_incapabilities(image)), "")


def _incapabilities(image: Path | None) -> Iterator[str]:
    if platform.system() != "Linux" or not FAMILY & set(_family()):
        yield "a rack needs Debian or Ubuntu"
        return
    if os.geteuid() != 0:
        yield "a rack needs root: sudo make lab"
        return
    if missing := [
        name for bit, name in ((CAP_SYS_ADMIN, "CAP_SYS_ADMIN"), (CAP_NET_ADMIN, "CAP_NET_ADMIN")) if not _capabilities() >> bit & 1
    ]:
        yield f"a rack needs {' and '.join(missing)}, which this machine does not give to root: run it in a virtual machine, or a container with --privileged"
        return
    if not hierarchies() or not any(os.access(path, os.W_OK) for path in hierarchies()):
        yield "a rack needs control groups that can be written: mount /sys/fs/cgroup read-write"
        return
    try:
        source()
    except LabRefusal as error:
        yield str(error)
        return
    if image and (why_not := _try_container(image)):
        yield why_not


def uninstalled() -> str:
    """Return which programs are not installed, as a sentence, or ""."""
    missing = [name for name in PROGRAMS if shutil.which(name, path=os.defpath + ":/usr/sbin:/sbin") is None]
    return f"{', '.join(missing)} not installed: make setup-rack" if missing else ""


def require(image: Path | None = None) -> None:
    """Raise LabRefusal if this machine cannot run a rack."""
    if why := incapable(image) or uninstalled():
        raise LabRefusal(why)


def _family() -> list[str]:
    try:
        said = platform.freedesktop_os_release()
    except OSError:
        return []
    return [said.get("ID", ""), *said.get("ID_LIKE", "").split()] if release() else []


def _capabilities() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("CapEff:")), 16)


def _try_container(image: Path) -> str:
    """Boot the image once, in memory and in its own namespaces, and let it power off."""
    unit = f"rmlabtry{os.getpid()}"
    with tempfile.TemporaryDirectory(prefix="rackmedic-lab-") as folder:
        boot = nspawn(Path(folder) / "root", unit, "--private-network", arguments=("systemd.unit=poweroff.target",))
        try:
            make_groups(unit)
            run("unshare", "--mount", *in_groups(unit, ["sh", "-ec", TRY, "sh", folder, str(image), *boot]), seconds=TRY_SECONDS)
        except LabRefusal as error:
            return f"a container of the image does not start here: {str(error)[-300:]}"
        finally:
            remove_groups(unit)
    return ""
