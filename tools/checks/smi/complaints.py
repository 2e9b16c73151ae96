"""Messages that nvidia-smi prints instead of its report or beside it: findings, not unobserved facts.

Failed to initialize NVML: Driver/library version mismatch
NVML library version: 550.90
Unable to determine the device handle for GPU0000:9B:00.0: GPU is lost. Reboot the system to recover this GPU
WARNING: infoROM is corrupted at gpu 0000:9B:00.0
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kb.needle_search import split_lines
from kb.pci_address import normalize_bdf
from tools.checks.smi.gpu import CHECK
from tools.fact import Fact

_ADDRESS = r"(?P<bdf>[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])"


@dataclass(frozen=True, slots=True)
class Complaint:
    """A message that reports an error."""

    error: str
    pattern: re.Pattern[str]
    whole: bool = True  # whether the message replaces the report


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
    return bool(_INFOROM_PATTERN.search(text)) or any(complaint.pattern.search(text) for complaint in COMPLAINTS)


def parse_complaints(text: str, device_by_address: Mapping[str, str] | None = None) -> Sequence[Fact]:
    """Return the messages' facts. Devices have their names in the report where it has them, else their addresses."""
    fact_by_error: dict[tuple[str, str | None], Fact] = {}
    for line in split_lines(text):
        for fact in _parse_line(line.strip(), device_by_address or {}):
            fact_by_error.setdefault((fact.key, fact.device), fact)
    return list(fact_by_error.values())


def _parse_line(line: str, device_by_address: Mapping[str, str]) -> list[Fact]:
    facts: list[Fact] = []
    for complaint in COMPLAINTS:
        match = complaint.pattern.search(line)
        if match:
            facts += _build_complaint_facts(complaint.error, _get_device(match, device_by_address), line)
            break
    if library := _LIBRARY_PATTERN.search(line):
        facts.append(Fact(CHECK, "driver.library_version", library[1], line=line))
    if corrupt := _INFOROM_PATTERN.search(line):
        facts.append(Fact(CHECK, "gpu.inforom_corrupt", True, _get_device(corrupt, device_by_address), line=line))
    return facts


def _build_complaint_facts(error: str, device: str | None, line: str) -> list[Fact]:
    facts = [Fact(CHECK, "smi.error", error, line=line)]
    if error == "driver_library_mismatch":
        facts.append(Fact(CHECK, "driver.mismatch", True, line=line))
    if error == "no_devices":
        facts.append(Fact(CHECK, "gpu.count", 0, line=line))
    if error == "gpu_lost" and device:
        facts.append(Fact(CHECK, "gpu.lost", True, device, line=line))
    return facts


def _get_device(match: re.Match[str], device_by_address: Mapping[str, str]) -> str | None:
    address = normalize_bdf(match.groupdict().get("bdf") or "")
    return device_by_address.get(address, address) if address else None
