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
# Interfaces that software makes: their MTU says nothing about a network.
_SOFTWARE_INTERFACE_PATTERN = re.compile(
    r"lo$|veth|docker|br-|virbr|cni|cali|flannel|tunl|vxlan|kube|dummy|nodelocaldns|lxc|ip6tnl|sit\d|gre|erspan|wg\d|tailscale"
)
_PLAIN_PATTERN = re.compile(r"\d{1,5}: ([A-Za-z0-9_.-]{1,15})(?:@\S{1,20})?: <[A-Z0-9_,-]{0,200}> mtu (\d{1,7}) .{0,80}?state (\w{1,20})")
_HEAD_PATTERN = re.compile(r"== ([A-Za-z0-9][A-Za-z0-9_.-]{0,14})\s*$")
_DISCARDS_PATTERN = re.compile(r"\s*(?:rx_discards_phy|rx_discards|rx_missed_errors): (\d{1,18})\s*$")
_PAUSE_PATTERN = re.compile(r"\s*(?:[rt]x_prio\d_pause|[rt]x_global_pause|[rt]x_pause_ctrl_phy): (\d{1,18})\s*$")
_MASTER_PATTERN = re.compile(r"master ([A-Za-z0-9._:-]{1,253}) (\d{1,5}) (ok|refused|filtered|no_name|unknown)\s*$")
_REACH_WORST_FIRST = ("no_name", "filtered", "refused", "ok")


def is_links(text: str) -> bool:
    return (text.lstrip().startswith("[") and '"ifname"' in text[:4096]) or any(
        _PLAIN_PATTERN.match(line) for line in split_lines(text[:4096])[:4]
    )


def parse_links(text: str) -> Sequence[Fact]:
    """Return the MTU, state and dropped packets of each interface; skip interfaces that software made."""
    interfaces = _parse_json_links(text) if text.lstrip().startswith("[") else _parse_plain_links(text)
    facts: list[Fact] = []
    for interface in interfaces:
        name = str(interface.get("ifname", ""))
        if not _NAME_PATTERN.fullmatch(name) or _is_software_made(name, interface):
            continue
        mtu, state = interface.get("mtu"), str(interface.get("operstate", ""))
        line = f"{name}: mtu {mtu} state {state}"[:120]
        facts.append(Fact(CHECK, "net.state", state[:20] or "UNKNOWN", name, line=line))
        if state == "UP" and _is_count(mtu):
            facts.append(Fact(CHECK, "net.mtu", mtu, name, line=line))
        facts += _build_receive_facts(name, interface)
    return facts or [Fact(CHECK, "net.state", status=Status.ABSENT, line="no network interface but those that software made")]


def _build_receive_facts(name: str, interface: Mapping[str, Any]) -> list[Fact]:
    stats = interface.get("stats64") or interface.get("stats")
    received = stats.get("rx") if isinstance(stats, Mapping) else None
    if not isinstance(received, Mapping):
        return []
    return [
        Fact(CHECK, key, received[counter], name, line=f"{name}: rx {counter} {received[counter]}")
        for key, counter in (("net.rx_dropped", "dropped"), ("net.rx_errors", "errors"))
        if _is_count(received.get(counter))
    ]


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63


def _is_software_made(name: str, interface: Mapping[str, Any]) -> bool:
    if _SOFTWARE_INTERFACE_PATTERN.match(name) or interface.get("link_type") == "loopback":
        return True
    link_info = interface.get("linkinfo")
    return isinstance(link_info, Mapping) and link_info.get("info_kind") not in (None, "bond", "vlan", "team")


def _parse_json_links(text: str) -> Sequence[Mapping[str, Any]]:
    try:
        interfaces = json.loads(text[: text.rfind("]") + 1])
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"expected JSON: {error}") from error
    return [interface for interface in interfaces if isinstance(interface, dict)] if isinstance(interfaces, list) else []


def _parse_plain_links(text: str) -> Sequence[Mapping[str, Any]]:
    return [
        {"ifname": match[1], "mtu": int(match[2]), "operstate": match[3]} for match in map(_PLAIN_PATTERN.match, split_lines(text)) if match
    ]


def is_adapter_counters(text: str) -> bool:
    return _HEAD_PATTERN.match(text.lstrip("\n").split("\n", 1)[0]) is not None


def parse_adapter_counters(text: str) -> Sequence[Fact]:
    """Return the packets that each adapter discarded and its pause frames, summed over its queues and priorities."""
    discards: Counter[str] = Counter()
    pauses: Counter[str] = Counter()
    adapter = ""
    adapters: list[str] = []
    for line in split_lines(text):
        if header := _HEAD_PATTERN.match(line):
            adapter = header[1]
            if adapter not in adapters:
                adapters.append(adapter)
        elif adapter and (counter := _DISCARDS_PATTERN.match(line)):
            discards[adapter] += int(counter[1])
        elif adapter and (counter := _PAUSE_PATTERN.match(line)):
            pauses[adapter] += int(counter[1])
    discard_facts = [
        Fact(CHECK, "net.rx_discards", discards[name], name, line=f"{name}: {discards[name]} discarded")
        for name in adapters
        if name in discards
    ]
    pause_facts = [
        Fact(CHECK, "net.pause", pauses[name], name, line=f"{name}: {pauses[name]} pause frames") for name in adapters if name in pauses
    ]
    return discard_facts + pause_facts


def is_master_reach(text: str) -> bool:
    return _MASTER_PATTERN.match(text.lstrip("\n").split("\n", 1)[0]) is not None


def parse_master_reach(text: str) -> Sequence[Fact]:
    """Return the worst result. Usually all processes name the same master."""
    attempts = [match for match in map(_MASTER_PATTERN.match, split_lines(text)) if match]
    decided_attempts = [attempt for attempt in attempts if attempt[3] in _REACH_WORST_FIRST]
    if not decided_attempts:
        return [Fact(CHECK, "net.master_reach", status=Status.ABSENT, line=attempts[0][0] if attempts else "no master")]
    worst = min(decided_attempts, key=lambda attempt: _REACH_WORST_FIRST.index(attempt[3]))
    return [Fact(CHECK, "net.master_reach", worst[3], line=worst[0].strip(), attrs={"master": worst[1], "port": int(worst[2])})]


def add_absent_master(facts: Sequence[Fact]) -> Sequence[Fact]:
    """Add an absent fact if no process on the node names a master."""
    if not facts or any(fact.key == "net.master_reach" or fact.status.blind for fact in facts):
        return facts
    return [*facts, Fact(CHECK, "net.master_reach", status=Status.ABSENT, line="no process here names a master")]


CHECKS = (
    Check(
        id=CHECK,
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
