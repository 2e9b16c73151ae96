"""The same small training loop on every GPU: time per step, the processors' share of it, and whether the losses agree.

{"data_ms": 1.9, "gpu": 3, "loss": "0.98828125", "ms": 6.21, "probe": "step"}
"""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from tools.checks.check_types import Check, Command, Format, Unreadable
from tools.checks.exclusive import probes
from tools.checks.exclusive.cuda import find_cuda_error
from tools.fact import Fact, Status, build_unobserved_fact

CHECK = "e2e"
PROBE = probes.load_probe("step")
INSTALL_HINT = "PyTorch with CUDA for the python3 that the login finds first on the node"


def is_step(text: str) -> bool:
    return '"probe": "step"' in text


def parse_step(text: str) -> Sequence[Fact]:
    """Compare each GPU's step time with the median, and its loss with the loss of most GPUs."""
    records = probes.parse_probe_rows(text, "step")
    if any(record.get("error") == "no_torch" for record in records):
        return [Fact(CHECK, "check.skipped", "no_tool", line="there is no PyTorch for python3", attrs={"text": INSTALL_HINT})]
    measurements = {f"gpu{record['gpu']}": record for record in records if _is_measurement(record)}
    if not measurements:
        return [_explain_no_measurement(records, text)]
    facts = _build_step_facts(measurements)
    device_count = next((record["devices"] for record in records if isinstance(record.get("devices"), int)), len(measurements))
    if device_count > len(measurements):
        reason = f"{device_count} GPUs were counted and {len(measurements)} ended their steps"
        facts.append(build_unobserved_fact(CHECK, Status.UNREADABLE, reason))
    return facts


def _explain_no_measurement(records: Sequence[Mapping[str, Any]], text: str) -> Fact:
    """Return the CUDA error that stopped all GPUs. Raise Unreadable if the output names none."""
    if error := find_cuda_error(CHECK, text):
        return error
    if any(record.get("devices") == 0 for record in records):
        return Fact(CHECK, "cuda.error", "no_device", line="PyTorch counts no GPU")
    raise Unreadable(next((str(record["error"])[:160] for record in records if record.get("error")), "no GPU did a step"))


def _is_measurement(record: Mapping[str, Any]) -> bool:
    if not _has_gpu_index(record) or _get_number(record, "ms") <= 0:
        return False
    return re.fullmatch(r"[0-9.einfa+-]{1,40}", str(record.get("loss"))) is not None


def _has_gpu_index(record: Mapping[str, Any]) -> bool:
    index = record.get("gpu")
    return isinstance(index, int) and not isinstance(index, bool) and 0 <= index < 1000


def _get_number(record: Mapping[str, Any], name: str) -> float:
    value = record.get(name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e9 else 0.0


def _build_step_facts(measurements: Mapping[str, Mapping[str, Any]]) -> list[Fact]:
    gpu_count = len(measurements)
    step_times = [_get_number(measurement, "ms") for measurement in measurements.values()]
    data_times = [_get_number(measurement, "data_ms") for measurement in measurements.values()]
    median_ms = median(step_times)
    losses = Counter(str(measurement["loss"]) for measurement in measurements.values())
    usual_loss, usual_count = losses.most_common(1)[0]
    has_majority = gpu_count > 2 and 2 * usual_count > gpu_count
    facts = []
    for device, measurement in measurements.items():
        line, step_ms = json.dumps(measurement, sort_keys=True)[:300], _get_number(measurement, "ms")
        facts.append(Fact(CHECK, "step.ms", step_ms, device, unit="ms", line=line))
        facts.append(Fact(CHECK, "step.share", round(step_ms / median_ms, 3), device, line=line))
        if has_majority:
            facts.append(Fact(CHECK, "step.diverged", str(measurement["loss"]) != usual_loss, device, line=line))
    data_ms, busy_ms = sum(data_times), sum(step_times)
    line = f"{data_ms / gpu_count:.2f} ms data, {busy_ms / gpu_count:.2f} ms step"
    return [*facts, Fact(CHECK, "step.data_share", round(data_ms / (data_ms + busy_ms), 3), line=line)]


CHECKS = (
    Check(
        id=CHECK,
        asks="Does a small training loop run on every GPU as fast as on the others, and to the same loss?",
        commands=(Command("run", ("python3", "-c", PROBE)),),
        formats=(Format("probe", is_step, parse_step),),
        establishes=("step.ms", "step.share", "step.data_share", "step.diverged", "check.skipped", "cuda.error"),
        seconds=120.0,
        exclusive=True,
        timeout=300.0,
        cap=256 * 1024,
        tool=INSTALL_HINT,
    ),
)
