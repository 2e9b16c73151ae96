"""Load tests on one node: CUDA and training probes, nvbandwidth, gpu_burn, dcgmi."""

import json
from collections.abc import Sequence
from typing import Any

from deploy.sandbox.cluster.answer import HANGING, ShellAnswer, text_answer
from deploy.sandbox.cluster.machines import speeds
from deploy.sandbox.cluster.machines.profiles import get_driver_branch
from deploy.sandbox.cluster.machines.state import GpuState, NodeState
from deploy.sandbox.cluster.render.query import Query
from deploy.sandbox.cluster.seeded_random import make_random

COMPUTE_MODE_NUMBERS = {"Default": 0, "Prohibited": 2, "Exclusive_Process": 3}  # compute modes by the driver API's number
GPU_BURN_FOLDER = "/opt/gpu-burn"
H2D, D2H, PEER = "host_to_device_memcpy_ce", "device_to_host_memcpy_ce", "device_to_device_memcpy_read_ce"
_BANDWIDTH_TITLES = {
    H2D: "memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)",
    D2H: "memcpy CE CPU(row) <- GPU(column) bandwidth (GB/s)",
    PEER: "memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)",
}


def _get_visible_gpus(node: NodeState) -> list[GpuState]:
    return [gpu for gpu in node.gpus if gpu.answers]


def _draw_noise(query: Query, *purpose: object) -> float:
    return 1 + make_random(query.seed, query.node.name, *purpose).uniform(-0.006, 0.006)


def render_cuda_probe(query: Query) -> ShellAnswer:
    """Return the CUDA probe's lines, or the one error before them."""
    node = query.node
    if any(gpu.hang for gpu in node.gpus):
        return HANGING
    cuda_error = speeds.find_cuda_error(node, 0)
    affects_all_gpus = not any(gpu.broken or gpu.mig for gpu in node.gpus)
    if cuda_error and affects_all_gpus:
        return text_answer(_format_probe_line(probe="cuda", step="cuInit", code=speeds.CODES[cuda_error]))
    lines = [_format_probe_line(probe="cuda", devices=len(_get_visible_gpus(node)))]
    for index, gpu in enumerate(_get_visible_gpus(node)):
        name = f"{node.profile.product} MIG 1g.10gb" if gpu.mig else node.profile.product
        fields: dict[str, Any] = {"probe": "cuda", "gpu": index, "bdf": gpu.bdf.upper(), "name": name, "ok": not gpu.broken,
                               "mode": COMPUTE_MODE_NUMBERS[gpu.compute_mode]}  # fmt: skip
        if gpu.broken:
            fields |= {"step": "cuCtxSynchronize", "code": speeds.CODES.get(gpu.broken, 999)}
        lines.append(_format_probe_line(**fields))
    return text_answer("".join(lines))


def _format_probe_line(**fields: object) -> str:
    return json.dumps(fields, sort_keys=True) + "\n"


def render_step_probe(query: Query) -> ShellAnswer:
    """Print the training probe's lines. A slow CPU delays the data; a GPU that corrupts results changes the loss."""
    node = query.node
    if error := speeds.find_cuda_error(node, 0):
        if speeds.CODES[error] in (100, 802, 803):  # CUDA does not initialise, so PyTorch counts no device
            return text_answer(_format_probe_line(probe="step", devices=0), 0)
        return text_answer(_format_probe_line(probe="step", gpu=0, error=f"CUDA error: {error}"))
    lines = [_format_probe_line(probe="step", devices=len(_get_visible_gpus(node)))]
    data_ms = 14.8 if node.environment.governor == "powersave" else 1.9
    for index, gpu in enumerate(_get_visible_gpus(node)):
        ms = 2500 / speeds.get_tflops(node, gpu) * _draw_noise(query, "step", gpu.index)
        loss = "1.0078125" if gpu.corrupts else "0.98828125"
        lines.append(
            _format_probe_line(
                probe="step", gpu=index, ms=round(ms, 3), data_ms=round(data_ms * _draw_noise(query, "data", gpu.index), 3), loss=loss
            )
        )
    return text_answer("".join(lines))


def render_host_copies(query: Query) -> ShellAnswer:
    rates = [speeds.get_host_copy_rate(gpu) for gpu in _get_visible_gpus(query.node)]
    return _render_bandwidth(query, {H2D: [list(rates)], D2H: [[rate * 0.985 for rate in rates]]})


def render_peer_copies(query: Query) -> ShellAnswer:
    gpus = _get_visible_gpus(query.node)
    matrix = [[speeds.get_peer_copy_rate(query.node, source, target) for target in gpus] for source in gpus]
    return _render_bandwidth(query, {PEER: matrix})


