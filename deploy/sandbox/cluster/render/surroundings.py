"""CPUs, clock, interfaces, leaf switch, shared mounts and BMC."""

import json
from datetime import UTC
from typing import Any

from deploy.sandbox.cluster.answer import ShellAnswer, text_answer
from deploy.sandbox.cluster.machines.environment import Interface
from deploy.sandbox.cluster.machines.state import HcaState
from deploy.sandbox.cluster.render.query import Query
from deploy.sandbox.cluster.seeded_random import make_random

SHARED_FILE_SYSTEMS = ("nfs", "nfs4", "lustre")
MASTER_PORT = 29500
_NO_DEVICE = text_answer("", 1, "Could not open device at /dev/ipmi0 or /dev/ipmi/0 or /dev/ipmidev/0: Permission denied\n")


def render_lscpu(query: Query) -> ShellAnswer:
    """`lscpu -J`."""
    cpus = query.node.profile.cpus * 2
    fields = [("Architecture:", "x86_64"), ("CPU(s):", str(cpus)), ("Model name:", "Intel(R) Xeon(R) Platinum 8480C"), ("Thread(s) per core:", "2"),
            ("Socket(s):", "2"), ("CPU max MHz:", "3800.0000"), ("NUMA node(s):", "2"), ("NUMA node0 CPU(s):", f"0-{cpus // 2 - 1}")]  # fmt: skip
    return text_answer(json.dumps({"lscpu": [{"field": name, "data": value} for name, value in fields]}, indent=3) + "\n")


def render_frequencies(query: Query) -> ShellAnswer:
    """`grep -rsH … /sys/devices/system/cpu/cpufreq`: governor, driver and frequency of every CPU."""
    environment = query.node.environment
    random = make_random(query.seed, query.node.name, "cpu")
    lines = []
    for cpu in range(query.node.profile.cpus * 2):
        policy = f"/sys/devices/system/cpu/cpufreq/policy{cpu}/scaling"
        khz = (environment.mhz + random.randrange(-40, 40)) * 1000
        lines.append(f"{policy}_cur_freq:{khz}\n{policy}_driver:acpi-cpufreq\n{policy}_governor:{environment.governor}\n")
    return text_answer("".join(lines))


def render_tracking(query: Query) -> ShellAnswer:
    """`chronyc -c -n tracking`."""
    if query.node.services["chronyd"].active != "active":
        return text_answer("506 Cannot talk to daemon\n", 1)
    if not query.node.environment.synchronised:  # as chrony 4.3 (Debian 12) without any source
        nothing = ",".join(["0.000000000"] * 4)
        return text_answer(f"00000000,,0,{nothing},-11.204,0.000,0.000,1.000000000,1.000000000,0.0,Not synchronised\n")
    last = query.t0.timestamp() + query.at - 31
    columns = ["0A140902", "10.20.9.2", "3", f"{last:.9f}", "0.000012411", "-0.000003271", "0.000021914", "-11.204", "0.001", "0.021",
           "0.000412003", "0.000380112", "64.4", "Normal"]  # fmt: skip
    return text_answer(",".join(columns) + "\n")


def render_timedatectl(query: Query) -> ShellAnswer:
    """`timedatectl show -p NTP -p NTPSynchronized`."""
    return text_answer(f"NTP=yes\nNTPSynchronized={'yes' if query.node.environment.synchronised else 'no'}\n")


def render_date(query: Query) -> ShellAnswer:
    """`date -u +%s.%N`."""
    return text_answer(f"{query.now.timestamp():.9f}\n")


def render_links(query: Query) -> ShellAnswer:
    """`ip -j -s -d link show`."""
    links = [_build_link(1, Interface("lo", 65536, "loopback", adapter=False))]
    links += [_build_link(i, interface) for i, interface in enumerate(list_interfaces(query), 2)]
    return text_answer(json.dumps(links) + "\n")


def list_interfaces(query: Query) -> list[Interface]:
    """Return the node's own interfaces and one per Ethernet adapter."""
    roce = [
        _build_roce_interface(i, hca)
        for i, hca in enumerate(query.node.hcas)
        if hca.present and hca.link_layer == "Ethernet" and hca.state == "Active"
    ]
    return [*query.node.environment.interfaces, *roce]


def _build_roce_interface(i: int, hca: HcaState) -> Interface:
    pauses = 0 if hca.discards else 48_211
    return Interface(f"eth{i + 1}", 9000, discards=hca.discards, pauses=pauses, rising=hca.rising.get("discards", 0.0))


