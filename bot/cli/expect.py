"""`rackmedic expect`: expected against observed durations. Reads no host."""

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from rich.console import Group, RenderableType
from rich.text import Text

from bot.app.site_files import load_site_skus
from bot.cli.command_runtime import print_text
from bot.cli.safe_console import build_text_table, open_table_console
from bot.refusal import Refusal
from bot.settings import Settings
from kb.catalogues.accelerators import Accelerator, find_accelerator, load_accelerators
from kb.performance.comparison import MIN_PEERS, TimeComparison, adjust_to_peers, compare_time
from kb.performance.time_model import ExpectedTime, compute_expected_time
from kb.performance.workloads import AllReduce, BadQuantity, BadWorkload, Copy, Workload, format_duration, parse_seconds

T = TypeVar("T")
USAGE_EXIT_CODE = 2
# Fields of a workload whose command-line option has another name.
OPTION_NAMES = {"tensor": "tp", "pipeline": "pp", "context": "cp", "sequence": "seq", "sharding": "shard"}


def parse_amount(option: str, parse: Callable[[str], T], text: str) -> T:
    """Parse an amount. Raises Refusal that names the option."""
    try:
        return parse(text)
    except BadQuantity as error:
        raise Refusal(f"{option}: {error}", USAGE_EXIT_CODE) from error


def parse_choice(option: str, text: str, choices: Sequence[str]) -> Any:
    if text not in choices:
        raise Refusal(f"{option}: {text!r} is none of {', '.join(choices)}", USAGE_EXIT_CODE)
    return text


def build_workload(build: Callable[[], T]) -> T:
    """Call `build`. Raises Refusal that names the option of a value that cannot be."""
    try:
        return build()
    except BadWorkload as error:
        option = OPTION_NAMES.get(error.field)
        raise Refusal(f"--{option} ({error.field}): {error.why}" if option else f"--{error}", USAGE_EXIT_CODE) from error


def find_gpu(settings: Settings, name: str) -> Accelerator:
    """Return a GPU by name or SKU profile."""
    accelerators = load_accelerators()
    if name in accelerators:
        return accelerators[name]
    if profile := load_site_skus(settings.kb_dir).get(name):
        if profile.accelerator:
            return profile.accelerator
        for product in profile.products:
            if gpu := find_accelerator(product):
                return gpu
    raise Refusal(f"--sku: there is no {name!r}; known: {', '.join(accelerators)}", USAGE_EXIT_CODE)


def compute_seen_seconds(workload: Workload, seen: str, rate: float | None) -> float | None:
    """Return the observed seconds, which the user gives as a time or as GB/s."""
    if seen and rate is not None:
        raise Refusal("--seen and --seen-gbs: one of them", USAGE_EXIT_CODE)
    if rate is None:
        return parse_amount("--seen", parse_seconds, seen) if seen else None
    if rate <= 0:
        raise Refusal(f"--seen-gbs: {rate:g} is no bandwidth", USAGE_EXIT_CODE)
    return _count_moved_bytes(workload) / (rate * 1e9)


def _count_moved_bytes(workload: Workload) -> float:
    if isinstance(workload, AllReduce):
        return workload.size * 2 * (workload.gpus - 1) / workload.gpus
    return workload.size if isinstance(workload, Copy) else 0.0


def print_expected(
    gpu: Accelerator, workload: Workload, seen: float | None, peers: Iterable[str], mhz: float | None, *, as_json: bool
) -> int:
    """Print how long the workload should take, and compare it with the time that was seen."""
    usual = build_workload(lambda: compute_expected_time(workload, gpu))
    at_clock = compute_expected_time(workload, gpu, mhz) if mhz is not None else None
    times = [parse_amount("--peer", parse_seconds, peer) for peer in peers]
    if times and len(times) < MIN_PEERS:
        raise Refusal(f"--peer: {len(times)} measured ones tell nothing; give at least {MIN_PEERS}", USAGE_EXIT_CODE)
    expected = adjust_to_peers(usual, times)
    comparison = None if seen is None else compare_time(expected, seen, at_clock, mhz)
    if as_json:
        print_text(json.dumps(build_expected_document(gpu, expected, at_clock, mhz, comparison)))
    else:
        open_table_console().print(render_expected(gpu, expected, at_clock, mhz, comparison))
    return 0


