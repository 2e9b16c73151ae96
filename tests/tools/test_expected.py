"""Values below the expected are reported with numbers; unknown, idle and normal ones are not."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tools.below_expected import find_below_expected
from tools.fact import Fact, Status, Value

A100 = "NVIDIA A100-SXM4-80GB"


def fact(key: str, value: Value, device: str | None = "gpu3", host: str = "n1", check: str = "smi") -> Fact:
    return Fact(check, key, value, device=device, host=host, line=f"{key} {value}")


def gpu(product: str = A100, *, mhz: int = 200, idle: Value = False, device: str = "gpu3", host: str = "n1") -> list[Fact]:
    return [
        fact("gpu.product", product, device, host),
        fact("gpu.clock.sm", mhz, device, host),
        fact("gpu.throttle.idle", idle, device, host),
    ]


def test_a_busy_gpu_at_a_low_clock_is_told_with_what_it_computes_there() -> None:
    [found] = find_below_expected(gpu())
    assert (found.key, found.host, found.device, found.value) == ("expect.compute", "n1", "gpu3", round(200 / 1410, 3))
    assert found.attrs == {"seen": 35.4, "expected": 250, "clock": 200, "usual": 1410}
    assert found.format_sentence() == "gpu3 at an SM clock of 200 of 1410 MHz: 35.4 TFLOP/s of 250 expected"
    assert found.line == "gpu.clock.sm 200", "the line that shows it is the clock's"


@pytest.mark.parametrize(
    "facts",
    [
        gpu(idle=True),
        gpu()[:2],
        gpu(mhz=1300),
        gpu("NVIDIA GeForce RTX 4090"),
        gpu()[1:],
        [replace(row, stale=True) for row in gpu()],
        [replace(row, status=Status.UNREADABLE) for row in gpu()],
        [replace(row, host="") for row in gpu()],
        gpu(mhz=0),
    ],
    ids=["idle", "says not whether", "little lower", "unknown", "no model", "of before", "not read", "pasted", "no clock"],
)
def test_idle_and_unknown_gpus_are_not_reported(facts: list[Fact]) -> None:
    assert find_below_expected(facts) == []


def products(speeds: Sequence[float], product: str = A100, host: str = "n1") -> list[Fact]:
    rows = []
    for at, speed in enumerate(speeds):
        rows += [fact("gpu.product", product, f"gpu{at}", host), fact("gemm.tflops", speed, f"gpu{at}", host, check="gemm")]
    return rows


def test_products_are_held_to_most_gpus_of_the_same_model() -> None:
    [found] = find_below_expected([*products([118, 119, 23, 118, 117]), fact("gpu.clock.sm", 200, "gpu2")])
    assert (found.key, found.device, found.check, found.value) == ("expect.gemm", "gpu2", "gemm", round(23 / 118, 3))
    assert found.attrs == {"seen": 23.0, "expected": 118, "clock": 200, "usual": 1410}
    assert found.format_sentence() == "gpu2 computes 23.0 TFLOP/s of 118 expected"


def test_few_peers_or_peers_of_another_model_say_nothing() -> None:
    assert find_below_expected(products([118, 119, 23])) == []
    assert find_below_expected([*products([118, 119, 117]), *products([23, 24, 22], "NVIDIA L40S", "n2")]) == []


@pytest.mark.parametrize(("product", "speed", "told"), [(A100, 6.2, True), (A100, 24.6, False), ("NVIDIA GB200", 60.0, False)])
def test_copies_are_held_to_the_link(product: str, speed: float, told: bool) -> None:
    facts = [fact("gpu.product", product), fact("bw.h2d", speed, check="bw"), fact("bw.d2h", 24.0, check="bw")]
    found = [row for row in find_below_expected(facts) if row.key == "expect.h2d"]
    assert bool(found) is told
    if told:
        assert found[0].format_sentence() == "copies to gpu3 reach 6.2 GB/s of 26.1 expected over PCIe 4 x16"


def sums(busbw: float, ranks: int = 8, check: str = "nccl1", product: str = A100) -> list[Fact]:
    gpus = [fact("gpu.product", product, f"gpu{at}") for at in range(8)]
    return [*gpus, fact("nccl.busbw_max", busbw, None, check=check), fact("nccl.ranks", ranks, None, check=check)]


def test_an_all_reduce_within_a_host_is_held_to_its_nvlinks() -> None:
    [found] = find_below_expected(sums(19.0))
    assert (found.key, found.device, found.value) == ("expect.busbw", None, 0.079)
    assert found.format_sentence() == "all-reduce of 8 GPUs reaches 19.0 GB/s of 240 expected"
    assert find_below_expected(sums(233.0)) == []
    assert find_below_expected(sums(360.0, product="NVIDIA H100 80GB HBM3")) == [], "a ring without the switches' sums is no fault"


@pytest.mark.parametrize("facts", [sums(19.0, ranks=1), sums(19.0, ranks=16), sums(19.0, check="nccl2"), sums(19.0, product="NVIDIA L40S")])
def test_other_all_reduces_are_not_judged(facts: list[Fact]) -> None:
    assert find_below_expected(facts) == []
