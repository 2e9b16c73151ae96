"""The InfiniBand subnet as one node sees it: its manager, the leaf switch it hangs on, and that leaf's links to other switches.

sminfo: sm lid 1 sm guid 0xb8cef60300a1b2c4, activity count 194213 priority 15 state 3 SMINFO_MASTER
0xb8cef60300f0a111 "leaf-2" 4 33[  ] ==( 2X  53.125 Gbps Active/  LinkUp)==> 0xb8cef60300f0b222 9 4[  ] "spine-1" ( Could be 4X )
"""

import re
from collections import Counter
from collections.abc import Sequence

from tools.checks.row import Check, Command, Format
from tools.fact import Fact, Status

CHECK = "fabric"
_MANAGER = re.compile(r"sminfo: sm lid \d{1,5} sm guid 0x[0-9a-f]{1,16},.{0,80}\bSMINFO_([A-Z]{1,20})")
_NO_MANAGER = re.compile(r"sminfo: iberror: failed: query|sminfo: iberror: .{0,40}query failed")
_NO_PORT = re.compile(
    r"(?:sminfo|iblinkinfo|ibwarn): .{0,80}(?:can't open UMAD port|Failed to open|can't find|No such device|open_port)", re.IGNORECASE
)
_LINK = re.compile(
    r"\s*0x(?P<guid>[0-9a-f]{1,16}) +\"(?P<name>.{0,80}?)\" +(?P<lid>\d{1,5}) +(?P<port>\d{1,3})\[ *\] ==\( *"
    r"(?P<speed>\d{1,2}X +[\d.]{1,12} Gbps) +Active/ +LinkUp\) *==> +0x[0-9a-f]{1,16} +\d{1,5} +\d{1,3}\[ *\] \"(?P<peer>.{0,80}?)\" \((?P<says>.{0,80}?)\)\s*$"
)
_ADAPTER = re.compile(r"\bmlx\d_\d|\bHCA-?\d|ConnectX|Aggregation", re.IGNORECASE)
"""What a port's far end is called when it is no switch's."""


def is_manager(text: str) -> bool:
    """Whether sminfo or the library below it wrote this."""
    head = text[:2000]
    return bool(_MANAGER.search(head) or _NO_MANAGER.search(head) or _NO_PORT.search(head))


def parse_manager(text: str) -> Sequence[Fact]:
    """The subnet manager's state. Silence of the manager is an answer; a host without a port to ask from is another."""
    if row := _MANAGER.search(text):
        return [Fact(CHECK, "fabric.sm", row[1], line=row[0][:200])]
    if silent := _NO_MANAGER.search(text):
        return [Fact(CHECK, "fabric.sm", "none", line=silent[0])]
    why = _NO_PORT.search(text)
    return [Fact(CHECK, "fabric.sm", status=Status.ABSENT, line=why[0] if why else "no InfiniBand port to ask from")]


def is_links(text: str) -> bool:
    """Whether lines of `iblinkinfo -l` stand in the text."""
    return any(_LINK.match(line) for line in text[:16384].splitlines()[:60])


def parse_links(text: str) -> Sequence[Fact]:
    """The switch that most lines are about is the leaf; its links to adapters are their hosts' business."""
    rows = [row for row in map(_LINK.match, text.splitlines()) if row]
    leaves = Counter(row["name"].strip() for row in rows if not _ADAPTER.search(row["name"]))
    if not leaves:
        return [Fact(CHECK, "fabric.leaf", status=Status.ABSENT, line="no switch behind the first port")]
    leaf = leaves.most_common(1)[0][0][:60]
    up = [row for row in rows if row["name"].strip()[:60] == leaf and not _ADAPTER.search(row["peer"])]
    slow = [row for row in up if "Could be" in row["says"]]
    shown = (slow or up or rows)[0][0].strip()[:300]
    attrs = {"leaf": leaf, "uplinks": len(up)}
    worst = {"port": slow[0]["port"], "width": slow[0]["speed"].split()[0], "could": _could(slow[0]["says"])} if slow else {}
    return [
        Fact(CHECK, "fabric.leaf", re.sub(r"[^A-Za-z0-9_.-]+", "-", leaf).strip("-") or "leaf", line=shown, attrs=attrs),
        Fact(CHECK, "fabric.degraded", len(slow), line=shown, attrs=attrs | worst),
    ]


def _could(says: str) -> str:
    """`4X` of `Could be 4X`."""
    return says.partition("Could be")[2].strip() or "better"


def settle(facts: Sequence[Fact]) -> Sequence[Fact]:
    """Tools that are not there say nothing."""
    return facts or [Fact(CHECK, "fabric.sm", status=Status.ABSENT, line="sminfo and iblinkinfo are not installed")]


CHECKS = (
    Check(
        id="fabric",
        asks="Is there a subnet manager, and are the links of the leaf switch as wide and fast as they can be?",
        commands=(
            Command("manager", ("sminfo",), privileged=True, optional=True),
            Command("links", ("iblinkinfo", "-l", "-n", "1"), privileged=True, optional=True),
        ),
        formats=(Format("sminfo", is_manager, parse_manager), Format("iblinkinfo", is_links, parse_links)),
        establishes=("fabric.sm", "fabric.leaf", "fabric.degraded"),
        seconds=8.0,
        settle=settle,
    ),
)
