"""InfiniBand subnet as one node sees it: the subnet manager, the node's leaf switch, and that leaf's links to other switches.

sminfo: sm lid 1 sm guid 0xb8cef60300a1b2c4, activity count 194213 priority 15 state 3 SMINFO_MASTER
0xb8cef60300f0a111 "leaf-2" 4 33[  ] ==( 2X  53.125 Gbps Active/  LinkUp)==> 0xb8cef60300f0b222 9 4[  ] "spine-1" ( Could be 4X )

iblinkinfo goes two hops from the local port: with one hop, infiniband-diags 44 reaches no other switch and prints "Port
not available" for each link to one.
"""

import re
from collections import Counter
from collections.abc import Sequence

from kb.needle_search import split_lines
from tools.checks.check_types import Check, Command, Format
from tools.fact import Fact, Status, build_unobserved_fact

CHECK = "fabric"
_MANAGER_PATTERN = re.compile(r"sminfo: sm lid \d{1,5} sm guid 0x[0-9a-f]{1,16},.{0,80}\bSMINFO_([A-Z]{1,20})")
_NO_MANAGER_PATTERN = re.compile(r"sminfo: iberror: failed: query|sminfo: iberror: .{0,40}query failed")
_NO_PORT_PATTERN = re.compile(
    r"(?:sminfo|iblinkinfo|ibwarn): .{0,80}(?:can't open UMAD port|Failed to open|can't find|No such device|open_port)", re.IGNORECASE
)
_LINK_PATTERN = re.compile(
    r"\s*0x(?P<guid>[0-9a-f]{1,16}) +\"(?P<name>.{0,80}?)\" +(?P<lid>\d{1,5}) +(?P<port>\d{1,3})\[ *\] ==\( *"
    r"(?P<speed>\d{1,2}X +[\d.]{1,12} Gbps) +Active/ +LinkUp\) *==> +0x[0-9a-f]{1,16} +\d{1,5} +\d{1,3}\[ *\] \"(?P<peer>.{0,80}?)\" \((?P<says>.{0,80}?)\)\s*$"
)
_UNOBSERVED_LINK_PATTERN = re.compile(
    r"\s*0x[0-9a-f]{1,16} +\"(?P<name>.{0,80}?)\" .{0,80}Active/ +LinkUp\) *==> +\"Port not available\"\s*$"
)
LinkRow = re.Match[str]
# far-end names that are no switch
_ADAPTER_PATTERN = re.compile(r"\bmlx\d_\d|\bHCA-?\d|ConnectX|Aggregation", re.IGNORECASE)


def is_manager(text: str) -> bool:
    head = text[:2000]
    return bool(_MANAGER_PATTERN.search(head) or _NO_MANAGER_PATTERN.search(head) or _NO_PORT_PATTERN.search(head))


def parse_manager(text: str) -> Sequence[Fact]:
    """Return the manager's state, `none` if it does not answer; skipped on a host without a usable port."""
    if row := _MANAGER_PATTERN.search(text):
        return [Fact(CHECK, "fabric.sm", row[1], line=row[0][:200])]
    if silent := _NO_MANAGER_PATTERN.search(text):
        return [Fact(CHECK, "fabric.sm", "none", line=silent[0])]
    match = _NO_PORT_PATTERN.search(text)
    return [
        Fact(CHECK, "check.skipped", "no_device", line=f"no InfiniBand port can be opened to ask from: {match[0] if match else ''}"[:300])
    ]


def is_links(text: str) -> bool:
    return any(_LINK_PATTERN.match(line) for line in split_lines(text))


