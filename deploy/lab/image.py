"""The image that all nodes share: debootstrap from this system's own package source, kept in the user's cache."""

import fcntl
import hashlib
import os
import platform
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from deploy.lab.programs import LabRefusal, run

# The packages of the last row run only when a story starts them.
PACKAGES = (
    *("systemd", "systemd-sysv", "dbus", "libpam-systemd", "openssh-server", "sudo", "chrony", "iproute2", "ethtool"),
    *("pciutils", "procps", "kmod", "util-linux", "curl", "ca-certificates", "ipmitool", "less"),
    "python3",  # Ansible runs its modules with it
    *("munge", "slurmd", "slurmctld", "slurm-client", "infiniband-diags", "opensm", "ibsim-utils"),
    *("slurmdbd", "mariadb-server", "docker.io", "openipmi", "prometheus", "prometheus-alertmanager"),
)
NEEDLESS = (
    *("usr/share/doc", "usr/share/man", "usr/share/locale", "var/lib/apt/lists", "var/cache/apt"),
    *("usr/share/javascript", "usr/share/fonts", "var/lib/mysql"),
)
ATTEMPTS = 3
BUILD_SECONDS = 900.0
UNUSED_DAYS = 30
SOURCE_FORMAT = "$(CREATED_BY)|$(REPO_URI)|$(CODENAME)|$(SUITE)|$(RELEASE)|$(COMPONENT)"


def release() -> str:
    """Return this system's code name, or "" if it has none."""
    try:
        return platform.freedesktop_os_release().get("VERSION_CODENAME", "")
    except OSError:
        return ""


def source() -> tuple[str, tuple[str, ...]]:
    """Return (address, components) of apt's source for this release. Raises LabRefusal."""
    wanted = release()
    rows = [line.split("|") for line in run("apt-get", "indextargets", "--format", SOURCE_FORMAT).splitlines()]
    found = [(row[1], row[5]) for row in rows if len(row) == 6 and row[0] == "Packages" and wanted and wanted in row[2:5]]
    if not found:
        raise LabRefusal(
            f"apt knows no package source of {wanted or 'this system'}: add one to /etc/apt/sources.list and run apt-get update"
        )
    address = found[0][0]
    return address, tuple(dict.fromkeys(component for uri, component in found if uri == address))


def folder(cache: Path) -> Path:
    """Return the folder of the image for the current package list, release and architecture, built or not."""
    said = " ".join((release(), platform.machine(), *PACKAGES))
    return cache / f"image-{release()}-{hashlib.sha256(said.encode()).hexdigest()[:12]}"


def cache_folder(environ: Mapping[str, str]) -> Path:
    """Return the lab's cache folder of the current user."""
    home = environ.get("XDG_CACHE_HOME") or str(Path(environ.get("HOME", "/root")) / ".cache")
    return Path(home) / "rackmedic" / "lab"


def image(cache: Path, environ: Mapping[str, str]) -> Path:
    """Return the image's root, building it if missing (two minutes, 300 MB). Raises LabRefusal."""
    made = folder(cache)
    if made.is_dir():
        os.utime(made)
        return made
    cache.mkdir(parents=True, exist_ok=True)
    with _alone(cache / "lock"):
        if not made.is_dir():
            _build(made, cache / "packages", environ)
            _forget_unused(made)
    return made


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Hold the build lock, so that of two concurrent builders the second finds the image built."""
    with path.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def _build(made: Path, packages: Path, environ: Mapping[str, str]) -> None:
    """Build the image. Downloaded packages are kept between attempts, so a flaky source is asked only for the rest."""
    part = made.with_name(f"{made.name}.part")
    packages.mkdir(exist_ok=True)
    address, components = source()
    options = ("--variant=minbase", f"--include={','.join(PACKAGES)}", f"--components={','.join(components)}", f"--cache-dir={packages}")
    for attempt in range(ATTEMPTS):
        shutil.rmtree(part, ignore_errors=True)
        try:
            run("debootstrap", *options, release(), part, address, seconds=BUILD_SECONDS, env={**environ, **_proxy()})
            break
        except LabRefusal as error:
            if attempt + 1 == ATTEMPTS:
                raise LabRefusal(f"the image could not be built from {address}, tried {ATTEMPTS} times: {error}") from error
    for name in NEEDLESS:
        shutil.rmtree(part / name, ignore_errors=True)
    part.rename(made)
    shutil.rmtree(packages, ignore_errors=True)


def _proxy() -> dict[str, str]:
    """Return apt's HTTP proxy for debootstrap, which does not read apt's configuration."""
    said = run("apt-config", "shell", "proxy", "Acquire::http::Proxy").strip().removeprefix("proxy=").strip("'")
    return {"http_proxy": said} if said and said != "DIRECT" else {}


def _forget_unused(made: Path) -> None:
    """Delete images unused for UNUSED_DAYS, except those that a rack has mounted."""
    mounted, oldest = Path("/proc/mounts").read_text(), time.time() - UNUSED_DAYS * 86400
    for other in made.parent.glob("image-*"):
        if other != made and str(other) not in mounted and other.stat().st_mtime < oldest:
            shutil.rmtree(other, ignore_errors=True)
