"""InfiniBand and RoCE ports of a host: `ibstat` or `ibstatus`, and the counters and partition keys of sysfs.

CA 'mlx5_3'
        Number of ports: 1
        Port 1:
                State: Down
                Physical state: Polling
                Rate: 400
                SM lid: 0
                Link layer: InfiniBand
/sys/class/infiniband/mlx5_3/ports/1/counters/link_downed:37
/sys/class/infiniband/mlx5_3/ports/1/pkeys/0:0xffff
lrwxrwxrwx 1 root root 0 May 20 02:11 mlx5_3 -> ../../devices/pci0000:58/0000:58:01.0/0000:5c:00.0/infiniband/mlx5_3
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from kb.needle_search import split_lines
from kb.pci_address import normalize_bdf
from tools.checks.check_types import Check, Command, Format, Unreadable
from tools.checks.not_understood import build_not_understood_facts
from tools.fact import Fact, Status, Value

CHECK = "ibstat"
_CA_PATTERN = re.compile(r"CA '([A-Za-z0-9_.-]{1,40})'\s*$")
_STATUS_PATTERN = re.compile(r"Infiniband device '([A-Za-z0-9_.-]{1,40})' port (\d{1,3}) status:\s*$", re.IGNORECASE)
_PORT_PATTERN = re.compile(r"\s*Port (\d{1,3}):\s*$")
_FIELD_PATTERN = re.compile(r"\s*([A-Za-z_][A-Za-z_ ]{1,30}?):\s*(.{0,120}?)\s*$")
_PANIC_PATTERN = re.compile(r"ibpanic: .{0,300}")
_NO_CARD_PATTERN = re.compile(
    r"(?i)no (?:ib|infiniband|rdma) (?:devices|HCAs?)|Can't list local|failed to get.{0,40}ca name|cannot open.{0,40}/sys/class/infiniband"
)
_COUNTER_PATTERN = re.compile(
    r"\S{0,200}?/infiniband/([A-Za-z0-9_.-]{1,40})/ports/(\d{1,3})/(counters|hw_counters|pkeys)/(\w{1,40}):\s*(\S{1,40})\s*$"
)
_COUNTER_KEYS = {
    "link_downed": "ib.link_downed",
    "symbol_error": "ib.symbol_error",
    "port_rcv_errors": "ib.port_rcv_errors",
    "port_xmit_wait": "ib.port_xmit_wait",
    "out_of_sequence": "ib.out_of_sequence",
    "roce_adp_retrans": "ib.roce_adp_retrans",
    "link_error_recovery": "ib.link_error_recovery",
    "local_link_integrity_errors": "ib.link_integrity_errors",
    "local_ack_timeout_err": "ib.ack_timeouts",
    "packet_seq_err": "ib.sequence_errors",
}
_TROUBLE_PATTERN = re.compile(r"\w*(?:err|discard|drop|timeout|fail|overrun|violation|exceeded)\w*", re.IGNORECASE)
# Counters that rise on healthy ports too: closed connections, congestion control.
_ORDINARY_PATTERN = re.compile(
    r"\w*flush_error|rx_icrc\w*|duplicate_request|port_xmit_wait|\w*_ecn_\w*|\w*cnp\w*|max_\w*|lifespan|resp_local_length_error"
)
_LINK_PATTERN = re.compile(
    r"l\S{9,11} .{0,120} ([A-Za-z0-9_.-]{1,40}) -> \S{0,300}/([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])/infiniband/\1\s*$"
)
_LISTING_PATTERN = re.compile(r"total \d{1,6}\s*$|ls: .{0,60}/sys/class/infiniband.{0,60}No such file")
PortFields = dict[str, tuple[str, str]]  # lower-case field name → value and line


def is_ibstat(text: str) -> bool:
    return bool(
        re.search(r"(?m)^CA '|^Infiniband device '", text) or _PANIC_PATTERN.search(text[:2000]) or _NO_CARD_PATTERN.search(text[:2000])
    )


def parse_ibstat(text: str) -> Sequence[Fact]:
    """Return each port's facts. A port cut off before its link layer is reported as unreadable."""
    cards, ports = _parse_ports(text)
    several = Counter(card for (card, _), _ in ports)
    facts = [fact for port, fields in ports for fact in _build_port_facts(port, fields, _format_port_name(port, several[port[0]]))]
    panic = _PANIC_PATTERN.search(text)
    if panic or (not cards and _NO_CARD_PATTERN.search(text)):
        line = panic[0] if panic else next(line.strip() for line in split_lines(text) if _NO_CARD_PATTERN.search(line))
        facts.append(Fact(CHECK, "ib.error", "ibpanic" if panic else "no_devices", line=line))
    elif not cards:
        raise Unreadable("no whole HCA is listed")
    attrs = {"partial": True} if panic else {}
    facts.append(Fact(CHECK, "ib.count", len(cards), line=", ".join(cards)[:300], attrs=attrs))
    broken = [device for device, fields in ports if "link layer" not in fields]
    if broken:
        facts.append(Fact(CHECK, "", status=Status.UNREADABLE, line=f"the output breaks off in {broken[0][0]}"))
    return facts