def parse_links(text: str) -> Sequence[Fact]:
    """Return the leaf and its links to other switches; links to hosts are ignored.

    A link that iblinkinfo could not follow ("Port not available") is unobserved; if no other link leads to a switch,
    nothing
    is reported about degraded links.
    """
    links = [match for match in map(_LINK_PATTERN.match, split_lines(text)) if match]
    leaf = _find_leaf(links)
    if not leaf:
        return [Fact(CHECK, "fabric.leaf", status=Status.ABSENT, line="no switch behind the first port")]
    up = [link for link in links if _get_switch_name(link) == leaf and link["peer"] and not _ADAPTER_PATTERN.search(link["peer"])]
    unseen = [
        line.strip() for line in split_lines(text) if (row := _UNOBSERVED_LINK_PATTERN.match(line)) and row["name"].strip()[:60] == leaf
    ]
    slow = _find_degraded_links(links, up)
    example_line = (slow or up or [link for link in links if _get_switch_name(link) == leaf])[0][0].strip()[:300]
    attrs = {"leaf": leaf, "uplinks": len(up)}
    leaf_fact = Fact(CHECK, "fabric.leaf", re.sub(r"[^A-Za-z0-9_.-]+", "-", leaf).strip("-") or "leaf", line=example_line, attrs=attrs)
    return [leaf_fact, *_build_uplink_facts(leaf, up, slow, unseen, example_line)]


def _find_degraded_links(links: Sequence[LinkRow], up: Sequence[LinkRow]) -> list[LinkRow]:
    """Return links to other switches below their capability, narrowest first.

    If every link, adapters' included, is below it, the parts exceed what the site uses; then only links slower than
    another
    count.
    """
    could = [link for link in up if "Could be" in link["says"]]
    if all("Could be" in link["says"] for link in links):
        fastest_gbps = max(map(_compute_link_gbps, links))
        could = [link for link in could if _compute_link_gbps(link) < fastest_gbps]
    return sorted(could, key=lambda link: int(link["speed"].partition("X")[0]))


def _compute_link_gbps(link: LinkRow) -> float:
    """Gbit/s over all lanes."""
    lanes, _, rate = link["speed"].partition("X")
    return int(lanes) * float(rate.split()[0][:9].rstrip("."))


def _build_uplink_facts(leaf: str, up: Sequence[LinkRow], slow: Sequence[LinkRow], unseen: Sequence[str], shown: str) -> list[Fact]:
    attrs = {"leaf": leaf, "uplinks": len(up)}
    worst = {"port": slow[0]["port"], "width": slow[0]["speed"].split()[0], "could": _parse_possible_width(slow[0]["says"])} if slow else {}
    facts = [Fact(CHECK, "fabric.degraded", len(slow), line=shown, attrs=attrs | worst)] if up else []
    if unseen:
        note = f"{len(unseen)} links of {leaf} could not be followed, first {' '.join(unseen[0].split())}"
        facts.append(build_unobserved_fact(CHECK, Status.UNREADABLE, note[:300]))
    elif not up:
        facts.append(Fact(CHECK, "fabric.degraded", status=Status.ABSENT, line=f"{leaf} has no link to another switch", attrs=attrs))
    return facts


def _find_leaf(links: Sequence[LinkRow]) -> str:
    """The switch with most adapters: spines have one or two of their manager, and may list more links."""
    switches = [link for link in links if not _ADAPTER_PATTERN.search(link["name"])]
    adapters = Counter(_get_switch_name(link) for link in switches if _ADAPTER_PATTERN.search(link["peer"] or ""))
    return (adapters or Counter(map(_get_switch_name, switches))).most_common(1)[0][0] if switches else ""


def _get_switch_name(link: LinkRow) -> str:
    return link["name"].strip()[:60]


def _parse_possible_width(says: str) -> str:
    """`4X` from `Could be 4X`."""
    return next(iter(says.partition("Could be")[2].split()), "better")


CHECKS = (
    Check(
        id=CHECK,
        asks="Is there a subnet manager, and are the links of the leaf switch as wide and fast as they can be?",
        commands=(
            Command("manager", ("sminfo",), privileged=True, optional=True),
            Command("links", ("iblinkinfo", "-l", "-n", "2"), privileged=True, optional=True),
        ),
        formats=(Format("sminfo", is_manager, parse_manager), Format("iblinkinfo", is_links, parse_links)),
        establishes=("fabric.sm", "fabric.leaf", "fabric.degraded", "check.skipped"),
        seconds=8.0,
    ),
)
