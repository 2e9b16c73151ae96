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
from deploy.lab.container import find_node_pids, get_control_groups, remove_control_groups
from deploy.lab.layout import NODES, Rack
from deploy.lab.programs import LabRefusal, succeeds

KILL_SECONDS = 15.0
NSPAWN_FOLDER = Path("/run/systemd/nspawn")


def take_down_rack(rack: Rack) -> None:
    """Remove every trace of the rack. Raises LabRefusal if something remains."""
    _end_node_processes(rack)
    end_host_processes(rack)
    for node in NODES:
        _remove_nspawn_locks(rack.root(node), rack.unit(node))
    _unmount_rack(rack)
    _remove_network(rack)
    for node in NODES:
        remove_control_groups(rack.unit(node))
        for path in (NSPAWN_FOLDER / "propagate" / rack.unit(node), NSPAWN_FOLDER / "unix-export" / rack.unit(node)):
            shutil.rmtree(path, ignore_errors=True)
    shutil.rmtree(rack.folder, ignore_errors=True)
    if leftovers := describe_leftovers(rack):
        raise LabRefusal(f"the rack {rack.name!r} left something behind: {', '.join(leftovers)}; try again, or restart this machine")
    for path in (rack.log, rack.record):
        path.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # other racks still use it
        rack.folder.parent.rmdir()


def describe_leftovers(rack: Rack) -> list[str]:
    """Return a description of everything of the rack that still exists."""
    left = [f"process {pid}" for node in NODES for pid in find_node_pids(rack.unit(node))]
    left += [f"process {pid} beside it" for pid in find_host_processes(rack)]
    left += [f"mount {path}" for path in _find_mount_points(rack)]
    left += [f"interface {rack.bridge}"] if Path(f"/sys/class/net/{rack.bridge}").exists() else []
    left += [f"network namespace {rack.unit(node)}" for node in NODES if Path(f"/run/netns/{rack.unit(node)}").exists()]
    left += [f"control group {group}" for node in NODES for group in get_control_groups(rack.unit(node)) if group.exists()]
    return left + ([f"folder {rack.folder}"] if rack.folder.exists() else [])


def find_host_processes(rack: Rack) -> list[int]:
    """Return the host processes that belong to the rack: its bot, and the bot's Redis, which survives a killed bot."""
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit() and _belongs_to_rack(path, rack)]


def _belongs_to_rack(process: Path, rack: Rack) -> bool:
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


def end_host_processes(rack: Rack) -> None:
    """Kill the rack's host processes. Call it before the folder is removed, because the folder identifies them."""
    _kill_until_gone(lambda: set(find_host_processes(rack)), rack)


def _end_node_processes(rack: Rack) -> None:
    _kill_until_gone(lambda: {pid for node in NODES for pid in find_node_pids(rack.unit(node))}, rack)


def _kill_until_gone(find_pids: Callable[[], set[int]], rack: Rack) -> None:
    deadline = time.monotonic() + KILL_SECONDS
    while pids := find_pids():
        for pid in pids:
            _kill(pid)
        if time.monotonic() > deadline:
            raise LabRefusal(f"{len(pids)} processes of the rack {rack.name!r} cannot be ended; restart this machine")
        time.sleep(0.05)


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _remove_nspawn_locks(root: Path, unit: str) -> None:
    """Remove the lock files that nspawn leaves behind: one named after the machine, one after the root's inode."""
    with contextlib.suppress(FileNotFoundError):
        at = root.stat()
        (NSPAWN_FOLDER / "locks" / f"inode-{at.st_dev}:{at.st_ino}").unlink(missing_ok=True)
    (NSPAWN_FOLDER / "locks" / f"name-{unit}").unlink(missing_ok=True)


def _find_mount_points(rack: Rack) -> list[str]:
    """Return the mount points below the rack's folder, innermost first."""
    points = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return sorted((point for point in points if f"{point}/".startswith(f"{rack.folder}/")), key=len, reverse=True)


def _unmount_rack(rack: Rack) -> None:
    for point in _find_mount_points(rack):
        succeeds("umount", "--lazy", point)


def _remove_network(rack: Rack) -> None:
    for node in NODES:
        if Path(f"/run/netns/{rack.unit(node)}").exists():
            succeeds("ip", "netns", "del", rack.unit(node))
    for path in Path("/sys/class/net").iterdir():
        if re.fullmatch(rf"{rack.bridge}(v\d+)?", path.name):
            succeeds("ip", "link", "del", path.name)
