"""Space, inodes and mounts: `df -P -T -B1`, `df -P -i`, `findmnt -J`.

Shared file systems are queried separately with a time limit, because `df` hangs on a server that does not answer.

Filesystem     Type      1-blocks          Used     Available Capacity Mounted on
/dev/nvme0n1p2 ext4 1888273125376 1888273125376             0     100% /
Filesystem        Inodes   IUsed     IFree IUse% Mounted on
{"filesystems": [{"target": "/scratch", "source": "/dev/md0", "fstype": "xfs", "options": "ro,noatime", "children": []}]}
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kb.needle_search import split_lines
from tools.checks.check_types import Check, Command, Format, Unreadable
from tools.checks.storage import SHARED_FILE_SYSTEMS
from tools.fact import Fact, Status, build_unobserved_fact

CHECK = "disk"
_SPACE_PATTERN = re.compile(r"(\S+) +(\S+) +(\d+) +(\d+) +(-?\d+) +(\d{1,3}%|-) +(/.*)$")
_INODES_PATTERN = re.compile(r"(\S+) +(\d+|-) +(\d+|-) +(-?\d+|-) +(\d{1,3}%|-) +(/.*)$")
_DF_ERROR_PATTERN = re.compile(
    r"df: (.{1,200}?): (Permission denied|Stale file handle|Transport endpoint is not connected|Input/output error|.{1,80})$"
)
_SHARED_HEAD_PATTERN = re.compile(r"Filesystem +Type +IUse% +1B-blocks +Avail +Use% +Mounted on")
_SHARED_ROW_PATTERN = re.compile(r"(\S+) +(\S+) +(\d{1,3}%|-) +(\d{1,20}|-) +(\d{1,20}|-) +(\d{1,3}%|-) +(/.*)$")
_NO_SHARED_PATTERN = re.compile(r"df: no file systems processed")
_IMAGE_FILE_SYSTEMS = {"squashfs", "iso9660", "erofs", "cramfs"}  # always full and read-only
_DATA_FILE_SYSTEMS = {
    "ext2",
    "ext3",
    "ext4",
    "xfs",
    "btrfs",
    "zfs",
    "nfs",
    "nfs4",
    "lustre",
    "beegfs",
    "gpfs",
    "wekafs",
    "ceph",
    "cifs",
    "f2fs",
    "vfat",
    "overlay",
}


def is_space(text: str) -> bool:
    return bool(re.search(r"(?m)^Filesystem +Type +1(?:024|K|B)?-blocks", text[:8192]))


def parse_space(text: str) -> Sequence[Fact]:
    header = re.search(r"(?m)^Filesystem +Type +1(024|K)?", text)
    block_bytes = 1024 if header and header[1] else 1
    facts: list[Fact] = []
    for line in split_lines(text):
        match = _SPACE_PATTERN.match(line)
        if not match or match[2] in _IMAGE_FILE_SYSTEMS:
            continue
        size, used, free = (int(match[column][:18]) * block_bytes for column in (3, 4, 5))
        mount = match[7]
        attrs = {"fstype": match[2], "source": match[1]}
        facts.append(Fact(CHECK, "disk.size_bytes", size, mount, unit="B", line=line, attrs=attrs))
        facts.append(Fact(CHECK, "disk.free_bytes", max(0, free), mount, unit="B", line=line, attrs=attrs))
        if used + free > 0:
            percent = -(-100 * used // (used + max(0, free))) if used else 0  # rounded up, as df does
            facts.append(Fact(CHECK, "disk.used_percent", percent, mount, unit="%", line=line, attrs=attrs))
    return _add_unreadable_mounts(facts, text)


def is_inodes(text: str) -> bool:
    return bool(re.search(r"(?m)^Filesystem +Inodes +IUsed +IFree", text[:8192]))


def parse_inodes(text: str) -> Sequence[Fact]:
    """Return inodes in use by mount; skip file systems without a fixed number of inodes, and loop devices."""
    facts: list[Fact] = []
    mount_count = 0
    for line in split_lines(text):
        match = _INODES_PATTERN.match(line)
        if match is None:
            continue
        mount_count += 1
        source, inodes, percent, mount = match[1], match[2], match[5], match[6]
        if percent != "-" and inodes not in ("0", "-") and not source.startswith("/dev/loop"):
            facts.append(Fact(CHECK, "disk.inodes_percent", int(percent[:-1]), mount, unit="%", line=line))
    return _add_unreadable_mounts(facts, text) if facts or not mount_count else facts


def is_shared(text: str) -> bool:
    return bool(_SHARED_HEAD_PATTERN.match(text.lstrip()) or _NO_SHARED_PATTERN.search(text[:400]))


def parse_shared(text: str) -> Sequence[Fact]:
    facts: list[Fact] = []
    for match in filter(None, map(_SHARED_ROW_PATTERN.match, split_lines(text))):
        source, file_system, inodes_percent, size, free, used_percent, mount = match.groups()
        line = match[0].strip()
        attrs = {"fstype": file_system, "source": source}
        for key, percent in (("disk.inodes_percent", inodes_percent), ("disk.used_percent", used_percent)):
            if percent != "-":
                facts.append(Fact(CHECK, key, int(percent[:-1]), mount, unit="%", line=line, attrs=attrs))
        for key, count in (("disk.size_bytes", size), ("disk.free_bytes", free)):
            if count.isdigit():
                facts.append(Fact(CHECK, key, int(count), mount, unit="B", line=line, attrs=attrs))
    return [*facts, *_build_df_error_facts(text)]


def _build_df_error_facts(text: str) -> list[Fact]:
    error_lines = [line.strip() for line in split_lines(text) if _DF_ERROR_PATTERN.match(line)]
    return [build_unobserved_fact(CHECK, Status.UNREADABLE, line[:300]) for line in error_lines]


def _add_unreadable_mounts(facts: list[Fact], text: str) -> list[Fact]:
    """Add the mounts that df could not query. Raise Unreadable if the output has no mount at all."""
    unreadable_mounts = _build_df_error_facts(text)
    if not facts and not unreadable_mounts:
        raise Unreadable("a head and no row of a mount")
    return facts + unreadable_mounts


def is_mounts(text: str) -> bool:
    return text.lstrip().startswith("{") and '"filesystems"' in text[:200]


def parse_mounts(text: str) -> Sequence[Fact]:
    try:
        tree = json.loads(text[: text.rfind("}") + 1])
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"expected JSON: {error}") from error
    top_mounts = tree.get("filesystems") if isinstance(tree, dict) else None
    if not isinstance(top_mounts, list):
        raise Unreadable("expected a list of filesystems")
    facts_by_target = {}
    for mount in _iter_mounts(top_mounts):
        target, file_system, options = (str(mount.get(name, "")) for name in ("target", "fstype", "options"))
        if file_system not in _DATA_FILE_SYSTEMS and not file_system.startswith("fuse."):
            continue
        line = f"{target} {mount.get('source', '')} {file_system} {options}"[:300]
        attrs = {"fstype": file_system, "source": str(mount.get("source", ""))[:200]}
        facts_by_target[target] = Fact(CHECK, "disk.readonly", "ro" in options.split(","), target, line=line, attrs=attrs)
    return list(facts_by_target.values())


def _iter_mounts(mounts: Sequence[Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the mounts and the mounts below them, depth first."""
    pending = [mount for mount in reversed(mounts) if isinstance(mount, dict)]
    while pending:
        mount = pending.pop()
        yield mount
        children = mount.get("children")
        if isinstance(children, list):
            pending += [child for child in reversed(children) if isinstance(child, dict)]


