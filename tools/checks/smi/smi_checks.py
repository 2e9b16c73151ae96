"""Checks that use nvidia-smi: GPUs, topology and NVLinks."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from kb.needle_search import split_lines
from tools.checks.check_types import Check, Command, Format, Unreadable
from tools.checks.output_values import get_first_line
from tools.checks.smi import formats as smi_tabular
from tools.checks.smi import formats as smi_text
from tools.checks.smi import formats as smi_xml
from tools.checks.smi.gpu import KEYS
from tools.checks.smi.report import has_complaint, parse_complaints
from tools.fact import Fact, Status

# `nvidia-smi nvlink -s` (state and speed of each link) and `nvlink -e` (error counters).
#
# GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-…)
# Link 0: 26.562 GB/s
# Link 1: <inactive>
# Link 0: Replay Errors: 0
# Link 0: CRC Errors: 0

NVLINK_CHECK = "nvlink"
_GPU_PATTERN = re.compile(r"\s*GPU (\d{1,3}): ")
_STATE_PATTERN = re.compile(r"\s*Link (\d{1,3}): (?:(\d{1,4}(?:\.\d{1,4})?) GB/s|(<inactive>|[Ii]nactive))\s*$")
_ERRORS_PATTERN = re.compile(r"\s*Link (\d{1,3}): (Replay|Recovery|CRC(?: FLIT| DATA)?)[A-Za-z ]{0,20}?Errors?: (\d{1,15})\s*$")
_NONE_PATTERN = re.compile(
    r"does not have or support nvlink|nvlink is not supported|not support NVLink|Nvlink queries are not supported", re.IGNORECASE
)
_ALL_DOWN_PATTERN = re.compile(r"all links are in-?active", re.IGNORECASE)
_ERROR_KEYS = {"Replay": "nvlink.replay_errors", "Recovery": "nvlink.recovery_errors", "CRC": "nvlink.crc_errors"}
# meaning of empty output after success, as for GPUs without NVLink
NO_LINKS_TEXT = "nvidia-smi lists no NVLink of any GPU"


def parse_no_links(text: str) -> Sequence[Fact]:
    return [Fact(NVLINK_CHECK, "nvlink.active", status=Status.ABSENT, line=text)]


@dataclass(slots=True)
class _GpuLinks:
    speeds: list[float] = field(default_factory=list)
    down: list[int] = field(default_factory=list)
    errors: dict[str, dict[int, int]] = field(default_factory=dict)
    none: str = ""
    all_down: str = ""


def is_nvlink(text: str) -> bool:
    is_gpu_list = _GPU_PATTERN.match(get_first_line(text) or "") is not None
    return is_gpu_list and bool(re.search(r"(?m)^\s*Link \d{1,3}: ", text) or _NONE_PATTERN.search(text) or _ALL_DOWN_PATTERN.search(text))


def parse_nvlink(text: str) -> Sequence[Fact]:
    gpus: dict[int, _GpuLinks] = {}
    links = _GpuLinks()
    for line in split_lines(text):
        if head := _GPU_PATTERN.match(line):
            links = gpus.setdefault(int(head[1]), _GpuLinks())
        else:
            _add_line(links, line)
    return [fact for number, gpu in gpus.items() for fact in _build_nvlink_facts(f"gpu{number}", gpu)]


def _add_line(gpu: _GpuLinks, line: str) -> None:
    if state := _STATE_PATTERN.match(line):
        if state[2]:
            gpu.speeds.append(float(state[2]))
        else:
            gpu.down.append(int(state[1]))
    elif errors := _ERRORS_PATTERN.match(line):
        links = gpu.errors.setdefault(_ERROR_KEYS[errors[2].split()[0]], {})
        links[int(errors[1])] = links.get(int(errors[1]), 0) + int(errors[3])
    elif _NONE_PATTERN.search(line):
        gpu.none = line.strip()
    elif _ALL_DOWN_PATTERN.search(line):
        gpu.all_down = line.strip()


def _build_nvlink_facts(device: str, gpu: _GpuLinks) -> list[Fact]:
    facts: list[Fact] = []
    if gpu.none:
        facts.append(Fact(NVLINK_CHECK, "nvlink.active", None, device, Status.ABSENT, line=gpu.none))
    elif gpu.all_down and not gpu.speeds:
        facts.append(Fact(NVLINK_CHECK, "nvlink.active", 0, device, line=gpu.all_down))
    elif gpu.speeds or gpu.down:
        line = f"{len(gpu.speeds)} links up, {len(gpu.down)} inactive"
        attrs = {"links": gpu.down} if gpu.down else {}
        facts.append(Fact(NVLINK_CHECK, "nvlink.active", len(gpu.speeds), device, line=line))
        facts.append(Fact(NVLINK_CHECK, "nvlink.inactive", len(gpu.down), device, line=line, attrs=attrs))
    if gpu.speeds:
        facts.append(Fact(NVLINK_CHECK, "nvlink.speed", min(gpu.speeds), device, unit="GB/s", line=f"slowest link: {min(gpu.speeds)} GB/s"))
    return facts + _build_error_facts(device, gpu.errors)


def _build_error_facts(device: str, errors: dict[str, dict[int, int]]) -> list[Fact]:
    facts, all_errors = [], dict[int, int]()
    for key, links in errors.items():
        facts.append(
            Fact(
                NVLINK_CHECK, key, sum(links.values()), device, line=f"{key.partition('.')[2]}: {sum(links.values())} on {len(links)} links"
            )
        )
        for link, count in links.items():
            all_errors[link] = all_errors.get(link, 0) + count
    worst = max(all_errors, key=lambda link: all_errors[link], default=None)
    if worst is not None and all_errors[worst]:
        line = f"link {worst}: {all_errors[worst]} errors"
        facts.append(Fact(NVLINK_CHECK, "nvlink.worst_link", worst, device, line=line, attrs={"errors": all_errors[worst]}))
    return facts


# `nvidia-smi topo -m`: the path between each pair of devices.
#
# GPU0 GPU1 NIC0 CPU Affinity NUMA Affinity
# GPU0 X NV18 PIX 0-55 0
# GPU1 NV18 X SYS 0-55 0

TOPO_CHECK = "topo"
_ANSI_PATTERN = re.compile(r"\x1b\[[0-9;]*m|\[[04]m")
_NAME_PATTERN = re.compile(r"(?:GPU|NIC)\d{1,3}|(?:mlx5|mlx4|bnxt_re|efa|irdma)_\w{1,20}")
_CELL_PATTERN = re.compile(r"X|SYS|NODE|PHB|PXB|PIX|PSB|SOC|NV(\d{1,2})|N/A")


def is_matrix(text: str) -> bool:
    return len(_find_header_lines(_ANSI_PATTERN.sub("", text))) == 1


def _find_header_lines(text: str) -> list[list[str]]:
    return [line.split() for line in split_lines(text) if re.match(r"\s*GPU\d{1,3}\s(?:.*\s)?CPU Affinity", line)]


def parse_matrix(text: str) -> Sequence[Fact]:
    """Raise Unreadable if a GPU has no complete row."""
    clean = _ANSI_PATTERN.sub("", text)
    head = _find_header_lines(clean)[0]
    columns = [word for word in head[: head.index("CPU")] if _NAME_PATTERN.fullmatch(word)]
    gpus = [name for name in columns if name.startswith("GPU")]
    rows = {row[0]: row for row in (line.split() for line in split_lines(clean)) if row and row[0] in gpus and len(row) > len(columns)}
    complete_rows = {name: row for name, row in rows.items() if all(_CELL_PATTERN.fullmatch(cell) for cell in row[1 : len(columns) + 1])}
    missing = [name for name in gpus if name not in complete_rows]
    if missing:
        raise Unreadable(f"the matrix names {len(gpus)} GPUs, no whole row for {', '.join(missing[:4])}")
    links = {name: _parse_links(dict(zip(columns, row[1:], strict=False)), gpus, name) for name, row in complete_rows.items()}
    some = any(widths for widths, _ in links.values())
    facts = [fact for name, (widths, lines) in links.items() for fact in _build_topo_facts(name, widths, lines, len(gpus) - 1, some)]
    return [*facts, Fact(TOPO_CHECK, "topo.nics", len(columns) - len(gpus))]


def _parse_links(cells: dict[str, str], gpus: Sequence[str], name: str) -> tuple[list[int], str]:
    """Return each NVLink bond's width, and the row as text."""
    matches = [_CELL_PATTERN.fullmatch(cells[peer]) for peer in gpus if peer != name]
    widths = [int(match[1]) for match in matches if match and match[1]]
    return widths, f"{name}: " + " ".join(cells[peer] for peer in gpus)