def build_expected_document(
    gpu: Accelerator, expected: ExpectedTime, at_clock: ExpectedTime | None, mhz: float | None, comparison: TimeComparison | None
) -> dict[str, Any]:
    """Return JSON for scripts; times in seconds."""
    document: dict[str, Any] = {
        "schema": 1,
        "gpu": gpu.name,
        "what": expected.says,
        "expected": {
            "seconds": _round_significant(expected.seconds),
            "least": _round_significant(expected.min_seconds),
            "most": _round_significant(expected.max_seconds),
        },
        "rate": {
            "value": _round_significant(expected.rate),
            "least": _round_significant(expected.work / expected.max_seconds),
            "most": _round_significant(expected.work / expected.min_seconds),
            "unit": expected.unit,
        },
        "parts": [
            {
                "resource": part.resource,
                "seconds": _round_significant(part.seconds),
                "least": _round_significant(part.min_seconds),
                "most": _round_significant(part.max_seconds),
            }
            for part in expected.parts
        ],
        "pipeline": _round_significant(expected.stretch),
        "bound": expected.bound,
        "peers": expected.peers,
    }
    if at_clock is not None:
        document["at_clock"] = {"mhz": mhz, "usual_mhz": gpu.max_mhz, "seconds": _round_significant(at_clock.seconds)}
    if comparison is not None:
        document["seen"] = {
            "seconds": _round_significant(comparison.observed_seconds),
            "verdict": comparison.verdict,
            "ratio": _round_significant(comparison.ratio),
            "suspect": comparison.suspect,
            "because": comparison.because,
            "speeds": {resource: _round_significant(speed) for resource, speed in comparison.speeds},
        }
    return document


def render_expected(
    gpu: Accelerator, expected: ExpectedTime, at_clock: ExpectedTime | None, mhz: float | None, comparison: TimeComparison | None
) -> RenderableType:
    basis = f"by {expected.peers} measured peers" if expected.peers else "by what such machines reach of their peaks"
    span = f"{format_duration(expected.min_seconds)} to {format_duration(expected.max_seconds)}"
    rates = (
        f"{expected.rate:,.4g} {expected.unit} ({expected.work / expected.max_seconds:,.4g} to {expected.work / expected.min_seconds:,.4g})"
    )
    lines = [
        f"{expected.says}, {gpu.title}",
        f"expected: {format_duration(expected.seconds)} ({span}), {rates}, {basis}; bound by {expected.bound}",
    ]
    if expected.stretch > 1.0:
        lines.append(f"the pipeline fills and drains: x {expected.stretch:.3g}")
    if at_clock is not None:
        lines.append(f"at an SM clock of {mhz:,.0f} MHz of {gpu.max_mhz:,}: {format_duration(at_clock.seconds)}")
    if comparison is not None:
        lines.append(f"seen: {comparison.format_sentence()}")
    rows = []
    for part in expected.parts:
        ends = (format_duration(part.min_seconds), format_duration(part.max_seconds))
        rows.append((part.resource, format_duration(part.seconds), *ends, "beside the others" if part.is_parallel else "in turn"))
    table = build_text_table(("resource", "alone", "from", "to", "works"), rows)
    return Group(*map(Text, lines), table, Text(f"peaks: {gpu.source}", style="dim"))


def print_gpus(*, as_json: bool) -> int:
    if as_json:
        print_text(json.dumps({"schema": 1, "items": [_build_gpu_row(gpu) for gpu in load_accelerators().values()]}))
        return 0
    rows = []
    for gpu in load_accelerators().values():
        peaks = [f"{peak / 1e12:,.4g}" if peak else "" for peak in (gpu.get_peak_flops("bf16"), gpu.get_peak_flops("fp8"))]
        rates = [f"{rate / 1e9:,.4g}" if rate else "" for rate in (gpu.memory, gpu.nvlink, gpu.host, gpu.network)]
        rows.append((gpu.name, *peaks, *rates, str(gpu.max_mhz), gpu.title))
    head = ("sku", "TFLOP/s\nbf16", "\nfp8", "memory\nGB/s", "NVLink", "host", "network", "MHz", "what")
    open_table_console().print(build_text_table(head, rows))
    return 0


def _build_gpu_row(gpu: Accelerator) -> dict[str, Any]:
    return {
        "id": gpu.name,
        "title": gpu.title,
        "flops": dict(gpu.flops),
        "memory": gpu.memory,
        "nvlink": gpu.nvlink,
        "host": gpu.host,
        "network": gpu.network,
        "rated_mhz": gpu.rated_mhz,
        "max_mhz": gpu.max_mhz,
        "sources": [gpu.source, gpu.clock_source],
    }


def _round_significant(value: float) -> float:
    return float(f"{value:.6g}")