def _build_link(number: int, interface: Interface) -> dict[str, Any]:
    counts = {"bytes": 0, "packets": 0, "errors": 0, "dropped": 0}
    link_info = {} if interface.adapter or interface.kind == "loopback" else {"linkinfo": {"info_kind": "bridge"}}
    state = "UNKNOWN" if interface.kind == "loopback" else "UP"
    return {"ifindex": number, "ifname": interface.name, "flags": ["UP", "LOWER_UP"], "mtu": interface.mtu, "qdisc": "mq", "operstate": state,
            "link_type": interface.kind, **link_info, "stats64": {"rx": {**counts, "over_errors": 0, "multicast": 0}, "tx": counts}}  # fmt: skip


def render_adapters(query: Query) -> ShellAnswer:
    """`rackmedic-look adapters`: discards and pause frames."""
    lines = []
    for interface in list_interfaces(query):
        if not interface.adapter:
            continue
        discards = interface.discards + int(interface.rising * (query.at + query.age))
        lines.append(
            f"== {interface.name}\n     rx_discards_phy: {discards}\n     rx_prio3_pause: {interface.pauses}\n     tx_prio3_pause: {interface.pauses}\n"
        )
    return text_answer("".join(lines))


def render_masters(query: Query) -> ShellAnswer:
    """`rackmedic-look masters`: whether the job's master resolves and accepts connections."""
    address = query.node.env.get("MASTER_ADDR", "")
    return text_answer(
        f"master {address} {query.node.env.get('MASTER_PORT', MASTER_PORT)} {query.node.environment.master}\n" if address else ""
    )


def render_tracker(query: Query) -> ShellAnswer:
    """`curl -I` of the experiment tracker."""
    return _render_headers(
        query, query.node.environment.tracker, "tracker.svc.cluster", "HTTP/2 200 \r\nserver: uvicorn\r\ncontent-length: 18211\r\n\r\n"
    )


def render_object_store(query: Query) -> ShellAnswer:
    """`curl -I` of the object store; 403 because RackMedic has no credentials."""
    healthy_answer = "HTTP/1.1 403 Forbidden\r\nx-amz-request-id: 16F2A3B9\r\nServer: objects\r\n\r\n"
    return _render_headers(query, query.node.environment.store, "objects.svc.cluster", healthy_answer)


def _render_headers(query: Query, state: str, host: str, healthy_answer: str) -> ShellAnswer:
    if query.node.environment.master == "no_name":
        return text_answer("", 6, f"curl: (6) Could not resolve host: {host}\n")
    if state == "refused":
        return text_answer("", 7, f"curl: (7) Failed to connect to {host} port 443 after 1 ms: Connection refused\n")
    return text_answer(
        "HTTP/1.1 503 Slow Down\r\nx-amz-request-id: 16F2A3C4\r\nRetry-After: 1\r\n\r\n" if state == "throttled" else healthy_answer
    )


def render_subnet_manager(query: Query) -> ShellAnswer:
    """`sminfo` through the first usable port."""
    port = _find_usable_port(query)
    if port is None or not query.as_root:
        return text_answer("", 1, "sminfo: iberror: failed: Failed to open '(null)' port '0'\n")
    if not query.node.environment.manager:
        return text_answer("", 1, "ibwarn: [48211] mad_rpc: _do_madrpc failed; dport (Lid 0)\nsminfo: iberror: failed: query\n")
    return text_answer("sminfo: sm lid 1 sm guid 0xb8cef60300a1b2c4, activity count 1942130 priority 15 state 3 SMINFO_MASTER\n")


LEAF_GUID, FIRST_UPLINK = "0xb8cef60300f0a111", 33


def render_leaf_switch(query: Query) -> ShellAnswer:
    """`iblinkinfo -l -n 2`: first adapter, its leaf switch and the spines; nothing beyond them."""
    port, environment = _find_usable_port(query), query.node.environment
    if port is None or not query.as_root:
        return text_answer("", 1, "iblinkinfo: iberror: failed: Failed to open '(null)' port '0'\n")
    adapter_name = f"{query.node.name} {port.name}"
    leaf_port = query.node.index + 1
    lines = []
    for i, width in enumerate(environment.uplinks):
        spine = (f"0xb8cef60300f0b22{i}", f"spine-{i + 1}", 9 + i)
        lines += [
            _format_link(*spine, 4, width, LEAF_GUID, 4, FIRST_UPLINK + i, environment.leaf),
            _format_unreached_link(*spine, 5),
            _format_down_link(*spine, 6),
        ]
    lines.append(_format_link(f"0x{port.guid:016x}", adapter_name, port.lid, 1, 4, LEAF_GUID, 4, leaf_port, environment.leaf))
    lines.append(_format_link(LEAF_GUID, environment.leaf, 4, leaf_port, 4, f"0x{port.guid:016x}", port.lid, 1, adapter_name))
    lines.append(_format_down_link(LEAF_GUID, environment.leaf, 4, leaf_port + 1))
    lines += [
        _format_link(LEAF_GUID, environment.leaf, 4, FIRST_UPLINK + i, width, f"0xb8cef60300f0b22{i}", 9 + i, 4, f"spine-{i + 1}")
        for i, width in enumerate(environment.uplinks)
    ]
    return text_answer("\n".join(lines) + "\n")


