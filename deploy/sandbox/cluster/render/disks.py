"""File systems: space, inodes, mount options."""

import json
from typing import Any

from deploy.sandbox.cluster.answer import ShellAnswer, said
from deploy.sandbox.cluster.machines.state import Mount
from deploy.sandbox.cluster.render.view import View
from tools.checks.storage import SHARED_FILE_SYSTEMS

_RESERVED = {"ext4": 0.05}


def space(view: View) -> ShellAnswer:
    """`df -P -T -B1` of local file systems."""
    rows = ["Filesystem           Type        1-blocks            Used       Available Capacity Mounted on"]
    for mount in (mount for mount in view.node.mounts if mount.fstype not in SHARED_FILE_SYSTEMS):
        free = max(0, int(mount.size * (1 - _RESERVED.get(mount.fstype, 0.0))) - mount.used)
        rows.append(
            f"{mount.source:<20} {mount.fstype:<5} {mount.size:>15} {mount.used:>15} {free:>15} {_percent(mount.used, mount.used + free):>8} {mount.target}"
        )
    return said("\n".join(rows) + "\n")


def root(view: View) -> ShellAnswer:
    """`df --output=pcent,ipcent /`."""
    mount = view.node.mount("/")
    free = max(0, int(mount.size * (1 - _RESERVED.get(mount.fstype, 0.0))) - mount.used)
    inodes = _percent(mount.inodes_used, mount.inodes) if mount.inodes else "-"
    return said(f"Use% IUse%\n{_percent(mount.used, mount.used + free):>4} {inodes:>5}\n")


def old_files(view: View) -> ShellAnswer:
    """`rackmedic-look cleanup.preview HOURS`: files not written to for that long, the hundred largest listed."""
    old = sorted((file for file in view.node.around.leftovers if file.hours >= int(view.slots["hours"])), key=lambda file: -file.blocks)
    rows = [f"file {60 * file.hours:.0f} {512 * file.blocks} {file.owner} {file.path}" for file in old[:100]]
    return said("\n".join(["end 0", f"total {len(old)} {512 * sum(file.blocks for file in old)}", "opens 0", *rows]) + "\n")


def inodes(view: View) -> ShellAnswer:
    """`df -P -i` of local file systems."""
    rows = ["Filesystem               Inodes     IUsed      IFree IUse% Mounted on"]
    for mount in (mount for mount in view.node.mounts if mount.fstype not in SHARED_FILE_SYSTEMS):
        used = _percent(mount.inodes_used, mount.inodes) if mount.inodes else "-"
        rows.append(
            f"{mount.source:<20} {mount.inodes:>10} {mount.inodes_used:>9} {mount.inodes - mount.inodes_used:>10} {used:>5} {mount.target}"
        )
    return said("\n".join(rows) + "\n")


def shared(view: View) -> ShellAnswer:
    """`timeout 4 df --output=source,fstype,ipcent,size,avail,pcent,target` of shared file systems; no output if one
    hangs.
    """
    mine = [mount for mount in view.node.mounts if mount.fstype in SHARED_FILE_SYSTEMS]
    if any(mount.target in view.node.around.stuck for mount in mine):
        return ShellAnswer(b"", b"", 124)
    if not mine:
        return ShellAnswer(b"", b"df: no file systems processed\n", 1)
    rows = ["Filesystem         Type IUse%       1B-blocks           Avail Use% Mounted on"]
    for mount in mine:
        used, inodes = _percent(mount.used, mount.size), _percent(mount.inodes_used, mount.inodes) if mount.inodes else "-"
        rows.append(
            f"{mount.source:<18} {mount.fstype:<4} {inodes:>5} {mount.size:>15} {mount.size - mount.used:>15} {used:>4} {mount.target}"
        )
    return said("\n".join(rows) + "\n")


def mounts(view: View) -> ShellAnswer:
    """`findmnt -J -o TARGET,SOURCE,FSTYPE,OPTIONS`: a tree below the root."""
    root, *others = view.node.mounts
    tree = _entry(root) | {"children": [_entry(mount) for mount in others]}
    return said(json.dumps({"filesystems": [tree]}, indent=3) + "\n")


def _entry(mount: Mount) -> dict[str, Any]:
    return {"target": mount.target, "source": mount.source, "fstype": mount.fstype, "options": mount.options}


def _percent(used: int, total: int) -> str:
    """Round up, as df does."""
    return f"{-(-used * 100 // total) if total else 0}%"