_SHARED_DF_COMMAND = ("timeout", "-k", "1", "4", "df", "-B1", "--output=source,fstype,ipcent,size,avail,pcent,target")

CHECKS = (
    Check(
        id=CHECK,
        asks="Is a file system full, out of inodes, or read-only, and how large is /dev/shm?",
        commands=(
            Command("space", ("df", "-P", "-T", "-B1", *(f"-x{kind}" for kind in SHARED_FILE_SYSTEMS))),
            Command("inodes", ("df", "-P", "-i", *(f"-x{kind}" for kind in SHARED_FILE_SYSTEMS))),
            Command("shared", (*_SHARED_DF_COMMAND, *(f"-t{kind}" for kind in SHARED_FILE_SYSTEMS)), optional=True),
            Command("mounts", ("findmnt", "-J", "-o", "TARGET,SOURCE,FSTYPE,OPTIONS")),
        ),
        formats=(
            Format("df -T", is_space, parse_space),
            Format("df -i", is_inodes, parse_inodes),
            Format("df of shared file systems", is_shared, parse_shared),
            Format("findmnt", is_mounts, parse_mounts),
        ),
        establishes=("disk.used_percent", "disk.free_bytes", "disk.size_bytes", "disk.inodes_percent", "disk.readonly"),
        seconds=2.0,
    ),
)
