"""`rackmedic expect`: how long a job or a test should take, beside what was seen. Reads no host."""

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from bot.refusal import Refusal
from bot.run.site import site_skus
from bot.settings import Settings
from bot.terminal.edge import tell
from bot.terminal.paper import paper
from kb.catalogues.accelerators import Accelerator, accelerators, of_product
from kb.performance.compared import FEWEST_PEERS, Compared, by_peers, compared
from kb.performance.model import Expected, expected
from kb.performance.quantities import BadQuantity, read_seconds, time_in_words
from kb.performance.shapes import AllReduce, BadShape, Copy, Shape

T = TypeVar("T")
BAD_USAGE = 2
SHORT = {"tensor": "tp", "pipeline": "pp", "context": "cp", "sequence": "seq", "sharding": "shard"}
"""Parts of a shape that an option calls otherwise."""


def amount(option: str, read: Callable[[str], T], given: str) -> T:
    """An amount of an option; what is none is refused by the option's name."""
    try:
        return read(given)
    except BadQuantity as why:
        raise Refusal(f"{option}: {why}", BAD_USAGE) from why


def one_of(option: str, given: str, among: Sequence[str]) -> Any:
    """A word of a closed list."""
    if given not in among:
        raise Refusal(f"{option}: {given!r} is none of {', '.join(among)}", BAD_USAGE)
    return given


def shaped(make: Callable[[], T]) -> T:
    """A shape, or the sentence that says which option is wrong."""
    try:
        return make()
    except BadShape as why:
        raise Refusal(
            f"--{SHORT.get(why.field, why.field)} ({why.field}): {why.why}" if why.field in SHORT else f"--{why}", BAD_USAGE
        ) from why


def gpu_of(settings: Settings, name: str) -> Accelerator:
    """A GPU by its own name, or by that of a machine's profile, a site's own included."""
    known = accelerators()
    if name in known:
        return known[name]
    profiles = site_skus(settings.kb_dir)
    if name in profiles and (own := profiles[name].accelerator):
        return own
    found = next((gpu for product in (profiles[name].products if name in profiles else ()) if (gpu := of_product(product))), None)
    if found is None:
        raise Refusal(f"--sku: there is no {name!r}; known: {', '.join(known)}", BAD_USAGE)
    return found


def seconds_seen(shape: Shape, seen: str, rate: float | None) -> float | None:
    """What was seen as a time: said as one, or as the bandwidth that tests print."""
    if seen and rate is not None:
        raise Refusal("--seen and --seen-gbs: one of them", BAD_USAGE)
    if rate is None:
        return amount("--seen", read_seconds, seen) if seen else None
    if rate <= 0:
        raise Refusal(f"--seen-gbs: {rate:g} is no bandwidth", BAD_USAGE)
    moved = (
        shape.size * 2 * (shape.gpus - 1) / shape.gpus if isinstance(shape, AllReduce) else shape.size if isinstance(shape, Copy) else 0.0
    )
    return moved / (rate * 1e9)


def show_expected(gpu: Accelerator, shape: Shape, seen: float | None, peers: Iterable[str], mhz: float | None, *, as_json: bool) -> int:
    """Print `{schema, …}` or a few lines. Raises Refusal where such GPUs cannot do it."""
    usual = shaped(lambda: expected(shape, gpu))
    at_clock = expected(shape, gpu, mhz) if mhz is not None else None
    times = [amount("--peer", read_seconds, one) for one in peers]
    if times and len(times) < FEWEST_PEERS:
        raise Refusal(f"--peer: {len(times)} measured ones tell nothing; give at least {FEWEST_PEERS}", BAD_USAGE)
    want = by_peers(usual, times)
    beside = None if seen is None else compared(want, seen, at_clock, mhz)
    if as_json:
        tell(json.dumps(expected_document(gpu, want, at_clock, mhz, beside)))
    else:
        paper().print(expected_text(gpu, want, at_clock, mhz, beside))
    return 0


