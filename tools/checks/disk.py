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
_TROUBLE_PATTERN = re.compile(
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
    head = re.search(r"(?m)^Filesystem +Type +1(024|K)?", text)
    unit = 1024 if head and head[1] else 1
    facts: list[Fact] = []
    for line in split_lines(text):
        row = _SPACE_PATTERN.match(line)
        if not row or row[2] in _IMAGE_FILE_SYSTEMS:
            continue
        size, used, free = (int(row[at][:18]) * unit for at in (3, 4, 5))
        attrs = {"fstype": row[2], "source": row[1]}
        facts.append(Fact(CHECK, "disk.size_bytes", size, row[7], unit="B", line=line, attrs=attrs))
        facts.append(Fact(CHECK, "disk.free_bytes", max(0, free), row[7], unit="B", line=line, attrs=attrs))
        if used + free > 0:
            percent = -(-100 * used // (used + max(0, free))) if used else 0
            facts.append(Fact(CHECK, "disk.used_percent", percent, row[7], unit="%", line=line, attrs=attrs))
    return _add_unreadable_mounts(facts, text)


def is_inodes(text: str) -> bool:
    return bool(re.search(r"(?m)^Filesystem +Inodes +IUsed +IFree", text[:8192]))


def parse_inodes(text: str) -> Sequence[Fact]:
    facts: list[Fact] = []
    rows = 0
    for line in split_lines(text):
        row = _INODES_PATTERN.match(line)
        rows += row is not None
        if row and row[5] != "-" and row[2] not in ("0", "-") and not row[1].startswith("/dev/loop"):
            facts.append(Fact(CHECK, "disk.inodes_percent", int(row[5][:-1]), row[6], unit="%", line=line))
    return _add_unreadable_mounts(facts, text) if facts or not rows else facts


def is_shared(text: str) -> bool:
    return bool(_SHARED_HEAD_PATTERN.match(text.lstrip()) or _NO_SHARED_PATTERN.search(text[:400]))


def parse_shared(text: str) -> Sequence[Fact]:
    facts: list[Fact] = []
    for row in filter(None, map(_SHARED_ROW_PATTERN.match, split_lines(text))):
        attrs = {"fstype": row[2], "source": row[1]}
        shows = {"disk.inodes_percent": row[3], "disk.used_percent": row[6]}
        facts += [
            Fact(CHECK, key, int(cell[:-1]), row[7], unit="%", line=row[0].strip(), attrs=attrs)
            for key, cell in shows.items()
            if cell != "-"
        ]
        if row[4].isdigit():
            facts.append(Fact(CHECK, "disk.size_bytes", int(row[4]), row[7], unit="B", line=row[0].strip(), attrs=attrs))
        if row[5].isdigit():
            facts.append(Fact(CHECK, "disk.free_bytes", int(row[5]), row[7], unit="B", line=row[0].strip(), attrs=attrs))
    return [
        *facts,
        *(
            build_unobserved_fact(CHECK, Status.UNREADABLE, line.strip()[:300])
            for line in split_lines(text)
            if _TROUBLE_PATTERN.match(line)
        ),
    ]


def _add_unreadable_mounts(found: list[Fact], text: str) -> list[Fact]:
    """Add mounts that df could not query. Raise Unreadable without any mount."""
    unreadable = [
        build_unobserved_fact(CHECK, Status.UNREADABLE, line.strip()[:300]) for line in split_lines(text) if _TROUBLE_PATTERN.match(line)
    ]
    if not found and not unreadable:
        raise Unreadable("a head and no row of a mount")
    return found + unreadable


def is_mounts(text: str) -> bool:
    return text.lstrip().startswith("{") and '"filesystems"' in text[:200]


def parse_mounts(text: str) -> Sequence[Fact]:
    try:
        tree = json.loads(text[: text.rfind("}") + 1])
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"expected JSON: {error}") from error
    rows = tree.get("filesystems") if isinstance(tree, dict) else None
    if not isinstance(rows, list):
        raise Unreadable("expected a list of filesystems")
    mounts = {}
    for row in _flatten_mounts(rows):
        target, kind, options = (str(row.get(name, "")) for name in ("target", "fstype", "options"))
        if kind not in _DATA_FILE_SYSTEMS and not kind.startswith("fuse."):
            continue
        line = f"{target} {row.get('source', '')} {kind} {options}"[:300]
        attrs = {"fstype": kind, "source": str(row.get("source", ""))[:200]}
        mounts[target] = Fact(CHECK, "disk.readonly", "ro" in options.split(","), target, line=line, attrs=attrs)
    return list(mounts.values())


def _flatten_mounts(rows: Sequence[Any]) -> Iterator[Mapping[str, Any]]:
    waiting = [row for row in reversed(rows) if isinstance(row, dict)]
    while waiting:
        row = waiting.pop()
        yield row
        children = row.get("children")
        waiting += [child for child in reversed(children) if isinstance(child, dict)] if isinstance(children, list) else []


_SHARED_DF_COMMAND = ("timeout", "-k", "1", "4", "df", "-B1", "--output=source,fstype,ipcent,size,avail,pcent,target")

CHECKS = (
    Check(
        id="disk",
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