def _render_bandwidth(query: Query, matrices: dict[str, list[list[float | None]]]) -> ShellAnswer:
    root: dict[str, Any] = {"CUDA Runtime Version": 12040, "Driver Version": query.node.driver, "git_version": "v0.8", "version": "v0.8"}
    if error := speeds.find_cuda_error(query.node, 0):
        root["error"] = f"ERROR: [CUDA {speeds.CODES.get(error, 999)}] {error} in expression cuInit(0) in nvbandwidth.cpp:main() : 191"
        return text_answer(json.dumps({"nvbandwidth": root}, indent=3) + "\n\n", 1)
    cases = []
    for name, matrix in matrices.items():
        cells = [
            ["N/A" if value is None else f"{value * _draw_noise(query, name, i, j):.2f}" for j, value in enumerate(row)]
            for i, row in enumerate(matrix)
        ]
        total = sum(float(cell) for row in cells for cell in row if cell != "N/A")
        cases.append(
            {
                "bandwidth_description": _BANDWIDTH_TITLES[name],
                "bandwidth_matrix": cells,
                "name": name,
                "status": "Passed",
                "sum": round(total, 2),
            }
        )
    return text_answer(json.dumps({"nvbandwidth": root | {"testcases": cases}}, indent=3) + "\n\n")


def render_gpu_burn(query: Query) -> ShellAnswer:
    """Print gpu_burn's progress, then its verdicts. Only a GPU that corrupts results counts errors."""
    node = query.node
    folder = query.slots.get("gpu_burn", GPU_BURN_FOLDER)
    if folder != GPU_BURN_FOLDER:
        return text_answer("", 127, f"timeout: failed to run command '{folder}/gpu_burn': No such file or directory\n")
    gpus = _get_visible_gpus(node)
    head = "".join(f"GPU {gpu.index}: {node.profile.product} (UUID: {gpu.uuid})\n" for gpu in gpus)
    if error := speeds.find_cuda_error(node, 0):
        return text_answer(head, 5, f'Couldn\'t init a GPU test: Error in "init": {error}\n\n\nNo clients are alive!  Aborting\n')
    lines: list[str] = []
    iterations = [0] * len(gpus)
    for part in (10.0, 30.0, 60.0, 100.0):
        rates = [speeds.get_tflops(node, gpu) * 1000 * _draw_noise(query, "burn", gpu.index, part) for gpu in gpus]
        iterations = [count + int(rate / 40) for count, rate in zip(iterations, rates, strict=True)]
        progress = " - ".join(f"{count} ({rate:.0f} Gflop/s)" for count, rate in zip(iterations, rates, strict=True))
        errors = " - ".join(f"{int(part) // 10} (WARNING!)" if gpu.corrupts else "0" for gpu in gpus)
        temps = " - ".join(f"{gpu.temp if gpu.reasons.hw_thermal else 58 + gpu.index % 4} C" for gpu in gpus)
        lines.append(f"\r{part:.1f}%  proc'd: {progress}   errors: {errors}   temps: {temps} ")
    verdicts = "".join(f"\tGPU {i}: {'FAULTY' if gpu.corrupts else 'OK'}\n" for i, gpu in enumerate(gpus))
    tail = f"\nKilling processes with SIGTERM (soft kill)\ndone\n\nTested {len(gpus)} GPUs:\n{verdicts}"
    return text_answer(head + "".join(lines) + tail)


def render_short_diagnosis(query: Query) -> ShellAnswer:
    return _render_diagnosis(query, 1)


def render_long_diagnosis(query: Query) -> ShellAnswer:
    return _render_diagnosis(query, 2)


def _render_diagnosis(query: Query, level: int) -> ShellAnswer:
    """`dcgmi diag -j`: DCGM 4 with driver branches from 560 on, DCGM 3 with older ones."""
    node = query.node
    if node.services["nvidia-dcgm"].active != "active":
        return text_answer(
            "",
            255,
            "Error: unable to establish a connection to the specified host: localhost\nError: Unable to connect to host engine. Host engine is not running.\n",
        )
    if not node.driver or node.driver != node.driver_user:
        return text_answer(
            "", 255, "Error: Unable to complete diagnostic for group 2147483647. Return: (-29): NVML doesn't exist on this system.\n"
        )
    tests = _build_software_tests(node) + (_build_hardware_tests(node) if level > 1 else [])
    failed = any(message for _, results in tests for message in results.values())
    has_dcgm_4 = get_driver_branch(node.driver) >= 560
    report = _render_dcgm_4(node, tests) if has_dcgm_4 else _render_dcgm_3(node, tests)
    return text_answer(json.dumps(report, indent="\t") + "\n", 226 if failed else 0)


