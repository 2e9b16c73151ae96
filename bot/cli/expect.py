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
# fields of a workload whose option is named differently
OPTION_NAMES = {"tensor": "tp", "pipeline": "pp", "context": "cp", "sequence": "seq", "sharding": "shard"}


def parse_amount(option: str, read: Callable[[str], T], given: str) -> T:
    """Parse an amount. Raises Refusal naming the option."""
    try:
        return read(given)
    except BadQuantity as error:
        raise Refusal(f"{option}: {error}", USAGE_EXIT_CODE) from error


def parse_choice(option: str, given: str, among: Sequence[str]) -> Any:
    if given not in among:
        raise Refusal(f"{option}: {given!r} is none of {', '.join(among)}", USAGE_EXIT_CODE)
    return given


def build_shape(make: Callable[[], T]) -> T:
    """Build a workload. Raises Refusal naming the option."""
    try:
        return make()
    except BadWorkload as error:
        raise Refusal(
            f"--{OPTION_NAMES.get(error.field, error.field)} ({error.field}): {error.why}" if error.field in OPTION_NAMES else f"--{error}",
            USAGE_EXIT_CODE,
        ) from error


def find_gpu(settings: Settings, name: str) -> Accelerator:
    """Return a GPU by name or SKU profile."""
    accelerators = load_accelerators()
    if name in accelerators:
        return accelerators[name]
    profiles = load_site_skus(settings.kb_dir)
    if name in profiles and (own := profiles[name].accelerator):
        return own
    matching_gpu = next(
        (gpu for product in (profiles[name].products if name in profiles else ()) if (gpu := find_accelerator(product))), None
    )
    if matching_gpu is None:
        raise Refusal(f"--sku: there is no {name!r}; known: {', '.join(accelerators)}", USAGE_EXIT_CODE)
    return matching_gpu


def compute_seen_seconds(shape: Workload, seen: str, rate: float | None) -> float | None:
    """Return the observed seconds, given as time or as GB/s."""
    if seen and rate is not None:
        raise Refusal("--seen and --seen-gbs: one of them", USAGE_EXIT_CODE)
    if rate is None:
        return parse_amount("--seen", parse_seconds, seen) if seen else None
    if rate <= 0:
        raise Refusal(f"--seen-gbs: {rate:g} is no bandwidth", USAGE_EXIT_CODE)
    return _count_moved_bytes(shape) / (rate * 1e9)


def _count_moved_bytes(shape: Workload) -> float:
    if isinstance(shape, AllReduce):
        return shape.size * 2 * (shape.gpus - 1) / shape.gpus
    return shape.size if isinstance(shape, Copy) else 0.0


def print_expected(gpu: Accelerator, shape: Workload, seen: float | None, peers: Iterable[str], mhz: float | None, *, as_json: bool) -> int:
    """Print the expectation."""
    usual = build_shape(lambda: compute_expected_time(shape, gpu))
    at_clock = compute_expected_time(shape, gpu, mhz) if mhz is not None else None
    times = [parse_amount("--peer", parse_seconds, peer) for peer in peers]
    if times and len(times) < MIN_PEERS:
        raise Refusal(f"--peer: {len(times)} measured ones tell nothing; give at least {MIN_PEERS}", USAGE_EXIT_CODE)
    want = adjust_to_peers(usual, times)
    comparison = None if seen is None else compare_time(want, seen, at_clock, mhz)
    if as_json:
        print_text(json.dumps(build_expected_document(gpu, want, at_clock, mhz, comparison)))
    else:
        open_table_console().print(render_expected(gpu, want, at_clock, mhz, comparison))
    return 0


def build_expected_document(
    gpu: Accelerator, want: ExpectedTime, at_clock: ExpectedTime | None, mhz: float | None, beside: TimeComparison | None
) -> dict[str, Any]:
    """Return JSON for scripts; times in seconds."""
    document: dict[str, Any] = {
        "schema": 1,
        "gpu": gpu.name,
        "what": want.says,
        "expected": {
            "seconds": _round_significant(want.seconds),
            "least": _round_significant(want.min_seconds),
            "most": _round_significant(want.max_seconds),
        },
        "rate": {
            "value": _round_significant(want.rate),
            "least": _round_significant(want.work / want.max_seconds),
            "most": _round_significant(want.work / want.min_seconds),
            "unit": want.unit,
        },
        "parts": [
            {
                "resource": part.resource,
                "seconds": _round_significant(part.seconds),
                "least": _round_significant(part.min_seconds),
                "most": _round_significant(part.max_seconds),
            }
            for part in want.parts
        ],
        "pipeline": _round_significant(want.stretch),
        "bound": want.bound,
        "peers": want.peers,
    }
    if at_clock is not None:
        document["at_clock"] = {"mhz": mhz, "usual_mhz": gpu.max_mhz, "seconds": _round_significant(at_clock.seconds)}
    if beside is not None:
        document["seen"] = {
            "seconds": _round_significant(beside.observed_seconds),
            "verdict": beside.verdict,
            "ratio": _round_significant(beside.ratio),
            "suspect": beside.suspect,
            "because": beside.because,
            "speeds": {resource: _round_significant(speed) for resource, speed in beside.speeds},
        }
    return document


def render_expected(
    gpu: Accelerator, want: ExpectedTime, at_clock: ExpectedTime | None, mhz: float | None, beside: TimeComparison | None
) -> RenderableType:
    basis = f"by {want.peers} measured peers" if want.peers else "by what such machines reach of their peaks"
    span = f"{format_duration(want.min_seconds)} to {format_duration(want.max_seconds)}"
    rates = f"{want.rate:,.4g} {want.unit} ({want.work / want.max_seconds:,.4g} to {want.work / want.min_seconds:,.4g})"
    lines = [
        f"{want.says}, {gpu.title}",
        f"expected: {format_duration(want.seconds)} ({span}), {rates}, {basis}; bound by {want.bound}",
    ]
    if want.stretch > 1.0:
        lines.append(f"the pipeline fills and drains: x {want.stretch:.3g}")
    if at_clock is not None:
        lines.append(f"at an SM clock of {mhz:,.0f} MHz of {gpu.max_mhz:,}: {format_duration(at_clock.seconds)}")
    if beside is not None:
        lines.append(f"seen: {beside.format_sentence()}")
    rows = []
    for part in want.parts:
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
