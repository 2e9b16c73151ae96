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
# the same errors as other programs word them
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
    for name, pattern in CUDA_ERROR_PATTERNS:
        if match := pattern.search(text[:20000]):
            start = text.rfind("\n", 0, match.start()) + 1
            return Fact(check, "cuda.error", name, line=split_lines(text[start : start + 300])[0].strip())
    return None


def is_probe(text: str) -> bool:
    return '"probe": "cuda"' in text


def parse_probe(text: str) -> Sequence[Fact]:
    """Parse one line per GPU. If fewer GPUs answered than were counted, the rest is unobserved."""
    rows = probes.parse_probe_rows(text, "cuda")
    if not rows:
        raise Unreadable("no line of the probe is whole")
    if any(row.get("error") == "no_library" for row in rows):
        return [Fact(CHECK, "cuda.error", "no_library", line="libcuda.so.1 cannot be loaded: no NVIDIA driver is installed")]
    facts = [fact for row in rows for fact in _build_row_facts(row)]
    device_count = next((row["devices"] for row in rows if isinstance(row.get("devices"), int)), None)
    gpu_rows = sum("gpu" in row for row in rows)
    if device_count is not None and gpu_rows < device_count:
        facts.append(
            build_unobserved_fact(
                CHECK, Status.UNREADABLE, f"{device_count} GPUs were counted and {gpu_rows} answered: the probe was cut off or hung"
            )
        )
    if not facts:
        raise Unreadable("lines of the probe without a result")
    return facts


def _build_row_facts(row: Mapping[str, Any]) -> list[Fact]:
    line = json.dumps(row, sort_keys=True)[:300]
    device = _parse_device(row)
    if isinstance(row.get("devices"), int):
        return [Fact(CHECK, "cuda.devices", row["devices"], line=line)]
    code = row.get("code")
    facts = []
    if device and isinstance(row.get("ok"), bool):
        facts.append(Fact(CHECK, "cuda.ok", row["ok"], device, line=line))
        if "name" in row:
            facts.append(Fact(CHECK, "cuda.mig", " MIG " in str(row["name"]), device, line=line))
        if isinstance(row.get("mode"), int) and not isinstance(row["mode"], bool) and row["mode"] in COMPUTE_MODES:
            facts.append(Fact(CHECK, "cuda.compute_mode", COMPUTE_MODES[row["mode"]], device, line=line))
    if isinstance(code, int) and not isinstance(code, bool) and code and row.get("step") != "bytes":
        facts.append(
            Fact(
                CHECK,
                "cuda.error",
                CUDA_ERROR_CODES.get(code, "other"),
                device,
                line=line,
                attrs={"code": code, "step": str(row.get("step", ""))},
            )
        )
    return facts


def _parse_device(row: Mapping[str, Any]) -> str | None:
    index = row.get("gpu")
    if isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < 1000:
        return None
    return normalize_bdf(str(row.get("bdf", ""))) or f"gpu{index}"


def is_device_query(text: str) -> bool:
    return "deviceQuery" in text or bool(_QUERY_PATTERN.search(text) or _COUNT_PATTERN.search(text))


def parse_device_query(text: str) -> Sequence[Fact]:
    """Count the listed GPUs, without calling them healthy: deviceQuery runs nothing on them."""
    if error := _QUERY_PATTERN.search(text):
        code = int(error[1])
        return [
            Fact(
                CHECK,
                "cuda.error",
                CUDA_ERROR_CODES.get(code, "other"),
                line=" ".join(error[0].split()),
                attrs={"code": code, "step": "cudaGetDeviceCount"},
            )
        ]
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
