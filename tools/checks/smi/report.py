"""Facts of one nvidia-smi report: its GPUs, their count, messages beside it, missing parts."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kb.needle_search import split_lines
from kb.pci_address import normalize_bdf
from tools.checks.check_types import Unreadable
from tools.checks.not_understood import build_not_understood_facts
from tools.checks.output_values import classify_cell, parse_number
from tools.checks.smi.gpu import CHECK, GpuFields, build_gpu_facts, list_unknown_lines
from tools.fact import Fact, Status, build_unobserved_fact

# Messages that nvidia-smi prints instead of its report or beside it: findings, not unobserved facts.
#
# Failed to initialize NVML: Driver/library version mismatch
# NVML library version: 550.90
# Unable to determine the device handle for GPU0000:9B:00.0: GPU is lost. Reboot the system to recover this GPU
# WARNING: infoROM is corrupted at gpu 0000:9B:00.0

_ADDRESS = r"(?P<bdf>[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])"


@dataclass(frozen=True, slots=True)
class Complaint:
    """`whole`: it replaces the report."""

    error: str
    pattern: re.Pattern[str]
    whole: bool = True


COMPLAINTS = (
    Complaint("driver_library_mismatch", re.compile(r"Driver/library version mismatch")),
    Complaint("driver_not_loaded", re.compile(r"couldn't communicate with the NVIDIA driver|Driver Not Loaded")),
    Complaint("no_devices", re.compile(r"No devices were found")),
    Complaint(
        "gpu_lost", re.compile(rf"Unable to determine the device handle for (?:GPU|gpu) ?{_ADDRESS}: (?:GPU is lost|GPU requires reset)")
    ),
    Complaint("gpu_lost", re.compile(r"^GPU is lost\.", re.MULTILINE)),
    Complaint("unknown_error", re.compile(rf"Unable to determine the device handle for (?:GPU|gpu) ?{_ADDRESS}: Unknown Error")),
    Complaint("unknown_error", re.compile(r"Failed to initialize NVML: Unknown Error|Unable to determine the device handle")),
    Complaint("insufficient_permissions", re.compile(r"Failed to initialize NVML: Insufficient Permissions")),
    Complaint("unknown_error", re.compile(r"Failed to initialize NVML")),
)
_LIBRARY_PATTERN = re.compile(r"NVML library version: *(\d+\.\d+(?:\.\d+)?)")
_INFOROM_PATTERN = re.compile(rf"(?i)infoROM is corrupted at gpu {_ADDRESS}")


def has_complaint(text: str) -> bool:
    return bool(_INFOROM_PATTERN.search(text)) or any(row.pattern.search(text) for row in COMPLAINTS)


def parse_complaints(text: str, names: Mapping[str, str] | None = None) -> Sequence[Fact]:
    """Return the messages' facts. `names` maps addresses to the report's device names."""
    fact_by_error: dict[tuple[str, str | None], Fact] = {}
    for line in split_lines(text):
        for fact in _parse_line(line.strip(), names or {}):
            fact_by_error.setdefault((fact.key, fact.device), fact)
    return list(fact_by_error.values())


def _parse_line(line: str, names: Mapping[str, str]) -> list[Fact]:
    facts: list[Fact] = []
    for row in COMPLAINTS:
        match = row.pattern.search(line)
        if match:
            facts += _build_complaint_facts(row.error, _get_device(match, names), line)
            break
    if library := _LIBRARY_PATTERN.search(line):
        facts.append(Fact("smi", "driver.library_version", library[1], line=line))
    if corrupt := _INFOROM_PATTERN.search(line):
        facts.append(Fact("smi", "gpu.inforom_corrupt", True, _get_device(corrupt, names), line=line))
    return facts


def _build_complaint_facts(error: str, device: str | None, line: str) -> list[Fact]:
    facts = [Fact("smi", "smi.error", error, line=line)]
    if error == "driver_library_mismatch":
        facts.append(Fact("smi", "driver.mismatch", True, line=line))
    if error == "no_devices":
        facts.append(Fact("smi", "gpu.count", 0, line=line))
    if error == "gpu_lost" and device:
        facts.append(Fact("smi", "gpu.lost", True, device, line=line))
    return facts


def _get_device(match: re.Match[str], names: Mapping[str, str]) -> str | None:
    address = normalize_bdf(match.groupdict().get("bdf") or "")
    return names.get(address, address) if address else None


HOST_KEYS = {"driver_version": "driver.version", "cuda_version": "driver.cuda_version"}


class ReportedGpu(NamedTuple):
    """`processes` None: not stated; `number` None: not printed."""

    leaves: GpuFields
    address: str | None
    processes: int | None
    number: int | None = None


def build_host_facts(head: Mapping[str, str]) -> list[Fact]:
    facts = []
    for name, key in HOST_KEYS.items():
        text = head.get(name, "").strip()
        if text:
            status = classify_cell(text)
            facts.append(Fact(CHECK, key, text[:60] if status is Status.OK else None, status=status, line=f"{name} {text}"[:200]))
    return facts


def build_report_facts(
    host: Sequence[Fact], gpus: Sequence[ReportedGpu], attached: str, beside: str, cut: str, *, selected: bool = False
) -> list[Fact]:
    """Return a report's facts. Only a complete one counts GPUs and reports that no infoROM warning came.

    One of `selected` sections (`-d`) does neither. With some GPUs only (`-i 3`) numbers are unknown, so GPUs are named
    by
    address.
    """
    number = parse_number(attached) if attached.strip() else None
    some = not cut and number is not None and int(number) != len(gpus)
    names = {(normalize_bdf(gpu.address or "") or str(at)): _name_gpu(gpu, at, some) for at, gpu in enumerate(gpus)}
    if len(names) < len(gpus):
        raise Unreadable("one PCI address stands for two GPUs: several reports glued together?")
    facts = [*host]
    for name, gpu in zip(names.values(), gpus, strict=True):
        facts += build_gpu_facts(name, gpu.leaves, gpu.address, gpu.processes)
    facts += parse_complaints(beside, names)
    facts += build_not_understood_facts(
        CHECK, (f"{name}: {line}" for name, gpu in zip(names.values(), gpus, strict=True) for line in list_unknown_lines(gpu.leaves))
    )
    if selected:
        return facts
    if some and number is not None:
        cut = f"{int(number)} GPUs are attached, {len(gpus)} are described"
    if cut:
        return [*facts, build_unobserved_fact(CHECK, Status.UNREADABLE, cut)]
    return [*facts, *_build_whole_report_facts(facts, list(names.values()))]


def _name_gpu(gpu: ReportedGpu, at: int, some: bool) -> str:
    address = normalize_bdf(gpu.address or "")
    if some and address:
        return address
    return f"gpu{at if gpu.number is None else gpu.number}"


def _build_whole_report_facts(found: Sequence[Fact], names: Sequence[str]) -> list[Fact]:
    lost = {fact.device for fact in found if fact.key == "gpu.lost" and fact.value is True}
    corrupt = {fact.device for fact in found if fact.key == "gpu.inforom_corrupt"}
    gpu_count = len(set(names) - lost)
    count = [] if any(fact.key == "gpu.count" for fact in found) else [Fact(CHECK, "gpu.count", gpu_count, line=f"{gpu_count} GPUs answer")]
    return count + [Fact(CHECK, "gpu.inforom_corrupt", False, name) for name in names if name not in lost | corrupt]