def expected_document(
    gpu: Accelerator, want: Expected, at_clock: Expected | None, mhz: float | None, beside: Compared | None
) -> dict[str, Any]:
    """The shape that scripts rely on. Times are seconds."""
    document: dict[str, Any] = {
        "schema": 1,
        "gpu": gpu.name,
        "what": want.says,
        "expected": {"seconds": _round(want.seconds), "least": _round(want.least), "most": _round(want.most)},
        "rate": {
            "value": _round(want.rate),
            "least": _round(want.work / want.most),
            "most": _round(want.work / want.least),
            "unit": want.unit,
        },
        "parts": [
            {"resource": part.resource, "seconds": _round(part.seconds), "least": _round(part.least), "most": _round(part.most)}
            for part in want.parts
        ],
        "pipeline": _round(want.stretch),
        "bound": want.bound,
        "peers": want.peers,
    }
    if at_clock is not None:
        document["at_clock"] = {"mhz": mhz, "usual_mhz": gpu.max_mhz, "seconds": _round(at_clock.seconds)}
    if beside is not None:
        document["seen"] = {
            "seconds": _round(beside.seen),
            "verdict": beside.verdict,
            "ratio": _round(beside.ratio),
            "suspect": beside.suspect,
            "because": beside.because,
            "speeds": {resource: _round(speed) for resource, speed in beside.speeds},
        }
    return document


def expected_text(
    gpu: Accelerator, want: Expected, at_clock: Expected | None, mhz: float | None, beside: Compared | None
) -> RenderableType:
    """The same for people."""
    basis = f"by {want.peers} measured peers" if want.peers else "by what such machines reach of their peaks"
    span = f"{time_in_words(want.least)} to {time_in_words(want.most)}"
    rates = f"{want.rate:,.4g} {want.unit} ({want.work / want.most:,.4g} to {want.work / want.least:,.4g})"
    lines = [
        f"{want.says}, {gpu.title}",
        f"expected: {time_in_words(want.seconds)} ({span}), {rates}, {basis}; bound by {want.bound}",
    ]
    if want.stretch > 1.0:
        lines.append(f"the pipeline fills and drains: x {want.stretch:.3g}")
    if at_clock is not None:
        lines.append(f"at an SM clock of {mhz:,.0f} MHz of {gpu.max_mhz:,}: {time_in_words(at_clock.seconds)}")
    if beside is not None:
        lines.append(f"seen: {beside.in_words()}")
    table = Table("resource", "alone", "from", "to", "works", header_style="bold")
    for part in want.parts:
        ends = (time_in_words(part.least), time_in_words(part.most))
        table.add_row(part.resource, time_in_words(part.seconds), *ends, "beside the others" if part.beside else "in turn")
    return Group(*map(Text, lines), table, Text(f"peaks: {gpu.source}", style="dim"))


def show_gpus(*, as_json: bool) -> int:
    """The GPUs that are known, with what each is said to reach and by whom."""
    if as_json:
        tell(json.dumps({"schema": 1, "items": [_item(gpu) for gpu in accelerators().values()]}))
        return 0
    table = Table("sku", "TFLOP/s bf16", "fp8", "memory GB/s", "NVLink", "host", "network", "MHz", "what", header_style="bold")
    for gpu in accelerators().values():
        peaks = [f"{peak / 1e12:,.4g}" if (peak := gpu.peak(precision)) else "" for precision in ("bf16", "fp8")]
        rates = [f"{rate / 1e9:,.4g}" if rate else "" for rate in (gpu.memory, gpu.nvlink, gpu.host, gpu.network)]
        table.add_row(gpu.name, *peaks, *rates, str(gpu.max_mhz), Text(gpu.title))
    paper(whole=True).print(table)
    return 0


def _item(gpu: Accelerator) -> dict[str, Any]:
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


def _round(value: float) -> float:
    """As many digits as mean anything, of any size."""
    return float(f"{value:.6g}")