def _parse_ports(text: str) -> tuple[list[str], list[tuple[tuple[str, str], PortFields]]]:
    cards: list[str] = []
    ports: list[tuple[tuple[str, str], PortFields]] = []
    card: PortFields = {}
    for line in split_lines(text):
        if head := _CA_PATTERN.match(line):
            cards.append(head[1])
            card = {}
        elif status := _STATUS_PATTERN.match(line):
            cards += [status[1]] if status[1] not in cards else []
            ports.append(((status[1], status[2]), {}))
        elif cards and (port := _PORT_PATTERN.match(line)):
            ports.append(((cards[-1], port[1]), dict(card)))
        elif cards and (match := _FIELD_PATTERN.match(line)):
            fields = ports[-1][1] if ports and ports[-1][0][0] == cards[-1] else card
            fields[match[1].lower().replace("_", " ")] = (match[2], line.strip())
    return list(dict.fromkeys(cards)), ports


def _format_port_name(port: tuple[str, str], ports: int) -> str:
    """`mlx5_3`, or `mlx5_3/2` for the second port of a card with several."""
    return f"{port[0]}/{port[1]}" if ports > 1 and port[1] != "1" else port[0]


def _parse_state(text: str) -> Value:
    """`Active`, or ibstatus's `4: ACTIVE`."""
    word = re.sub(r"^\d+: *", "", text)
    state_names = {name.lower(): name for name in ("Active", "Down", "Initializing", "Armed", "LinkUp", "Disabled", "Polling", "Sleep")}
    return "Initializing" if word.lower() in ("init", "initialize") else state_names.get(word.lower(), word[:40]) or None


def _parse_integer(text: str) -> Value:
    match = re.match(r"0x[0-9a-f]{1,8}|\d{1,9}", text.lower())
    return int(match[0], 0 if match[0].startswith("0x") else 10) if match else None


def _parse_text(text: str) -> Value:
    return text[:60] or None


_PORT_FIELDS: tuple[tuple[str, tuple[str, ...], Callable[[str], Value], str], ...] = (
    ("ib.state", ("state",), _parse_state, ""),
    ("ib.phys_state", ("physical state", "phys state"), _parse_state, ""),
    ("ib.rate", ("rate",), _parse_integer, "Gb/s"),
    ("ib.link_layer", ("link layer",), _parse_text, ""),
    ("ib.lid", ("base lid",), _parse_integer, ""),
    ("ib.sm_lid", ("sm lid",), _parse_integer, ""),
    ("ib.firmware", ("firmware version",), _parse_text, ""),
    ("ib.guid", ("port guid",), _parse_text, ""),
)


def _build_port_facts(port: tuple[str, str], fields: Mapping[str, tuple[str, str]], device: str) -> list[Fact]:
    """Nothing for a truncated port. Facts carry the link layer: an Ethernet port may be Down on purpose."""
    if "link layer" not in fields:
        return []
    layer = fields["link layer"][0]
    facts = []
    for key, names, read, unit in _PORT_FIELDS:
        cell = next((fields[name] for name in names if name in fields), None)
        if cell is not None:
            value = read(cell[0])
            status = Status.OK if value is not None else Status.UNREADABLE
            facts.append(Fact(CHECK, key, value, device, status, unit, cell[1], {"link_layer": layer, "port": int(port[1])}))
    return facts


