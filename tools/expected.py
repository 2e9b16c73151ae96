"""What GPUs and their links reach beside what such ones should: facts `expect.*` of those that stay well below it, and of no others. Pure.

Of what a host is expected to reach nothing is made up: no fact where the model of the GPU is not known, where its link is none that is modelled, or
where fewer than three others ran the same product.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from statistics import median

from kb.catalogues.accelerators import Accelerator, of_product
from kb.performance.compared import FEWEST_PEERS
from kb.performance.model import expected
from kb.performance.shapes import AllReduce, BadShape, Copy, Gemm
from tools.fact import Fact, Status

BELOW = 0.75
"""Of what is expected: what stays below it is outside of every interval that healthy machines have."""
LARGE, SQUARE = 8 << 30, 8192
"""Bytes of a message that is large, and the edge of a matrix."""
_COPIES = {"bw.h2d": "expect.h2d", "bw.d2h": "expect.d2h"}
_READ = frozenset({"gpu.product", "gpu.clock.sm", "gpu.throttle.idle", "gemm.tflops", "nccl.busbw_max", "nccl.ranks", *_COPIES})
ByKey = dict[str, list[Fact]]
Place = tuple[str, str]


def below_expected(facts: Iterable[Fact]) -> list[Fact]:
    """Every GPU and host that stays below, each fact with the source's line, time and digest; its value is the part of the expected that was seen."""
    by_key: ByKey = defaultdict(list)
    for fact in facts:
        if fact.key in _READ and fact.status is Status.OK and fact.host and not fact.stale:
            by_key[fact.key].append(fact)
    models = {_place(fact): gpu for fact in by_key["gpu.product"] if (gpu := of_product(str(fact.value)[:100]))}
    if not models:
        return []
    return [*_clocks(by_key, models), *_products(by_key, models), *_copies(by_key, models), *_all_reduces(by_key, models)]


def _clocks(by_key: ByKey, models: dict[Place, Accelerator]) -> list[Fact]:
    """GPUs that compute at a low SM clock. An idle one rests, and one that does not say whether it is idle may."""
    busy = {_place(fact) for fact in by_key["gpu.throttle.idle"] if fact.value is False}
    found = []
    for fact in by_key["gpu.clock.sm"]:
        gpu, mhz = models.get(_place(fact)), _number(fact)
        if gpu is not None and mhz and _place(fact) in busy and gpu.share_at(mhz) < BELOW:
            want = expected(Gemm(SQUARE, SQUARE, SQUARE, gpu.flops[0][0]), gpu).rate
            found.append(_told(fact, "expect.compute", want * gpu.share_at(mhz), want, {"clock": round(mhz), "usual": gpu.max_mhz}))
    return found


def _products(by_key: ByKey, models: dict[Place, Accelerator]) -> list[Fact]:
    """GPUs that multiply slower than most of the same model. How fast is right depends on how the tool was built, so peers alone say it."""
    ran: dict[str, list[Fact]] = defaultdict(list)
    for fact in by_key["gemm.tflops"]:
        if _place(fact) in models and _number(fact) > 0:
            ran[models[_place(fact)].name].append(fact)
    clocks = {_place(fact): round(_number(fact)) for fact in by_key["gpu.clock.sm"]}
    return [
        _told(fact, "expect.gemm", _number(fact), want, {"clock": clocks.get(_place(fact)), "usual": models[_place(fact)].max_mhz})
        for rows in ran.values()
        if len(rows) > FEWEST_PEERS and (want := median(map(_number, rows)))
        for fact in rows
        if _number(fact) < BELOW * want
    ]


def _copies(by_key: ByKey, models: dict[Place, Accelerator]) -> list[Fact]:
    """Copies that stay below what the GPU's PCIe link carries."""
    found = []
    for key, name in _COPIES.items():
        for fact in by_key[key]:
            gpu = models.get(_place(fact))
            if (
                gpu is not None
                and gpu.host_link.startswith("PCIe")
                and 0 < _number(fact) < BELOW * (want := expected(Copy(LARGE), gpu).rate)
            ):
                found.append(_told(fact, name, _number(fact), want, {"link": gpu.host_link}))
    return found


def _all_reduces(by_key: ByKey, models: dict[Place, Accelerator]) -> list[Fact]:
    """All-reduces within one host that stay below what its NVLinks carry."""
    ranks = {fact.host: round(_number(fact)) for fact in by_key["nccl.ranks"] if fact.check == "nccl1"}
    of_host = {host: gpu for (host, _), gpu in models.items()}
    found = []
    for fact in by_key["nccl.busbw_max"]:
        gpu = of_host.get(fact.host)
        if fact.check != "nccl1" or gpu is None or not gpu.nvlink or ranks.get(fact.host, 0) < 2:
            continue
        want = _bus_bandwidth(gpu, ranks[fact.host])
        if want and 0 < _number(fact) < BELOW * want:
            found.append(_told(fact, "expect.busbw", _number(fact), want, {"ranks": ranks[fact.host]}))
    return found


def _bus_bandwidth(gpu: Accelerator, ranks: int) -> float:
    try:
        return expected(AllReduce(LARGE, ranks), gpu).rate if ranks <= gpu.domain else 0.0
    except BadShape:
        return 0.0


def _told(fact: Fact, key: str, seen: float, want: float, more: Mapping[str, object]) -> Fact:
    attrs = {"seen": _figures(seen), "expected": _figures(want), **{name: value for name, value in more.items() if value is not None}}
    return replace(fact, key=key, value=round(seen / want, 3), unit="", attrs=attrs)


def _figures(value: float) -> float | int:
    """Three figures: 23, 8.25."""
    return round(value) if value >= 100 else float(f"{value:.3g}")


def _place(fact: Fact) -> Place:
    return fact.host, fact.device or ""


def _number(fact: Fact) -> float:
    known = isinstance(fact.value, int | float) and not isinstance(fact.value, bool)
    return float(fact.value) if known else 0.0  # type: ignore[arg-type]  # a number, as the line above says
