"""Read `nvidia-smi nvlink -s` (state and speed of each link) and `nvlink -e` (error counters).

GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-…)
Link 0: 26.562 GB/s
Link 1: <inactive>
Link 0: Replay Errors: 0
Link 0: CRC Errors: 0
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from kb.needle_search import split_lines
from tools.checks.output_values import get_first_line
from tools.fact import Fact, Status

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
