"""`lspci -vvv` of NVIDIA functions and PCI bridges: GPUs present and answering, link width, ACS.

0000:9b:00.0 3D controller: NVIDIA Corporation GH100 [H100 SXM5 80GB] (rev a1)
        LnkCap: Port #0, Speed 32GT/s, Width x16, ASPM not supported
        LnkSta: Speed 8GT/s (downgraded), Width x8 (downgraded)
0000:97:01.0 PCI bridge: Broadcom / LSI PEX890xx PCIe Gen 5 Switch (prog-if 00 [Normal decode])
        Bus: primary=97, secondary=98, subordinate=9b, sec-latency=0
        ACSCtl: SrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from kb.needle_search import split_lines
from kb.pci_address import normalize_bdf
from tools.checks.check_types import Check, Command, Format
from tools.fact import Fact, Status, build_unobserved_fact

CHECK = "lspci"
_HEAD_PATTERN = re.compile(r"((?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) (.{1,60}?)(?: \[[0-9a-f]{4}\])?: (.{1,300})$")
_GPU_PATTERN = re.compile(r"(?:3D|VGA compatible|Display) controller")
_NVIDIA_PATTERN = re.compile(r"NVIDIA|\[10de:")
_LINK_PATTERN = re.compile(
    r"\s*(LnkCap|LnkSta):.{0,40}?Speed (\d{1,3}(?:\.\d)?)GT/s( \(downgraded\))?.{0,12}?,? ?Width x(\d{1,2})( \(downgraded\))?"
)
_BUS_PATTERN = re.compile(r"\s*Bus: primary=([0-9a-f]{2}), secondary=([0-9a-f]{2}), subordinate=([0-9a-f]{2})\b")
_ACS_PATTERN = re.compile(r"\s*ACSCtl:\s*SrcValid([+-])")


@dataclass(slots=True)
class _PciFunction:
    address: str
    kind: str
    head: str
    links: dict[str, re.Match[str]] = field(default_factory=dict)
    acs: re.Match[str] | None = None
    bus: re.Match[str] | None = None
    denied: bool = False

    @property
    def is_gpu(self) -> bool:
        return bool(_GPU_PATTERN.match(self.kind) and _NVIDIA_PATTERN.search(self.head))

    @property
    def is_nvswitch(self) -> bool:
        return self.kind == "Bridge" and bool(_NVIDIA_PATTERN.search(self.head))

    @property
    def buses(self) -> list[str]:
        """The bridge's bus and those behind it."""
        domain = self.address.split(":")[0]
        behind = range(int(self.bus[2], 16), int(self.bus[3], 16) + 1) if self.bus else ()
        return [self.address.rpartition(":")[0], *(f"{domain}:{number:02x}" for number in behind)]


def is_lspci(text: str) -> bool:
    heads = [line for line in split_lines(text[:16384]) if line.strip() and not line[0].isspace()][:5]
    return any(_HEAD_PATTERN.match(line) for line in heads)


def parse_lspci(text: str) -> Sequence[Fact]:
    """Return GPU and bridge facts. A list of bridges only does not count GPUs."""
    functions = _parse_functions(text)
    gpus = [function for function in functions if function.is_gpu]
    facts = [fact for gpu in gpus for fact in _build_gpu_facts(gpu)]
    facts += [fact for function in functions if "bridge" in function.kind.lower() for fact in _build_bridge_facts(function)]
    if any(_NVIDIA_PATTERN.search(function.head) and function.kind != "PCI bridge" for function in functions):
        switches = [function.address for function in functions if function.is_nvswitch]
        facts.append(Fact(CHECK, "pcie.gpu_count", len(gpus), line=f"{len(gpus)} NVIDIA GPUs are listed"))
        facts.append(Fact(CHECK, "pcie.nvswitches", switches, line=f"{len(switches)} NVSwitches are listed"))
    facts += _build_bus_facts([function for function in functions if function.kind == "PCI bridge"])
    denied = [function.address for function in functions if function.denied]
    if denied:
        reason = f"capabilities of {len(denied)} functions need root, first {denied[0]}"
        facts.append(build_unobserved_fact(CHECK, Status.DENIED, reason))
    return facts


