"""InfiniBand subnet as one node sees it: the subnet manager, the node's leaf switch, and that leaf's links to other switches.

sminfo: sm lid 1 sm guid 0xb8cef60300a1b2c4, activity count 194213 priority 15 state 3 SMINFO_MASTER
0xb8cef60300f0a111 "leaf-2" 4 33[  ] ==( 2X  53.125 Gbps Active/  LinkUp)==> 0xb8cef60300f0b222 9 4[  ] "spine-1" ( Could be 4X )

iblinkinfo goes two hops from the local port: with one hop, infiniband-diags 44 reaches no other switch and prints "Port
not available" for each link to one.
"""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

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
Link = re.Match[str]  # of _LINK_PATTERN
# Names at the far end of a link that are no switch.
_ADAPTER_PATTERN = re.compile(r"\bmlx\d_\d|\bHCA-?\d|ConnectX|Aggregation", re.IGNORECASE)


def is_manager(text: str) -> bool:
    head = text[:2000]
    return bool(_MANAGER_PATTERN.search(head) or _NO_MANAGER_PATTERN.search(head) or _NO_PORT_PATTERN.search(head))


def parse_manager(text: str) -> Sequence[Fact]:
    """Return the subnet manager's state; `none` if it does not answer. A host without a usable port is skipped."""
    if manager := _MANAGER_PATTERN.search(text):
        return [Fact(CHECK, "fabric.sm", manager[1], line=manager[0][:200])]
    if no_answer := _NO_MANAGER_PATTERN.search(text):
        return [Fact(CHECK, "fabric.sm", "none", line=no_answer[0])]
    port_error = _NO_PORT_PATTERN.search(text)
    line = f"no InfiniBand port can be opened to ask from: {port_error[0] if port_error else ''}"[:300]
    return [Fact(CHECK, "check.skipped", "no_device", line=line)]


def is_links(text: str) -> bool:
    return any(_LINK_PATTERN.match(line) for line in split_lines(text))


def parse_links(text: str) -> Sequence[Fact]:
    """Return the leaf and its links to other switches; links to hosts are ignored.

    A link that iblinkinfo could not follow ("Port not available") is unobserved. If no other link leads to a switch,
    nothing is reported about degraded links.
    """
    links = [match for match in map(_LINK_PATTERN.match, split_lines(text)) if match]
    leaf = _find_leaf(links)
    if not leaf:
        return [Fact(CHECK, "fabric.leaf", status=Status.ABSENT, line="no switch behind the first port")]
    leaf_links = [link for link in links if _get_switch_name(link) == leaf]
    uplinks = [link for link in leaf_links if link["peer"] and not _ADAPTER_PATTERN.search(link["peer"])]
    unobserved_lines = []
    for line in split_lines(text):
        unobserved_link = _UNOBSERVED_LINK_PATTERN.match(line)
        if unobserved_link and _get_switch_name(unobserved_link) == leaf:
            unobserved_lines.append(line.strip())
    degraded_links = _find_degraded_links(links, uplinks)
    example_link = (degraded_links or uplinks or leaf_links)[0]
    example_line = example_link[0].strip()[:300]
    leaf_id = re.sub(r"[^A-Za-z0-9_.-]+", "-", leaf).strip("-") or "leaf"
    leaf_fact = Fact(CHECK, "fabric.leaf", leaf_id, line=example_line, attrs={"leaf": leaf, "uplinks": len(uplinks)})
    return [leaf_fact, *_build_uplink_facts(leaf, uplinks, degraded_links, unobserved_lines, example_line)]


def _find_degraded_links(links: Sequence[Link], uplinks: Sequence[Link]) -> list[Link]:
    """Return the uplinks that are narrower or slower than they could be, narrowest first.

    If every link could be faster, adapters' links included, the hardware exceeds what the site uses. Then only uplinks
    that are slower than another link count.
    """
    degraded_links = [link for link in uplinks if "Could be" in link["says"]]
    if all("Could be" in link["says"] for link in links):
        fastest_gbps = max(map(_compute_link_gbps, links))
        degraded_links = [link for link in degraded_links if _compute_link_gbps(link) < fastest_gbps]
    return sorted(degraded_links, key=lambda link: int(link["speed"].partition("X")[0]))


def _compute_link_gbps(link: Link) -> float:
    """Return the rate over all lanes."""
    lanes, _, rate = link["speed"].partition("X")
    return int(lanes) * float(rate.split()[0][:9].rstrip("."))


def _build_uplink_facts(
    leaf: str, uplinks: Sequence[Link], degraded_links: Sequence[Link], unobserved_lines: Sequence[str], example_line: str
) -> list[Fact]:
    attrs: dict[str, Any] = {"leaf": leaf, "uplinks": len(uplinks)}
    facts = []
    if uplinks:
        degraded_attrs = attrs | _describe_link(degraded_links[0]) if degraded_links else attrs
        facts.append(Fact(CHECK, "fabric.degraded", len(degraded_links), line=example_line, attrs=degraded_attrs))
    if unobserved_lines:
        note = f"{len(unobserved_lines)} links of {leaf} could not be followed, first {' '.join(unobserved_lines[0].split())}"
        facts.append(build_unobserved_fact(CHECK, Status.UNREADABLE, note[:300]))
    elif not uplinks:
        facts.append(Fact(CHECK, "fabric.degraded", status=Status.ABSENT, line=f"{leaf} has no link to another switch", attrs=attrs))
    return facts


def _describe_link(link: Link) -> dict[str, Any]:
    return {"port": link["port"], "width": link["speed"].split()[0], "could": _parse_possible_width(link["says"])}


def _find_leaf(links: Sequence[Link]) -> str:
    """Return the switch with the most adapters, else with the most links; an empty text without any switch.

    A spine may have more links than a leaf, but only the one or two adapters of its subnet manager.
    """
    switch_links = [link for link in links if not _ADAPTER_PATTERN.search(link["name"])]
    if not switch_links:
        return ""
    adapter_counts = Counter(_get_switch_name(link) for link in switch_links if _ADAPTER_PATTERN.search(link["peer"] or ""))
    link_counts = adapter_counts or Counter(map(_get_switch_name, switch_links))
    return link_counts.most_common(1)[0][0]


def _get_switch_name(link: Link) -> str:
    return link["name"].strip()[:60]


def _parse_possible_width(says: str) -> str:
    """Return `4X` of `Could be 4X`."""
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