def _build_topo_facts(name: str, widths: Sequence[int], line: str, peers: int, some: bool) -> list[Fact]:
    device = name.lower()
    facts = [
        Fact(TOPO_CHECK, "topo.peers", peers, device, line=line),
        Fact(TOPO_CHECK, "topo.nvlinked", len(widths), device, line=line),
        Fact(TOPO_CHECK, "topo.missing", some and not widths, device, line=line),
    ]
    return [*facts, Fact(TOPO_CHECK, "topo.nvlink_width", min(widths), device, line=line)] if widths else facts


def _build_complaint_format(check: str) -> Format:
    """An error message instead of an answer is a finding of the check."""

    def parse(text: str) -> list[Fact]:
        return [replace(fact, check=check) for fact in parse_complaints(text)]

    return Format("nvidia-smi complaint", has_complaint, parse)


_COMPLAINT_KEYS = ("smi.error", "driver.mismatch", "driver.library_version", "gpu.lost", "gpu.count", "gpu.inforom_corrupt")
CHECKS = (
    Check(
        id="smi",
        asks="What does the driver say of every GPU: memory errors, clocks, power, temperature, PCIe, modes?",
        commands=(Command("query", ("nvidia-smi", "-q", "-x")),),
        formats=(
            Format("nvidia-smi -q -x", smi_xml.is_xml, smi_xml.parse_xml),
            Format("nvidia-smi -q", smi_text.is_query, smi_text.parse_query),
            Format("nvidia-smi table", smi_tabular.is_table, smi_tabular.parse_table),
            Format("nvidia-smi --query-gpu", smi_text.is_csv, smi_text.parse_csv),
            Format("nvidia-smi -L", smi_text.is_list, smi_text.parse_list),
            _build_complaint_format("smi"),
        ),
        establishes=tuple(
            dict.fromkeys((*KEYS, *_COMPLAINT_KEYS, "gpu.missing", "driver.version", "driver.cuda_version", "check.not_understood"))
        ),
        seconds=3.0,
        partial=True,
        timeout=30.0,
    ),
    Check(
        id="topo",
        asks="Does every GPU reach every other over NVLink?",
        commands=(Command("matrix", ("nvidia-smi", "topo", "-m")),),
        formats=(Format("nvidia-smi topo -m", is_matrix, parse_matrix), _build_complaint_format("topo")),
        establishes=("topo.peers", "topo.nvlinked", "topo.missing", "topo.nvlink_width", "topo.nics", *_COMPLAINT_KEYS),
        seconds=2.0,
    ),
    Check(
        id="nvlink",
        asks="Are all NVLinks up, and do they count errors?",
        commands=(
            Command("status", ("nvidia-smi", "nvlink", "-s"), optional=True, silence=NO_LINKS_TEXT),
            Command("errors", ("nvidia-smi", "nvlink", "-e"), optional=True),
        ),
        formats=(
            Format("nvidia-smi nvlink", is_nvlink, parse_nvlink),
            Format("no links", lambda text: text == NO_LINKS_TEXT, parse_no_links),
            _build_complaint_format("nvlink"),
        ),
        establishes=(
            "nvlink.active",
            "nvlink.inactive",
            "nvlink.speed",
            "nvlink.crc_errors",
            "nvlink.replay_errors",
            "nvlink.recovery_errors",
            "nvlink.worst_link",
            *_COMPLAINT_KEYS,
        ),
        seconds=2.0,
    ),
)
