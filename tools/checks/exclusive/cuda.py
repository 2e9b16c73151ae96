"""Whether CUDA works on every GPU: our probe through the driver library, or NVIDIA's `deviceQuery`.

{"bdf": "0000:9B:00.0", "gpu": 4, "mode": 0, "name": "NVIDIA H100 80GB HBM3", "ok": true, "probe": "cuda"}
{"code": 802, "probe": "cuda", "step": "cuInit"}
cudaGetDeviceCount returned 802
-> system not yet initialized
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from kb.needle_search import split_lines
from kb.pci_address import normalize_bdf
from tools.checks.check_types import Check, Command, Format, Unreadable
from tools.checks.exclusive import probes
from tools.fact import Fact, Status, build_unobserved_fact

CHECK = "cuda"
PROBE = probes.load_probe("cuda")
# CUDA result codes that separate causes; driver library and runtime share them.
CUDA_ERROR_CODES = {
    46: "unavailable", 100: "no_device", 101: "invalid_device", 214: "ecc", 700: "launch_failed", 719: "launch_failed", 801: "other",
    802: "not_ready", 803: "mismatch", 804: "mismatch", 999: "unknown",
}  # fmt: skip
# The same errors as other programs word them.
CUDA_ERROR_PATTERNS = (
    ("not_ready", re.compile(r"system not yet initialized|SYSTEM_NOT_READY", re.IGNORECASE)),
    ("mismatch", re.compile(r"unsupported display driver|SYSTEM_DRIVER_MISMATCH", re.IGNORECASE)),
    ("no_device", re.compile(r"no CUDA-capable device|No CUDA devices|ERROR_NO_DEVICE", re.IGNORECASE)),
    ("invalid_device", re.compile(r"invalid device ordinal|ERROR_INVALID_DEVICE", re.IGNORECASE)),
    ("unavailable", re.compile(r"busy or unavailable|DEVICE_UNAVAILABLE", re.IGNORECASE)),
    ("ecc", re.compile(r"uncorrectable ECC|ECC_UNCORRECTABLE", re.IGNORECASE)),
    ("launch_failed", re.compile(r"unspecified launch failure|launch timed out|LAUNCH_(?:FAILED|TIMEOUT)", re.IGNORECASE)),
    ("unknown", re.compile(r"unknown error|ERROR_UNKNOWN\b", re.IGNORECASE)),
)
_QUERY_PATTERN = re.compile(r"cudaGetDeviceCount returned (-?\d{1,6})\s*\n?-> ([^\n]{1,120})")
_DEVICE_PATTERN = re.compile(r'^Device (\d{1,3}): "([^"\n]{1,120})"', re.MULTILINE)
_COUNT_PATTERN = re.compile(r"Detected (\d{1,3}) CUDA Capable device")

# CUDA's compute modes in nvidia-smi's words. Exclusive modes refuse the second process on a GPU, so the probe alone
# succeeds.
COMPUTE_MODES = {0: "Default", 1: "Exclusive_Thread", 2: "Prohibited", 3: "Exclusive_Process"}


def find_cuda_error(check: str, text: str) -> Fact | None:
    """Return the CUDA error that any program's output names, as a fact of the check."""
    for name, pattern in CUDA_ERROR_PATTERNS:
        if match := pattern.search(text[:20000]):
            start = text.rfind("\n", 0, match.start()) + 1
            return Fact(check, "cuda.error", name, line=split_lines(text[start : start + 300])[0].strip())
    return None


def is_probe(text: str) -> bool:
    return '"probe": "cuda"' in text


