"""Facts of one nvidia-smi report: its GPUs, their count, messages between them, missing parts."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kb.pci_address import normalize_bdf
from tools.checks.check_types import Unreadable
from tools.checks.not_understood import build_not_understood_facts
from tools.checks.output_values import classify_cell, parse_number
from tools.checks.smi.complaints import parse_complaints
from tools.checks.smi.gpu import CHECK, GpuFields, build_gpu_facts, list_unknown_lines
from tools.fact import Fact, Status, build_unobserved_fact

HOST_KEYS = {"driver_version": "driver.version", "cuda_version": "driver.cuda_version"}


class ReportedGpu(NamedTuple):
    """One GPU as a report describes it. What the report does not print is None."""

    leaves: GpuFields
    address: str | None
    processes: int | None
    number: int | None = None


def build_host_facts(header_values: Mapping[str, str]) -> list[Fact]:
    facts = []
    for name, key in HOST_KEYS.items():
        text = header_values.get(name, "").strip()
        if text:
            status = classify_cell(text)
            facts.append(Fact(CHECK, key, text[:60] if status is Status.OK else None, status=status, line=f"{name} {text}"[:200]))
    return facts


def build_report_facts(
    host_facts: Sequence[Fact], gpus: Sequence[ReportedGpu], attached: str, messages: str, cut: str, *, selected: bool = False
) -> list[Fact]:
    """Return a report's facts. Only a complete report counts GPUs and says that no infoROM is corrupt.

    A report of some GPUs only (`-i 3`) does not tell their numbers, so its GPUs are named by address.

    Args:
        attached: how many GPUs the report says are attached; empty if it does not say.
        messages: the lines outside the GPUs' sections.
        cut: why the report is incomplete; empty if it is complete.
        selected: whether it holds selected fields only (`-d`), and so is never complete.
    """
    attached_count = parse_number(attached) if attached.strip() else None
    is_partial = not cut and attached_count is not None and int(attached_count) != len(gpus)
    device_by_address = {
        (normalize_bdf(gpu.address or "") or str(position)): _name_gpu(gpu, position, is_partial) for position, gpu in enumerate(gpus)
    }
    if len(device_by_address) < len(gpus):
        raise Unreadable("one PCI address stands for two GPUs: several reports glued together?")
    devices = list(device_by_address.values())
    facts = [*host_facts]
    unknown_lines: list[str] = []
    for device, gpu in zip(devices, gpus, strict=True):
        facts += build_gpu_facts(device, gpu.leaves, gpu.address, gpu.processes)
        unknown_lines += [f"{device}: {line}" for line in list_unknown_lines(gpu.leaves)]
    facts += parse_complaints(messages, device_by_address)
    facts += build_not_understood_facts(CHECK, unknown_lines)
    if selected:
        return facts
    if is_partial and attached_count is not None:
        cut = f"{int(attached_count)} GPUs are attached, {len(gpus)} are described"
    if cut:
        return [*facts, build_unobserved_fact(CHECK, Status.UNREADABLE, cut)]
    return [*facts, *_build_complete_report_facts(facts, devices)]


def _name_gpu(gpu: ReportedGpu, position: int, is_partial: bool) -> str:
    address = normalize_bdf(gpu.address or "")
    if is_partial and address:
        return address
    return f"gpu{position if gpu.number is None else gpu.number}"


def _build_complete_report_facts(facts: Sequence[Fact], devices: Sequence[str]) -> list[Fact]:
    lost_devices = {fact.device for fact in facts if fact.key == "gpu.lost" and fact.value is True}
    corrupt_devices = {fact.device for fact in facts if fact.key == "gpu.inforom_corrupt"}
    complete_facts = []
    if not any(fact.key == "gpu.count" for fact in facts):
        gpu_count = len(set(devices) - lost_devices)
        complete_facts.append(Fact(CHECK, "gpu.count", gpu_count, line=f"{gpu_count} GPUs answer"))
    judged_devices = [device for device in devices if device not in lost_devices | corrupt_devices]
    return complete_facts + [Fact(CHECK, "gpu.inforom_corrupt", False, device) for device in judged_devices]
