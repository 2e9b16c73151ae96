"""File systems: space, inodes, mount options."""

import json
from typing import Any

from deploy.sandbox.cluster.answer import ShellAnswer, text_answer
from deploy.sandbox.cluster.machines.state import Mount
from deploy.sandbox.cluster.render.query import Query
from tools.checks.storage import SHARED_FILE_SYSTEMS

_RESERVED_SHARES = {"ext4": 0.05}  # share of a file system that only root may fill


def render_space(query: Query) -> ShellAnswer:
    """`df -P -T -B1` of local file systems."""
    lines = ["Filesystem           Type        1-blocks            Used       Available Capacity Mounted on"]
    for mount in _list_local_mounts(query):
        free = _get_free_bytes(mount)
        lines.append(
            f"{mount.source:<20} {mount.fstype:<5} {mount.size:>15} {mount.used:>15} {free:>15} {_format_percent(mount.used, mount.used + free):>8} {mount.target}"
        )
    return text_answer("\n".join(lines) + "\n")


def render_root(query: Query) -> ShellAnswer:
    """`df --output=pcent,ipcent /`."""
    mount = query.node.mount("/")
    free = _get_free_bytes(mount)
    inodes = _format_percent(mount.inodes_used, mount.inodes) if mount.inodes else "-"
    return text_answer(f"Use% IUse%\n{_format_percent(mount.used, mount.used + free):>4} {inodes:>5}\n")


def render_old_files(query: Query) -> ShellAnswer:
    """`rackmedic-look cleanup.preview HOURS`: files not written to for that long, the hundred largest listed."""
    min_hours = int(query.slots["hours"])
    old_files = [file for file in query.node.environment.leftovers if file.hours >= min_hours]
    old_files.sort(key=lambda file: -file.blocks)
    total_bytes = 512 * sum(file.blocks for file in old_files)
    lines = [f"file {60 * file.hours:.0f} {512 * file.blocks} {file.owner} {file.path}" for file in old_files[:100]]
    return text_answer("\n".join(["end 0", f"total {len(old_files)} {total_bytes}", "opens 0", *lines]) + "\n")


def render_inodes(query: Query) -> ShellAnswer:
    """`df -P -i` of local file systems."""
    lines = ["Filesystem               Inodes     IUsed      IFree IUse% Mounted on"]
    for mount in _list_local_mounts(query):
        used = _format_percent(mount.inodes_used, mount.inodes) if mount.inodes else "-"
        lines.append(
            f"{mount.source:<20} {mount.inodes:>10} {mount.inodes_used:>9} {mount.inodes - mount.inodes_used:>10} {used:>5} {mount.target}"
        )
    return text_answer("\n".join(lines) + "\n")


def render_shared(query: Query) -> ShellAnswer:
    """`timeout 4 df --output=source,fstype,ipcent,size,avail,pcent,target` of shared file systems; no output if one
    hangs.
    """
    shared_mounts = [mount for mount in query.node.mounts if mount.fstype in SHARED_FILE_SYSTEMS]
    if any(mount.target in query.node.environment.stuck for mount in shared_mounts):
        return ShellAnswer(b"", b"", 124)
    if not shared_mounts:
        return ShellAnswer(b"", b"df: no file systems processed\n", 1)
    lines = ["Filesystem         Type IUse%       1B-blocks           Avail Use% Mounted on"]
    for mount in shared_mounts:
        used = _format_percent(mount.used, mount.size)
        inodes = _format_percent(mount.inodes_used, mount.inodes) if mount.inodes else "-"
        lines.append(
            f"{mount.source:<18} {mount.fstype:<4} {inodes:>5} {mount.size:>15} {mount.size - mount.used:>15} {used:>4} {mount.target}"
        )
    return text_answer("\n".join(lines) + "\n")


def render_mounts(query: Query) -> ShellAnswer:
    """`findmnt -J -o TARGET,SOURCE,FSTYPE,OPTIONS`: a tree below the root."""
    root, *other_mounts = query.node.mounts
    tree = _build_mount_entry(root) | {"children": [_build_mount_entry(mount) for mount in other_mounts]}
    return text_answer(json.dumps({"filesystems": [tree]}, indent=3) + "\n")


def _list_local_mounts(query: Query) -> list[Mount]:
    return [mount for mount in query.node.mounts if mount.fstype not in SHARED_FILE_SYSTEMS]


def _get_free_bytes(mount: Mount) -> int:
    """Return what is free for users: df leaves out the reserved share."""
    return max(0, int(mount.size * (1 - _RESERVED_SHARES.get(mount.fstype, 0.0))) - mount.used)


def _build_mount_entry(mount: Mount) -> dict[str, Any]:
    return {"target": mount.target, "source": mount.source, "fstype": mount.fstype, "options": mount.options}


def _format_percent(used: int, total: int) -> str:
    """Round up, as df does."""
    return f"{-(-used * 100 // total) if total else 0}%"