DiagnosisTests = list[tuple[str, dict[int, str]]]


def _build_software_tests(node: NodeState) -> DiagnosisTests:
    """Return each test and its message per GPU, "" if passed."""
    gpus = _get_visible_gpus(node)
    passed = dict.fromkeys((gpu.index for gpu in gpus), "")
    return [
        *((name, passed) for name in ("Denylist", "NVML Library", "CUDA Main Library", "Permissions and OS Blocks")),
        ("Page Retirement/Row Remap", {gpu.index: _describe_remap_failure(gpu) for gpu in gpus}),
        ("Inforom", {gpu.index: "" if gpu.inforom_ok else f"A corrupt InfoROM has been detected in GPU {gpu.index}." for gpu in gpus}),
    ]


def _describe_remap_failure(gpu: GpuState) -> str:
    if gpu.remap.failure:
        return f"GPU {gpu.index} had uncorrectable memory errors and row remapping failed."
    if gpu.sram_threshold_exceeded:
        return f"GPU {gpu.index}'s SRAM uncorrectable error count has exceeded its threshold."
    return f"GPU {gpu.index} has uncorrectable memory errors and row remappings are pending." if gpu.remap.pending else ""


def _build_hardware_tests(node: NodeState) -> DiagnosisTests:
    gpus = _get_visible_gpus(node)
    cuda_error = speeds.find_cuda_error(node, 0) if not any(gpu.broken for gpu in gpus) else ""
    start_failure = f"Error using CUDA API cuInit. Unable to initialize CUDA library: '{cuda_error}'."
    pcie_messages: dict[int, str] = {}
    memory_messages: dict[int, str] = {}
    for gpu in gpus:
        narrow = f"GPU {gpu.index} PCIe link width {gpu.pcie_width} is below the minimum of 16."
        pcie_messages[gpu.index] = narrow if gpu.pcie_width < 16 else ""
        memory_messages[gpu.index] = f"GPU {gpu.index} {start_failure}" if cuda_error else _describe_memory_failure(gpu)
    return [("PCIe", pcie_messages), ("GPU Memory", memory_messages)]


def _describe_memory_failure(gpu: GpuState) -> str:
    if gpu.broken:
        return f"GPU {gpu.index} Error using CUDA API cuCtxCreate: {gpu.broken}."
    return f"GPU {gpu.index} failed a memory test: wrong results were read back." if gpu.bad_sm else ""


def _render_dcgm_3(node: NodeState, tests: DiagnosisTests) -> dict[str, Any]:
    tests_by_category = {"Deployment": tests[:6], "Integration": tests[6:7], "Hardware": tests[7:]}
    categories = []
    for category, category_tests in tests_by_category.items():
        entries = [
            {"name": name, "results": [_build_result_3(gpu, message) for gpu, message in messages.items()]}
            for name, messages in category_tests
        ]
        if entries:
            categories.append({"category": category, "tests": entries})
    return {"DCGM GPU Diagnostic": {"test_categories": categories, "version": "3.3.5", "Driver Version Detected": node.driver}}


def _build_result_3(gpu: int, message: str) -> dict[str, Any]:
    return {"gpu_ids": str(gpu), "status": "Fail", "warnings": [message]} if message else {"gpu_ids": str(gpu), "status": "Pass"}


def _render_dcgm_4(node: NodeState, tests: DiagnosisTests) -> dict[str, Any]:
    def build_test(name: str, parts: Sequence[tuple[str, dict[int, str]]]) -> dict[str, Any]:
        messages_by_gpu = {gpu: [results[gpu] for _, results in parts if results.get(gpu)] for gpu in parts[0][1]}
        return {
            "name": name,
            "results": [_build_result_4(gpu, messages) for gpu, messages in messages_by_gpu.items()],
            "test_summary": {"status": "Fail" if any(messages_by_gpu.values()) else "Pass"},
        }

    categories = [{"category": "Deployment", "tests": [build_test("software", tests[:6])]}]
    if tests[6:]:
        categories += [
            {"category": "Integration", "tests": [build_test("pcie", tests[6:7])]},
            {"category": "Hardware", "tests": [build_test("memory", tests[7:])]},
        ]
    return {
        "DCGM Diagnostic": {"metadata": {"DCGM Version": "4.2.3", "Driver Version Detected": node.driver}, "test_categories": categories}
    }


def _build_result_4(gpu: int, messages: list[str]) -> dict[str, Any]:
    result: dict[str, Any] = {"entity_group": "GPU", "entity_group_id": 1, "entity_id": gpu, "status": "Fail" if messages else "Pass"}
    if messages:
        result["warnings"] = [{"error_category": 2, "error_id": 0, "error_severity": 2, "warning": text} for text in messages]
    return result
