"""Read the table of `nvidia-smi` without arguments: two or three lines per GPU, cells between bars.

| 0 NVIDIA H100 80GB HBM3 On | 00000000:19:00.0 Off | 0 |
| N/A 27C P0 72W / 700W | 1MiB / 81559MiB | 0% Default |
| | | Disabled |
"""

import re
from collections.abc import Iterator, Sequence

from kb.needle_search import split_lines
from tools.checks.check_types import Unreadable
from tools.checks.smi.gpu import Cell, GpuFields
from tools.checks.smi.report import ReportedGpu, build_host_facts, build_report_facts
from tools.fact import Fact

_HEAD_PATTERN = re.compile(r"NVIDIA-SMI (\S+) +(?:Driver|KMD) Version: *(\S+) +CUDA (?:UMD )?Version: *(\S+)")
_FIRST_PATTERN = re.compile(
    r"\| +(\d+) +(.{1,60}?) +(On|Off|N/A|WDDM|TCC|MCDM) *\| +([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d) +(?:On|Off|N/A) *\| +(\S.{0,30}?) *\|"
)
_SECOND_PATTERN = re.compile(
    r"\| *\S+ +(\d+C|N/A|ERR!) +\S+ +(\S+) */ *(\S+) *\| +(\d+MiB|N/A|\S+) */ *(\d+MiB|N/A|\S+) *\| +(\d+%|N/A|ERR!) +(\S.{0,20}?) *\|"
)
_THIRD_PATTERN = re.compile(r"\| +\| +\| +(Enabled\*?|Disabled\*?|N/A) *\|")
_COMPUTE_MODES = {"E. Process": "Exclusive_Process", "E. Thread": "Exclusive_Thread", "Prohibited": "Prohibited", "Default": "Default"}


def is_table(text: str) -> bool:
    return len(_HEAD_PATTERN.findall(text[:20000])) == 1 and text.count("NVIDIA-SMI ") == 1


def parse_table(text: str) -> Sequence[Fact]:
    """Parse the table. Its ECC column sums DRAM and SRAM; a count above zero is reported as DRAM's."""
    head = _HEAD_PATTERN.search(text)
    gpus = list(_iter_gpus(split_lines(text)))
    if not gpus or head is None:
        raise Unreadable("a table head without a row of a GPU")
    versions = {"driver_version": head[2], "cuda_version": head[3].rstrip("|")}
    other_lines = "\n".join(line for line in split_lines(text) if not line.startswith(("|", "+")))
    cut = "" if "+--" in text[text.rfind(gpus[-1].address or "") :] else "the table breaks off"
    return build_report_facts(build_host_facts(versions), gpus, "", other_lines, cut)


def _iter_gpus(lines: Sequence[str]) -> Iterator[ReportedGpu]:
    for at, line in enumerate(lines):
        first = _FIRST_PATTERN.match(line)
        if not first:
            continue
        cells = [("product_name", first[2]), ("persistence_mode", first[3] if first[3] in ("On", "Off") else "N/A"), *_parse_ecc(first[5])]
        second = _SECOND_PATTERN.match(lines[at + 1]) if at + 1 < len(lines) else None
        if second:
            cells += _parse_second_line(second)
        third = _THIRD_PATTERN.match(lines[at + 2]) if at + 2 < len(lines) else None
        if third:
            cells.append(("mig_mode/current_mig", third[1].rstrip("*")))
        rows = "\n".join(lines[at : at + 2])[:300]
        yield ReportedGpu(GpuFields((path, Cell(text.strip(), rows)) for path, text in cells), first[4], None, int(first[1][:3]))


def _parse_ecc(text: str) -> list[tuple[str, str]]:
    """Off, N/A (no ECC), On (counts are per MIG device) or the uncorrectable count."""
    if text in ("Off", "On"):
        return [("ecc_mode/current_ecc", "Enabled" if text == "On" else "Disabled")]
    if not text.isdecimal():
        return [("ecc_mode/current_ecc", text)]
    split = [("volatile/sram_uncorrectable", "0")] if int(text) == 0 else []
    return [("ecc_mode/current_ecc", "Enabled"), ("volatile/dram_uncorrectable", text), *split]


def _parse_second_line(match: re.Match[str]) -> list[tuple[str, str]]:
    temperature, draw, limit, used, total, util, mode = match.groups()
    return [
        ("temperature/gpu_temp", temperature),
        ("gpu_power_readings/power_draw", draw),
        ("gpu_power_readings/current_power_limit", limit),
        ("fb_memory_usage/used", used),
        ("fb_memory_usage/total", total),
        ("utilization/gpu_util", util),
        ("compute_mode", _COMPUTE_MODES.get(mode.strip(), mode)),
    ]
