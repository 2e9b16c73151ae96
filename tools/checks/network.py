"""Ethernet of a node: interfaces, packets that adapters drop, and whether the job's master resolves and is reachable.

[{"ifname":"eth0","mtu":9000,"operstate":"UP","link_type":"ether","stats64":{"rx":{"dropped":0,"errors":0}}}]
== eth2
     rx_discards_phy: 912334
master 10.20.0.11 29500 refused
"""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from kb.needle_search import split_lines
from tools.checks import web
from tools.checks.check_types import Check, Command, Format, Unreadable
from tools.fact import Fact, Status

CHECK = "net"
_NAME_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,14}")
# Software interfaces: their MTU says nothing about a network.
_MADE_PATTERN = re.compile(
    r"lo$|veth|docker|br-|virbr|cni|cali|flannel|tunl|vxlan|kube|dummy|nodelocaldns|lxc|ip6tnl|sit\d|gre|erspan|wg\d|tailscale"
)
_PLAIN_PATTERN = re.compile(r"\d{1,5}: ([A-Za-z0-9_.-]{1,15})(?:@\S{1,20})?: <[A-Z0-9_,-]{0,200}> mtu (\d{1,7}) .{0,80}?state (\w{1,20})")
_HEAD_PATTERN = re.compile(r"== ([A-Za-z0-9][A-Za-z0-9_.-]{0,14})\s*$")
_DISCARDS_PATTERN = re.compile(r"\s*(?:rx_discards_phy|rx_discards|rx_missed_errors): (\d{1,18})\s*$")
_PAUSE_PATTERN = re.compile(r"\s*(?:[rt]x_prio\d_pause|[rt]x_global_pause|[rt]x_pause_ctrl_phy): (\d{1,18})\s*$")
_MASTER_PATTERN = re.compile(r"master ([A-Za-z0-9._:-]{1,253}) (\d{1,5}) (ok|refused|filtered|no_name|unknown)\s*$")
_REACH_ORDER = ("no_name", "filtered", "refused", "ok")


def is_links(text: str) -> bool:
    return (text.lstrip().startswith("[") and '"ifname"' in text[:4096]) or any(
        _PLAIN_PATTERN.match(line) for line in split_lines(text[:4096])[:4]
    )


def parse_links(text: str) -> Sequence[Fact]:
    """Return MTU, state and drops; skip interfaces that software made."""
    rows = _parse_json_links(text) if text.lstrip().startswith("[") else _parse_plain_links(text)
    facts: list[Fact] = []
    for row in rows:
        name, mtu, state = str(row.get("ifname", "")), row.get("mtu"), str(row.get("operstate", ""))
        if not _NAME_PATTERN.fullmatch(name) or _MADE_PATTERN.match(name) or row.get("link_type") == "loopback" or _is_software_made(row):
            continue
        line = f"{name}: mtu {mtu} state {state}"[:120]
        facts.append(Fact(CHECK, "net.state", state[:20] or "UNKNOWN", name, line=line))
        if state == "UP" and _is_count(mtu):
            facts.append(Fact(CHECK, "net.mtu", mtu, name, line=line))
        stats = row.get("stats64") or row.get("stats")
        arrived = stats.get("rx") if isinstance(stats, Mapping) else None
        if isinstance(arrived, Mapping):
            pairs = (("net.rx_dropped", "dropped"), ("net.rx_errors", "errors"))
            facts += [
                Fact(CHECK, key, arrived[cell], name, line=f"{name}: rx {cell} {arrived[cell]}")
                for key, cell in pairs
                if _is_count(arrived.get(cell))
            ]
    return facts or [Fact(CHECK, "net.state", status=Status.ABSENT, line="no network interface but those that software made")]


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63


def _is_software_made(row: Mapping[str, Any]) -> bool:
    link_info = row.get("linkinfo")
    return isinstance(link_info, Mapping) and link_info.get("info_kind") not in (None, "bond", "vlan", "team")


def _parse_json_links(text: str) -> Sequence[Mapping[str, Any]]:
    try:
        rows = json.loads(text[: text.rfind("]") + 1])
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"expected JSON: {error}") from error
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def _parse_plain_links(text: str) -> Sequence[Mapping[str, Any]]:
    return [{"ifname": row[1], "mtu": int(row[2]), "operstate": row[3]} for row in map(_PLAIN_PATTERN.match, split_lines(text)) if row]


def is_adapter_counters(text: str) -> bool:
    return _HEAD_PATTERN.match(text.lstrip("\n").split("\n", 1)[0]) is not None


def parse_adapter_counters(text: str) -> Sequence[Fact]:
    discards: Counter[str] = Counter()
    pauses: Counter[str] = Counter()
    name, counters = "", []
    for line in split_lines(text):
        if head := _HEAD_PATTERN.match(line):
            name = head[1]
            counters += [name] if name not in counters else []
        elif name and (row := _DISCARDS_PATTERN.match(line)):
            discards[name] += int(row[1])
        elif name and (row := _PAUSE_PATTERN.match(line)):
            pauses[name] += int(row[1])
    facts = [
        Fact(CHECK, "net.rx_discards", discards[name], name, line=f"{name}: {discards[name]} discarded")
        for name in counters
        if name in discards
    ]
    return facts + [
        Fact(CHECK, "net.pause", pauses[name], name, line=f"{name}: {pauses[name]} pause frames") for name in counters if name in pauses
    ]


def is_master_reach(text: str) -> bool:
    return _MASTER_PATTERN.match(text.lstrip("\n").split("\n", 1)[0]) is not None


def parse_master_reach(text: str) -> Sequence[Fact]:
    """Return the worst result; usually one master is named."""
    rows = [row for row in map(_MASTER_PATTERN.match, split_lines(text)) if row]
    reached = sorted((row for row in rows if row[3] in _REACH_ORDER), key=lambda row: _REACH_ORDER.index(row[3]))
    if not reached:
        return [Fact(CHECK, "net.master_reach", status=Status.ABSENT, line=rows[0][0] if rows else "no master")]
    row = reached[0]
    return [Fact(CHECK, "net.master_reach", row[3], line=row[0].strip(), attrs={"master": row[1], "port": int(row[2])})]


def add_absent_master(facts: Sequence[Fact]) -> Sequence[Fact]:
    """Report absent if no visible process names a master."""
    if not facts or any(fact.key == "net.master_reach" or fact.status.blind for fact in facts):
        return facts
    return [*facts, Fact(CHECK, "net.master_reach", status=Status.ABSENT, line="no process here names a master")]


CHECKS = (
    Check(
        id="net",
        asks="Do the network interfaces fit each other, drop nothing, and reach the job's master and the experiment tracker?",
        commands=(
            Command("links", ("ip", "-j", "-s", "-d", "link", "show"), optional=True),
            Command("adapters", ("rackmedic-look", "adapters"), privileged=True, optional=True),
            Command("master", ("rackmedic-look", "masters"), privileged=True, optional=True),
            web.build_headers_command("tracker", "tracker"),
        ),
        formats=(
            Format("ip link", is_links, parse_links),
            Format("adapter counters", is_adapter_counters, parse_adapter_counters),
            Format("masters", is_master_reach, parse_master_reach),
            web.build_headers_format(CHECK, "net.tracker"),
        ),
        establishes=(
            *("net.state", "net.mtu", "net.rx_dropped", "net.rx_errors", "net.rx_discards"),
            *("net.pause", "net.master_reach", "net.tracker", "check.no_target"),
        ),
        seconds=3.0,
        settle=add_absent_master,
    ),
)