def _format_link(guid: str, name: str, lid: int, port: int, width: int, peer_guid: str, peer_lid: int, peer_port: int, peer: str) -> str:
    remark = "Could be 4X " if width < 4 else " "
    return (
        f'{guid} "{name:>30}" {lid:>6} {port:>4}[  ] ==( {width}X        106.25 Gbps Active/  LinkUp)==>  '
        f'{peer_guid} {peer_lid:>6} {peer_port:>4}[  ] "{peer}" ({remark})'
    )


def _format_unreached_link(guid: str, name: str, lid: int, port: int) -> str:
    return f'{guid} "{name:>30}" {lid:>6} {port:>4}[  ] ==( 4X        106.25 Gbps Active/  LinkUp)==>      "Port not available"'


def _format_down_link(guid: str, name: str, lid: int, port: int) -> str:
    return f'{guid} "{name:>30}" {lid:>6} {port:>4}[  ] ==(                Down/ Polling)==>             [  ] "" ( )'


def _find_usable_port(query: Query) -> HcaState | None:
    """Return the first adapter with a usable InfiniBand port."""
    usable = (hca for hca in query.node.hcas if hca.present and hca.link_layer == "InfiniBand" and hca.phys == "LinkUp")
    return next(usable, None)


def render_mounts(query: Query) -> ShellAnswer:
    """`rackmedic-look mounts`: each shared file system is given three seconds."""
    lines = []
    for mount in query.node.mounts:
        if mount.fstype not in SHARED_FILE_SYSTEMS:
            continue
        word = "timeout" if mount.target in query.node.environment.stuck else "ok"
        lines.append(f"mount {mount.target} {mount.fstype}\nanswer {mount.target} {word} \n")
    return text_answer("".join(lines))


def render_bmc_events(query: Query) -> ShellAnswer:
    """`ipmitool sel elist last 200`."""
    if not query.as_root:
        return _NO_DEVICE
    events = [(query.node.booted - 40, "System Event", "Timestamp Clock Sync | Asserted")]
    events += [(event.t, event.sensor, f"{event.text} | Asserted") for event in query.node.environment.bmc if event.t <= query.at]
    lines = []
    for i, (t, sensor, text) in enumerate(events, 1):
        moment = query.clock(t).astimezone(UTC)
        lines.append(f"{i:>4x} | {moment:%m/%d/%Y} | {moment:%H:%M:%S} | {sensor} | {text}\n")
    return text_answer("".join(lines))


def render_temperatures(query: Query) -> ShellAnswer:
    """`ipmitool sdr type Temperature`."""
    if not query.as_root:
        return _NO_DEVICE
    inlet = query.node.environment.inlet
    sensors = [("Inlet Temp", "05h", "nc" if inlet >= 40 else "ok", "7.1", f"{inlet} degrees C"), ("Exhaust Temp", "01h", "ok", "7.1", f"{inlet + 14} degrees C"),
            ("CPU1 Temp", "0Eh", "ok", "3.1", "58 degrees C"), ("CPU2 Temp", "0Fh", "ok", "3.2", "57 degrees C")]  # fmt: skip
    return text_answer(
        "".join(f"{name:<16} | {number} | {state:<3} | {entity:>4} | {value}\n" for name, number, state, entity, value in sensors)
    )


def render_fans(query: Query) -> ShellAnswer:
    """`ipmitool sdr type Fan`."""
    if not query.as_root:
        return _NO_DEVICE
    return text_answer("".join(f"{f'Fan{i}':<16} | {48 + i:02X}h | ok  | 30.{i} | {9120 + 60 * i} RPM\n" for i in range(1, 7)))


def render_power_status(query: Query) -> ShellAnswer:
    """`ipmitool chassis power status`."""
    return text_answer("Chassis Power is on\n")


def render_power_supplies(query: Query) -> ShellAnswer:
    """`ipmitool sdr type "Power Supply"`."""
    if not query.as_root:
        return _NO_DEVICE
    lines = []
    for i in range(1, 7):
        failed = query.node.environment.psu_lost and i == 2
        words = "Presence detected, Failure detected" if failed else "Presence detected"
        lines.append(f"{f'PSU{i} Status':<16} | {96 + i:02X}h | {'cr' if failed else 'ok':<3} | 10.{i} | {words}\n")
    return text_answer("".join(lines))
