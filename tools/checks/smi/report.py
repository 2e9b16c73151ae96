"""Facts of one nvidia-smi report: its GPUs, their count, messages beside it, missing parts."""

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


def _build_whole_report_facts(facts: Sequence[Fact], devices: Sequence[str]) -> list[Fact]:
    lost = {fact.device for fact in facts if fact.key == "gpu.lost" and fact.value is True}
    corrupt = {fact.device for fact in facts if fact.key == "gpu.inforom_corrupt"}
    gpu_count = len(set(devices) - lost)
    count = [] if any(fact.key == "gpu.count" for fact in facts) else [Fact(CHECK, "gpu.count", gpu_count, line=f"{gpu_count} GPUs answer")]
    return count + [Fact(CHECK, "gpu.inforom_corrupt", False, name) for name in devices if name not in lost | corrupt]
