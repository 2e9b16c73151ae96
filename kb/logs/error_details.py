"""Details of an error line beyond its class: memory owner, peer, collective."""

import re
from collections.abc import Mapping
from typing import Any

from kb.numbers import parse_integer

_OTHER_PATTERN = re.compile(r"Process (\d{1,10}) has ([\d.]{1,9}) ([GM])iB memory in use")
_OWN_PATTERN = re.compile(r"this process has ([\d.]{1,9}) ([GM])iB memory in use")
_TOTAL_PATTERN = re.compile(r"total capacity of ([\d.]{1,9}) GiB|([\d.]{1,9}) GiB total capacity")
_FREE_PATTERN = re.compile(r"(?:of which )?([\d.]{1,9}) ([GM])iB (?:is )?free")
_RESERVED_PATTERN = re.compile(r"([\d.]{1,9}) ([GM])iB reserved in total")
_GPU_PATTERN = re.compile(r"\bGPU (\d{1,2})\b")
# memory of other processes below which they are not the reason (contexts of other ranks, monitoring)
_MAX_FOREIGN_GIB = 4.0
_SIGNAL_NUMBERS = {
    "segmentation fault": 11, "sigsegv": 11, "address not mapped": 11, "bus error": 7, "sigbus": 7, "illegal instruction": 4, "sigill": 4,
    "floating point exception": 8, "floating-point exception": 8, "sigfpe": 8, "sigsys": 31,
}  # fmt: skip
_NUMBER_PATTERN = re.compile(r"(?:signal|code|status|exited with)(?: number)?[ :=(]{0,8}(?:is |was |of )?(-?\d{1,3})\b")
# glibc's messages about corrupted memory, followed by an abort
_HEAP_ERROR_TEXTS = (
    "stack smashing",
    "double free",
    "free(): invalid",
    "corrupted size",
    "malloc(): ",
    "malloc_consolidate",
    "munmap_chunk",
)
NUMERIC_GROUPS = frozenset({"seq", "work", "enqueued", "completed", "timeout_ms", "status", "vendor_err", "joined", "expected", "port"})


def _convert_group(name: str, value: Any) -> tuple[str, Any]:
    number = parse_integer(value) if name in NUMERIC_GROUPS else None
    return name, value if number is None else number


def build_error_attrs(cause: str, found: Mapping[str, Any], line: str) -> dict[str, Any]:
    """Return the groups under plain names, numbers converted, plus the class's attributes."""
    attrs = dict(_convert_group(name.rstrip("234"), value) for name, value in found.items())
    if cause == "cuda_oom":
        return attrs | _parse_memory(line)
    if cause == "crash_signal" and (signal := _find_signal(line)):
        return attrs | {"signal": signal}
    return attrs


def _find_signal(line: str) -> int | None:
    """From its name, number, or an exit code above 128."""
    low = line.lower()
    for name, number in _SIGNAL_NUMBERS.items():
        if name in low:
            return number
    if match := _NUMBER_PATTERN.search(low):
        number = abs(int(match[1]))
        return number - 128 if number > 128 else number
    return 6 if any(word in low for word in _HEAP_ERROR_TEXTS) else None


def _parse_memory(line: str) -> dict[str, Any]:
    """PyTorch lists visible processes only; before 2.1 only totals, whose remainder is foreign."""
    other_processes = [(_convert_to_gib(size, unit), int(pid)) for pid, size, unit in _OTHER_PATTERN.findall(line)]
    if other_processes and not _OWN_PATTERN.search(line):
        other_processes.remove(max(other_processes))  # without a "this process" clause the largest is this process
    other, pid = max(other_processes, default=(0.0, 0))
    other = max(other, 0.0 if other_processes or _OWN_PATTERN.search(line) else _compute_unaccounted_gib(line))
    attrs: dict[str, Any] = {"own": other < _MAX_FOREIGN_GIB}
    if other >= _MAX_FOREIGN_GIB:
        attrs |= {"other_gib": round(other, 2)} | ({"other_pid": pid} if pid else {})
    gpu = _GPU_PATTERN.search(line)
    return attrs | ({"device": f"gpu{gpu[1]}"} if gpu else {})


def _compute_unaccounted_gib(line: str) -> float:
    total, free, reserved = _TOTAL_PATTERN.search(line), _FREE_PATTERN.search(line), _RESERVED_PATTERN.search(line)
    if not (total and free and reserved):
        return 0.0
    return float(total[1] or total[2]) - _convert_to_gib(free[1], free[2]) - _convert_to_gib(reserved[1], reserved[2])


def _convert_to_gib(size: str, unit: str) -> float:
    try:
        return float(size) / (1 if unit == "G" else 1024)
    except ValueError:
        return 0.0