def parse_probe(text: str) -> Sequence[Fact]:
    """Parse one line per GPU. If fewer GPUs answered than were counted, the rest is unobserved."""
    records = probes.parse_probe_rows(text, "cuda")
    if not records:
        raise Unreadable("no line of the probe is whole")
    if any(record.get("error") == "no_library" for record in records):
        return [Fact(CHECK, "cuda.error", "no_library", line="libcuda.so.1 cannot be loaded: no NVIDIA driver is installed")]
    facts = [fact for record in records for fact in _build_record_facts(record)]
    device_count = next((record["devices"] for record in records if isinstance(record.get("devices"), int)), None)
    answer_count = sum("gpu" in record for record in records)
    if device_count is not None and answer_count < device_count:
        reason = f"{device_count} GPUs were counted and {answer_count} answered: the probe was cut off or hung"
        facts.append(build_unobserved_fact(CHECK, Status.UNREADABLE, reason))
    if not facts:
        raise Unreadable("lines of the probe without a result")
    return facts


def _build_record_facts(record: Mapping[str, Any]) -> list[Fact]:
    line = json.dumps(record, sort_keys=True)[:300]
    if isinstance(record.get("devices"), int):
        return [Fact(CHECK, "cuda.devices", record["devices"], line=line)]
    device, code, mode = _parse_device(record), record.get("code"), record.get("mode")
    facts = []
    if device and isinstance(record.get("ok"), bool):
        facts.append(Fact(CHECK, "cuda.ok", record["ok"], device, line=line))
        if "name" in record:
            facts.append(Fact(CHECK, "cuda.mig", " MIG " in str(record["name"]), device, line=line))
        if isinstance(mode, int) and not isinstance(mode, bool) and mode in COMPUTE_MODES:
            facts.append(Fact(CHECK, "cuda.compute_mode", COMPUTE_MODES[mode], device, line=line))
    if isinstance(code, int) and not isinstance(code, bool) and code and record.get("step") != "bytes":
        attrs = {"code": code, "step": str(record.get("step", ""))}
        facts.append(Fact(CHECK, "cuda.error", CUDA_ERROR_CODES.get(code, "other"), device, line=line, attrs=attrs))
    return facts


def _parse_device(record: Mapping[str, Any]) -> str | None:
    """Return the GPU's PCI address, else its number; None if the record is of no GPU."""
    index = record.get("gpu")
    if isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < 1000:
        return None
    return normalize_bdf(str(record.get("bdf", ""))) or f"gpu{index}"


def is_device_query(text: str) -> bool:
    return "deviceQuery" in text or bool(_QUERY_PATTERN.search(text) or _COUNT_PATTERN.search(text))


def parse_device_query(text: str) -> Sequence[Fact]:
    """Count the listed GPUs, without calling them healthy: deviceQuery runs nothing on them."""
    if error := _QUERY_PATTERN.search(text):
        code, line = int(error[1]), " ".join(error[0].split())
        attrs = {"code": code, "step": "cudaGetDeviceCount"}
        return [Fact(CHECK, "cuda.error", CUDA_ERROR_CODES.get(code, "other"), line=line, attrs=attrs)]
    count = _COUNT_PATTERN.search(text)
    if not count:
        raise Unreadable("neither a count of devices nor an error")
    facts = [Fact(CHECK, "cuda.devices", int(count[1]), line=count[0])]
    return facts + [
        Fact(CHECK, "cuda.mig", " MIG " in name, f"gpu{int(index)}", line=name) for index, name in _DEVICE_PATTERN.findall(text)
    ]


CHECKS = (
    Check(
        id=CHECK,
        asks="Does CUDA start on every GPU, fill memory there and read it back?",
        commands=(Command("run", ("python3", "-c", PROBE)),),
        formats=(Format("probe", is_probe, parse_probe), Format("deviceQuery", is_device_query, parse_device_query)),
        establishes=("cuda.devices", "cuda.ok", "cuda.error", "cuda.mig", "cuda.compute_mode"),
        seconds=10.0,
        exclusive=True,
        timeout=60.0,
        cap=256 * 1024,
        tool="python3 (any since 3.6) on the node; the rest comes with the NVIDIA driver",
    ),
)
