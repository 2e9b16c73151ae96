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
    """Compare step times with the median GPU. A loss unlike most GPUs' has diverged."""
    rows = probes.parse_probe_rows(text, "step")
    if any(row.get("error") == "no_torch" for row in rows):
        return [Fact(CHECK, "check.skipped", "no_tool", line="there is no PyTorch for python3", attrs={"text": INSTALL_HINT})]
    done_by_gpu = {
        f"gpu{row['gpu']}": row
        for row in rows
        if _has_gpu_index(row) and _get_number(row, "ms") > 0 and re.fullmatch(r"[0-9.einfa+-]{1,40}", str(row.get("loss")))
    }
    if not done_by_gpu:
        if error := find_cuda_error(CHECK, text):
            return [error]
        if any(row.get("devices") == 0 for row in rows):
            return [Fact(CHECK, "cuda.error", "no_device", line="PyTorch counts no GPU")]
        reason = next((str(row["error"])[:160] for row in rows if row.get("error")), "no GPU did a step")
        raise Unreadable(reason)
    facts = _build_step_facts(done_by_gpu)
    device_count = next((row["devices"] for row in rows if isinstance(row.get("devices"), int)), len(done_by_gpu))
    if device_count > len(done_by_gpu):
        facts.append(
            build_unobserved_fact(CHECK, Status.UNREADABLE, f"{device_count} GPUs were counted and {len(done_by_gpu)} ended their steps")
        )
    return facts


def _has_gpu_index(row: Mapping[str, Any]) -> bool:
    return isinstance(row.get("gpu"), int) and not isinstance(row["gpu"], bool) and 0 <= row["gpu"] < 1000


def _get_number(row: Mapping[str, Any], name: str) -> float:
    value = row.get(name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e9 else 0.0


def _build_step_facts(done: Mapping[str, Mapping[str, Any]]) -> list[Fact]:
    middle = median(_get_number(row, "ms") for row in done.values())
    losses = Counter(str(row["loss"]) for row in done.values())
    usual, how_many = losses.most_common(1)[0]
    facts = []
    for device, row in done.items():
        line, ms = json.dumps(row, sort_keys=True)[:300], _get_number(row, "ms")
        facts.append(Fact(CHECK, "step.ms", ms, device, unit="ms", line=line))
        facts.append(Fact(CHECK, "step.share", round(ms / middle, 3), device, line=line))
        if 2 * how_many > len(done) and len(done) > 2:
            facts.append(Fact(CHECK, "step.diverged", str(row["loss"]) != usual, device, line=line))
    data, busy = (sum(_get_number(row, name) for row in done.values()) for name in ("data_ms", "ms"))
    return [
        *facts,
        Fact(
            CHECK, "step.data_share", round(data / (data + busy), 3), line=f"{data / len(done):.2f} ms data, {busy / len(done):.2f} ms step"
        ),
    ]


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
