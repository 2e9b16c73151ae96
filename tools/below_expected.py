"""GPUs and links well below expected performance, as facts `expect.*`.

Nothing is reported for an unknown GPU model, a link that is not modelled, or fewer than three peers with the product.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from statistics import median

from kb.catalogues.accelerators import Accelerator, find_accelerator
from kb.performance.comparison import MIN_PEERS
from kb.performance.time_model import compute_expected_time
from kb.performance.workloads import AllReduce, BadWorkload, Copy, Gemm
from tools.fact import Fact, Status

MIN_EXPECTED_RATIO = 0.75  # of the expected value; healthy machines stay above it
LARGE_MESSAGE_BYTES = 8 << 30  # large enough that latency does not count
MATRIX_EDGE = 8192  # edge of a square matrix
_COPY_KEYS = {"bw.h2d": "expect.h2d", "bw.d2h": "expect.d2h"}
_USED_KEYS = frozenset({"gpu.product", "gpu.clock.sm", "gpu.throttle.idle", "gemm.tflops", "nccl.busbw_max", "nccl.ranks", *_COPY_KEYS})
FactsByKey = dict[str, list[Fact]]
DevicePlace = tuple[str, str]


def find_below_expected(facts: Iterable[Fact]) -> list[Fact]:
    """Return a fact per GPU or host below expectation, with its source's line, time and digest; value: seen / expected."""
    facts_by_key: FactsByKey = defaultdict(list)
    for fact in facts:
        if fact.key in _USED_KEYS and fact.status is Status.OK and fact.host and not fact.stale:
            facts_by_key[fact.key].append(fact)
    models: dict[DevicePlace, Accelerator] = {}
    for fact in facts_by_key["gpu.product"]:
        if accelerator := find_accelerator(str(fact.value)[:100]):
            models[_get_place(fact)] = accelerator
    if not models:
        return []
    return [
        *_find_low_clocks(facts_by_key, models),
        *_find_slow_products(facts_by_key, models),
        *_find_slow_copies(facts_by_key, models),
        *_find_slow_all_reduces(facts_by_key, models),
    ]


def _find_low_clocks(facts_by_key: FactsByKey, models: dict[DevicePlace, Accelerator]) -> list[Fact]:
    """Compare only GPUs that are known to be busy: an idle GPU clocks down."""
    busy = {_get_place(fact) for fact in facts_by_key["gpu.throttle.idle"] if fact.value is False}
    facts = []
    for fact in facts_by_key["gpu.clock.sm"]:
        gpu, mhz = models.get(_get_place(fact)), _get_number(fact)
        if gpu is not None and mhz and _get_place(fact) in busy and gpu.get_clock_share(mhz) < MIN_EXPECTED_RATIO:
            expected = compute_expected_time(Gemm(MATRIX_EDGE, MATRIX_EDGE, MATRIX_EDGE, gpu.flops[0][0]), gpu).rate
            attrs = {"clock": round(mhz), "usual": gpu.max_mhz}
            facts.append(_build_expected_fact(fact, "expect.compute", expected * gpu.get_clock_share(mhz), expected, attrs))
    return facts


def _find_slow_products(facts_by_key: FactsByKey, models: dict[DevicePlace, Accelerator]) -> list[Fact]:
    """Compare with the same model's median only: the absolute speed depends on how the tool was built."""
    facts_by_model: dict[str, list[Fact]] = defaultdict(list)
    for fact in facts_by_key["gemm.tflops"]:
        if _get_place(fact) in models and _get_number(fact) > 0:
            facts_by_model[models[_get_place(fact)].name].append(fact)
    clocks = {_get_place(fact): round(_get_number(fact)) for fact in facts_by_key["gpu.clock.sm"]}
    slow = []
    for peer_facts in facts_by_model.values():
        if len(peer_facts) <= MIN_PEERS:
            continue
        expected = median(map(_get_number, peer_facts))
        for fact in peer_facts:
            if _get_number(fact) < MIN_EXPECTED_RATIO * expected:
                place = _get_place(fact)
                attrs = {"clock": clocks.get(place), "usual": models[place].max_mhz}
                slow.append(_build_expected_fact(fact, "expect.gemm", _get_number(fact), expected, attrs))
    return slow


def _find_slow_copies(facts_by_key: FactsByKey, models: dict[DevicePlace, Accelerator]) -> list[Fact]:
    facts = []
    for key, name in _COPY_KEYS.items():
        for fact in facts_by_key[key]:
            gpu = models.get(_get_place(fact))
            if gpu is None or not gpu.host_link.startswith("PCIe"):
                continue
            expected = compute_expected_time(Copy(LARGE_MESSAGE_BYTES), gpu).rate
            if 0 < _get_number(fact) < MIN_EXPECTED_RATIO * expected:
                facts.append(_build_expected_fact(fact, name, _get_number(fact), expected, {"link": gpu.host_link}))
    return facts


def _find_slow_all_reduces(facts_by_key: FactsByKey, models: dict[DevicePlace, Accelerator]) -> list[Fact]:
    """Compare only all-reduces within one host (NVLink)."""
    ranks = {fact.host: round(_get_number(fact)) for fact in facts_by_key["nccl.ranks"] if fact.check == "nccl1"}
    gpu_by_host = {host: gpu for (host, _), gpu in models.items()}
    facts = []
    for fact in facts_by_key["nccl.busbw_max"]:
        gpu = gpu_by_host.get(fact.host)
        if fact.check != "nccl1" or gpu is None or not gpu.nvlink or ranks.get(fact.host, 0) < 2:
            continue
        expected = _get_expected_busbw(gpu, ranks[fact.host])
        if expected and 0 < _get_number(fact) < MIN_EXPECTED_RATIO * expected:
            facts.append(_build_expected_fact(fact, "expect.busbw", _get_number(fact), expected, {"ranks": ranks[fact.host]}))
    return facts


def _get_expected_busbw(gpu: Accelerator, ranks: int) -> float:
    try:
        return compute_expected_time(AllReduce(LARGE_MESSAGE_BYTES, ranks), gpu).rate if ranks <= gpu.domain else 0.0
    except BadWorkload:
        return 0.0


def _build_expected_fact(fact: Fact, key: str, measured: float, expected: float, more: Mapping[str, object]) -> Fact:
    attrs = {
        "seen": _round_to_three_figures(measured),
        "expected": _round_to_three_figures(expected),
        **{name: value for name, value in more.items() if value is not None},
    }
    return replace(fact, key=key, value=round(measured / expected, 3), unit="", attrs=attrs)


def _round_to_three_figures(value: float) -> float | int:
    return round(value) if value >= 100 else float(f"{value:.3g}")


def _get_place(fact: Fact) -> DevicePlace:
    return fact.host, fact.device or ""


def _get_number(fact: Fact) -> float:
    is_number = isinstance(fact.value, int | float) and not isinstance(fact.value, bool)
    return float(fact.value) if is_number else 0.0  # type: ignore[arg-type]  # a number, as the line above says
