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
REMOVED_FOLDERS = (
    *("usr/share/doc", "usr/share/man", "usr/share/locale", "var/lib/apt/lists", "var/cache/apt"),
    *("usr/share/javascript", "usr/share/fonts", "var/lib/mysql"),
)
ATTEMPTS = 3
BUILD_SECONDS = 900.0
UNUSED_DAYS = 30
SOURCE_FORMAT = "$(CREATED_BY)|$(REPO_URI)|$(CODENAME)|$(SUITE)|$(RELEASE)|$(COMPONENT)"


def get_system_codename() -> str:
    """Return this system's code name, or "" if it has none."""
    try:
        return platform.freedesktop_os_release().get("VERSION_CODENAME", "")
    except OSError:
        return ""


def find_package_source() -> tuple[str, tuple[str, ...]]:
    """Return (address, components) of apt's source for this release. Raises LabRefusal if apt has none."""
    codename = get_system_codename()
    sources = _list_apt_sources(codename) if codename else []
    if not sources:
        raise LabRefusal(
            f"apt knows no package source of {codename or 'this system'}: add one to /etc/apt/sources.list and run apt-get update"
        )
    address = sources[0][0]
    components = dict.fromkeys(component for uri, component in sources if uri == address)
    return address, tuple(components)


def _list_apt_sources(codename: str) -> list[tuple[str, str]]:
    """Return (address, component) of each of apt's binary package sources for a release."""
    sources: list[tuple[str, str]] = []
    for line in run("apt-get", "indextargets", "--format", SOURCE_FORMAT).splitlines():
        columns = line.split("|")
        if len(columns) != 6:
            continue
        creator, address, *releases, component = columns
        if creator == "Packages" and codename in releases:
            sources.append((address, component))
    return sources


def get_image_folder(cache: Path) -> Path:
    """Return the folder of the image for the current package list, release and architecture, built or not."""
    codename = get_system_codename()
    content = " ".join((codename, platform.machine(), *PACKAGES))
    return cache / f"image-{codename}-{hashlib.sha256(content.encode()).hexdigest()[:12]}"


def get_cache_folder(environ: Mapping[str, str]) -> Path:
    """Return the lab's cache folder of the current user."""
    home = environ.get("XDG_CACHE_HOME") or str(Path(environ.get("HOME", "/root")) / ".cache")
    return Path(home) / "rackmedic" / "lab"


def build_image(cache: Path, environ: Mapping[str, str]) -> Path:
    """Return the image's root, building it if missing (two minutes, 300 MB). Raises LabRefusal if the build fails."""
    image_folder = get_image_folder(cache)
    if image_folder.is_dir():
        os.utime(image_folder)
        return image_folder
    cache.mkdir(parents=True, exist_ok=True)
    with _lock_file(cache / "lock"):
        if not image_folder.is_dir():
            _run_debootstrap(image_folder, cache / "packages", environ)
            _delete_unused_images(image_folder)
    return image_folder


@contextmanager
def _lock_file(path: Path) -> Iterator[None]:
    """Hold the build lock, so that of two concurrent builders the second finds the image built."""
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _run_debootstrap(image_folder: Path, packages: Path, environ: Mapping[str, str]) -> None:
    """Build the image. Downloaded packages are kept between attempts, so a flaky source is asked only for the rest."""
    unfinished = image_folder.with_name(f"{image_folder.name}.part")
    packages.mkdir(exist_ok=True)
    address, components = find_package_source()
    options = ("--variant=minbase", f"--include={','.join(PACKAGES)}", f"--components={','.join(components)}", f"--cache-dir={packages}")
    for attempt in range(ATTEMPTS):
        shutil.rmtree(unfinished, ignore_errors=True)
        try:
            run(
                "debootstrap",
                *options,
                get_system_codename(),
                unfinished,
                address,
                seconds=BUILD_SECONDS,
                env={**environ, **_read_apt_proxy()},
            )
            break
        except LabRefusal as error:
            if attempt + 1 == ATTEMPTS:
                raise LabRefusal(f"the image could not be built from {address}, tried {ATTEMPTS} times: {error}") from error
    for name in REMOVED_FOLDERS:
        shutil.rmtree(unfinished / name, ignore_errors=True)
    unfinished.rename(image_folder)
    shutil.rmtree(packages, ignore_errors=True)


def _read_apt_proxy() -> dict[str, str]:
    """Return apt's HTTP proxy for debootstrap, which does not read apt's configuration."""
    proxy = run("apt-config", "shell", "proxy", "Acquire::http::Proxy").strip().removeprefix("proxy=").strip("'")
    return {"http_proxy": proxy} if proxy and proxy != "DIRECT" else {}


def _delete_unused_images(image_folder: Path) -> None:
    """Delete images unused for UNUSED_DAYS, except those that a rack has mounted."""
    mounted, oldest = Path("/proc/mounts").read_text(), time.time() - UNUSED_DAYS * 86400
    for other in image_folder.parent.glob("image-*"):
        if other != image_folder and str(other) not in mounted and other.stat().st_mtime < oldest:
            shutil.rmtree(other, ignore_errors=True)
