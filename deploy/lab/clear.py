"""Take a rack down by its names, even if its keeper was killed or it never came up. Touches nothing outside the rack."""

import contextlib
import os
import re
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

from bot.store.private_redis import SERVER_BINARIES
from deploy.lab.container import groups, members, remove_groups
from deploy.lab.layout import NODES, Rack
from deploy.lab.programs import LabRefusal, succeeds

SECONDS = 15.0
NSPAWN = Path("/run/systemd/nspawn")


def take_down(rack: Rack) -> None:
    """Remove every trace of the rack. Raises LabRefusal if something remains."""
    _end_processes(rack)
    end_beside(rack)
    for node in NODES:
        _unlock(rack.root(node), rack.unit(node))
    _unmount(rack)
    _disconnect(rack)
    for node in NODES:
        remove_groups(rack.unit(node))
        for path in (NSPAWN / "propagate" / rack.unit(node), NSPAWN / "unix-export" / rack.unit(node)):
            shutil.rmtree(path, ignore_errors=True)
    shutil.rmtree(rack.folder, ignore_errors=True)
    if left := remains(rack):
        raise LabRefusal(f"the rack {rack.name!r} left something behind: {', '.join(left)}; try again, or restart this machine")
    for path in (rack.log, rack.record):
        path.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # other racks still use it
        rack.folder.parent.rmdir()


def remains(rack: Rack) -> list[str]:
    """Return a description of everything of the rack that still exists."""
    left = [f"process {pid}" for node in NODES for pid in members(rack.unit(node))]
    left += [f"process {pid} beside it" for pid in beside(rack)]
    left += [f"mount {path}" for path in _mounts(rack)]
    left += [f"interface {rack.bridge}"] if Path(f"/sys/class/net/{rack.bridge}").exists() else []
    left += [f"network namespace {rack.unit(node)}" for node in NODES if Path(f"/run/netns/{rack.unit(node)}").exists()]
    left += [f"control group {group}" for node in NODES for group in groups(rack.unit(node)) if group.exists()]
    return left + ([f"folder {rack.folder}"] if rack.folder.exists() else [])


def beside(rack: Rack) -> list[int]:
    """Return the host processes that belong to the rack: its bot, and the bot's Redis, which survives a killed bot."""
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit() and _is_beside(path, rack)]


def _is_beside(process: Path, rack: Rack) -> bool:
    """Identify the bot by its environment and Redis by its working directory: Redis overwrites its environment with its
    title.
    """
    try:
        settings = (process / "environ").read_bytes().split(b"\0")
        ours = f"RACKMEDIC_DATA_DIR={rack.data}".encode() in settings
        server = (process / "comm").read_text().strip() in SERVER_BINARIES
        return ours or (server and (process / "cwd").readlink().is_relative_to(rack.data))
    except OSError:
        return False  # it has ended, or belongs to another user


def end_beside(rack: Rack) -> None:
    """Kill the rack's host processes. Call it before the folder is removed, because the folder identifies them."""
    _end(lambda: set(beside(rack)), rack)


def _end_processes(rack: Rack) -> None:
    _end(lambda: {pid for node in NODES for pid in members(rack.unit(node))}, rack)


def _end(living: Callable[[], set[int]], rack: Rack) -> None:
    until = time.monotonic() + SECONDS
    while found := living():
        for pid in found:
            _kill(pid)
        if time.monotonic() > until:
            raise LabRefusal(f"{len(found)} processes of the rack {rack.name!r} cannot be ended; restart this machine")
        time.sleep(0.05)


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _unlock(root: Path, unit: str) -> None:
    """Remove the lock files that nspawn leaves behind: one named after the machine, one after the root's inode."""
    with contextlib.suppress(FileNotFoundError):
        at = root.stat()
        (NSPAWN / "locks" / f"inode-{at.st_dev}:{at.st_ino}").unlink(missing_ok=True)
    (NSPAWN / "locks" / f"name-{unit}").unlink(missing_ok=True)


def _mounts(rack: Rack) -> list[str]:
    """Return the mount points below the rack's folder, innermost first."""
    points = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return sorted((point for point in points if f"{point}/".startswith(f"{rack.folder}/")), key=len, reverse=True)


def _unmount(rack: Rack) -> None:
    for point in _mounts(rack):
        succeeds("umount", "--lazy", point)


def _disconnect(rack: Rack) -> None:
    for node in NODES:
        if Path(f"/run/netns/{rack.unit(node)}").exists():
            succeeds("ip", "netns", "del", rack.unit(node))
    for path in Path("/sys/class/net").iterdir():
        if re.fullmatch(rf"{rack.bridge}(v\d+)?", path.name):
            succeeds("ip", "link", "del", path.name)