NO_DEVICE = "no NVIDIA device is on the PCIe bus"  # lspci lists nothing: all GPUs left the bus, or it is no GPU node


def parse_no_device(text: str) -> Sequence[Fact]:
    return [Fact(CHECK, "pcie.gpu_count", 0, line=text)]


def _parse_functions(text: str) -> list[_PciFunction]:
    functions: list[_PciFunction] = []
    for line in split_lines(text):
        head = _HEAD_PATTERN.match(line)
        if head:
            functions.append(_PciFunction(normalize_bdf(head[1]) or head[1], head[2], line))
        elif functions and line[:1].isspace():
            _add_detail(functions[-1], line)
    return functions


def _add_detail(function: _PciFunction, line: str) -> None:
    if link := _LINK_PATTERN.match(line):
        function.links.setdefault(link[1], link)
    elif acs := _ACS_PATTERN.match(line):
        function.acs = acs
    elif bus := _BUS_PATTERN.match(line):
        function.bus = bus
    elif "access denied" in line:
        function.denied = True


def _build_gpu_facts(gpu: _PciFunction) -> list[Fact]:
    dead = bool(re.search(r"\(rev ff\)", gpu.head))
    facts = [Fact(CHECK, "pcie.rev_ff", dead, gpu.address, line=gpu.head[:200])]
    if dead:
        return facts  # the details are noise: a dead device's bus reads as all ones
    able, now = gpu.links.get("LnkCap"), gpu.links.get("LnkSta")
    for link, suffix in ((now, ""), (able, "_max")):
        if link:
            line = link[0].strip()
            facts.append(Fact(CHECK, f"pcie.speed{suffix}", float(link[2]), gpu.address, unit="GT/s", line=line))
            facts.append(Fact(CHECK, f"pcie.width{suffix}", int(link[4]), gpu.address, line=line))
    return [*facts, _build_downgraded_fact(gpu.address, able, now)] if able and now else facts


def _build_downgraded_fact(address: str, able: re.Match[str], now: re.Match[str]) -> Fact:
    """Reduced width is a fault, reduced speed may be an idle link; report both."""
    width, speed = int(now[4]) < int(able[4]), float(now[2]) < float(able[2]) or now[3] is not None
    line = f"{now[0].strip()} of {able[2]}GT/s x{able[4]}"
    return Fact(CHECK, "pcie.downgraded", width or speed, address, line=line, attrs={"width": width, "speed": speed})


def _build_bus_facts(bridges: Sequence[_PciFunction]) -> list[Fact]:
    """Nothing if a bridge does not say what is behind it."""
    if not bridges or not all(bridge.bus for bridge in bridges):
        return []
    buses = sorted({bus for bridge in bridges for bus in bridge.buses})
    return [Fact(CHECK, "pcie.buses", buses, line=f"{len(bridges)} bridges on and to {len(buses)} buses")]


def _build_bridge_facts(bridge: _PciFunction) -> list[Fact]:
    if not bridge.acs:
        return []
    return [Fact(CHECK, "pcie.acs", bridge.acs[1] == "+", bridge.address, line=bridge.acs[0].strip())]


CHECKS = (
    Check(
        id="lspci",
        asks="Is every GPU on the bus, does it answer, is its link whole, is ACS off?",
        commands=(
            Command("gpus", ("lspci", "-D", "-vvv", "-d", "10de:"), privileged=True, silence=NO_DEVICE),
            Command("bridges", ("lspci", "-D", "-vvv", "-d", "::0604"), privileged=True, optional=True),
        ),
        formats=(Format("lspci", is_lspci, parse_lspci), Format("no device", lambda text: text == NO_DEVICE, parse_no_device)),
        establishes=(
            "pcie.gpu_count",
            "pcie.absent",
            "pcie.rev_ff",
            "pcie.speed",
            "pcie.speed_max",
            "pcie.width",
            "pcie.width_max",
            "pcie.downgraded",
            "pcie.acs",
            "pcie.nvswitches",
            "pcie.buses",
        ),
        seconds=2.0,
    ),
)
