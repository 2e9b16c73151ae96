"""Whether a host's GPUs are in use, from two fresh passive checks. Unobserved counts as busy."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from tools.fact import Fact, Status

IDLE_CHECKS = ("smi", "procs")  # passive checks that show GPU use
MAX_IDLE_UTIL_PERCENT = 5  # upper bounds for an idle GPU: utilisation in per cent
MAX_IDLE_MIB = 1024  # memory in MiB (the driver reserves some)
UNUSABLE_GPU_ERRORS = frozenset({"driver_not_loaded", "no_devices"})  # nvidia-smi errors that leave no usable GPU


@dataclass(frozen=True, slots=True)
class GpuUse:
    """Use of a host's GPUs. `why` is "" if idle, else why a check may not run; `says` is the sentence."""

    why: Literal["", "busy", "not_known"] = ""
    says: str = ""


def classify_gpu_use(facts: Iterable[Fact]) -> GpuUse:
    """Classify fresh facts of IDLE_CHECKS. No reading is not idle."""
    fresh_facts = [fact for fact in facts if not fact.stale]
    if using_facts := [fact for fact in fresh_facts if _shows_use(fact)]:
        return GpuUse("busy", f"{len({fact.device for fact in using_facts})} of its GPUs are in use: {_format_use(using_facts[0])}")
    if any(fact.key == "smi.error" and fact.value in UNUSABLE_GPU_ERRORS for fact in fresh_facts):
        return GpuUse()
    if not any(fact.key == "gpu.processes" and fact.status is Status.OK for fact in fresh_facts):
        reason = next((fact.line for fact in fresh_facts if fact.status.blind or fact.key == "smi.error"), "nvidia-smi was not asked")
        return GpuUse("not_known", f"whether its GPUs are in use cannot be seen: {reason}"[:300])
    return GpuUse()


def _shows_use(fact: Fact) -> bool:
    if fact.status is not Status.OK:
        return fact.key == "proc.gpu_memory" and fact.status is Status.ABSENT and bool(fact.attrs.get("pid"))
    if fact.key in ("gpu.util", "gpu.memory.used", "gpu.processes") and isinstance(fact.value, int):
        return fact.value > {"gpu.util": MAX_IDLE_UTIL_PERCENT, "gpu.memory.used": MAX_IDLE_MIB}.get(fact.key, 0)
    return fact.key == "proc.gpu_memory"


def _format_use(fact: Fact) -> str:
    unit = {"gpu.util": "%", "gpu.memory.used": "MiB used", "gpu.processes": "processes", "proc.gpu_memory": "MiB held by a process"}
    return f"{fact.device or 'a GPU'} {fact.value if fact.value is not None else ''} {unit.get(fact.key, '')}".strip()