def is_counters(text: str) -> bool:
    return any(_COUNTER_PATTERN.match(line) for line in split_lines(text[:8192])[:20])


def parse_counters(text: str) -> Sequence[Fact]:
    """Return known counters and partition keys in use (zero is an empty slot); name other non-zero error counters."""
    facts: list[Fact] = []
    unknown: list[str] = []
    pkeys: dict[str, list[str]] = {}
    for line in split_lines(text):
        match = _COUNTER_PATTERN.match(line)
        if not match:
            continue
        device = match[1] if match[2] == "1" else f"{match[1]}/{match[2]}"
        if match[3] == "pkeys":
            keys = pkeys.setdefault(device, [])
            if re.fullmatch(r"0x[0-9a-fA-F]{1,4}", match[5]) and int(match[5], 16):
                keys.append(f"0x{int(match[5], 16):04x}")
        elif match[4] in _COUNTER_KEYS and re.fullmatch(r"[0-9]{1,19}", match[5]):
            facts.append(Fact(CHECK, _COUNTER_KEYS[match[4]], int(match[5]), device, line=line.strip()[:200]))
        elif _TROUBLE_PATTERN.fullmatch(match[4]) and not _ORDINARY_PATTERN.fullmatch(match[4]) and match[5].strip("0"):
            unknown.append(f"{device} {match[4]}: {match[5]}")
    lists = [
        Fact(CHECK, "ib.pkeys", sorted(set(keys)), device, line=f"{device}: {' '.join(sorted(set(keys)))}")
        for device, keys in pkeys.items()
    ]
    return [*facts, *lists, *build_not_understood_facts(CHECK, unknown)]


def is_addresses(text: str) -> bool:
    head = split_lines(text.lstrip("\n")[:8192])[:3]
    return bool(head) and (bool(_LISTING_PATTERN.match(head[0])) or any(_LINK_PATTERN.match(line) for line in head))


def parse_addresses(text: str) -> Sequence[Fact]:
    """Return adapters' PCI addresses, which kernel messages use."""
    rows = [row for row in map(_LINK_PATTERN.match, split_lines(text)) if row]
    facts = [
        Fact(CHECK, "ib.bdf", str(normalize_bdf(row[2])), row[1], line=f"{row[1]} is {row[2]}") for row in rows if normalize_bdf(row[2])
    ]
    if facts:
        return facts
    problem = "no adapter below /sys/class/infiniband"
    return [Fact(CHECK, "ib.bdf", status=Status.ABSENT, line=problem), Fact(CHECK, "ib.none", True, line=problem)]


_FIND_COUNTERS_COMMAND = r"find -L /sys/class/infiniband -maxdepth 5 -type f ( -path */counters/* -o -path */hw_counters/* -o -path */pkeys/* ) -exec grep -H . {} +"

CHECKS = (
    Check(
        id="ibstat",
        asks="Are all InfiniBand ports there, up, at full rate, and do they count errors?",
        commands=(
            Command("ports", ("ibstat",)),
            Command(
                "counters",
                tuple(_FIND_COUNTERS_COMMAND.split()),
                optional=True,
            ),
            Command("addresses", ("ls", "-l", "/sys/class/infiniband"), optional=True),
        ),
        formats=(
            Format("ibstat", is_ibstat, parse_ibstat),
            Format("infiniband counters", is_counters, parse_counters),
            Format("adapters' addresses", is_addresses, parse_addresses),
        ),
        establishes=(
            "check.not_understood",
            "ib.count",
            "ib.bdf",
            "ib.none",
            "ib.error",
            "ib.pkeys",
            *(key for key, *_ in _PORT_FIELDS),
            *_COUNTER_KEYS.values(),
        ),
        seconds=2.0,
    ),
)
