"""Bandwidth curves by message size: measured values beside the model's range, nothing estimated."""

import pytest

from tools.bandwidth import (
    MAX_MESSAGE_BYTES,
    PASTED_TABLE,
    BandwidthCurve,
    Bandwidths,
    collect_bandwidths,
    format_size,
    summarize_bandwidths,
)
from tools.checks.exclusive.nccl import parse_nccl
from tools.fact import Fact, Status, Value

MIB, GIB = 1 << 20, 1 << 30


def at(host: str, size: int, speed: Value, **more: object) -> Fact:
    return Fact("nccl1", "nccl.busbw_at", speed, unit="GB/s", host=host, attrs={"size": size}, **more)  # type: ignore[arg-type]  # of a fact


def h100(host: str) -> float:
    return 460.0


def test_a_host_below_its_models_band_is_slow_and_said_so() -> None:
    facts = [at("n1", 512 * MIB, 380.0), at("n1", 8 * GIB, 478.0), at("n2", 512 * MIB, 150.0), at("n2", 8 * GIB, 190.5)]
    found = collect_bandwidths(("n1", "n2", "n3"), facts, h100)
    assert [(row.host, row.best, row.is_slow) for row in found.curves] == [("n1", 478.0, False), ("n2", 190.5, True)]
    assert found.blind == ("n3",)
    assert summarize_bandwidths(found) == (
        "all-reduce bus bandwidth of 2 hosts at best: 190.5 to 478 GB/s, median 334.25; the model reaches 460; "
        "n2 below 80% of it; not measured on 1"
    )
    assert found.build_table() == [
        ("host", "512 MiB", "8 GiB", "model reaches"),
        ("n1", "380", "478", "460"),
        ("n2", "150", "190.5", "460"),
        ("n3", "?", "?", "?"),
    ]


def test_small_messages_and_unknown_models_accuse_no_host() -> None:
    assert not BandwidthCurve("n1", ((4 * MIB, 3.0),), 460.0).is_slow
    assert not BandwidthCurve("n1", ((8 * GIB, 3.0),)).is_slow
    assert summarize_bandwidths(Bandwidths((BandwidthCurve("n1", ((8 * GIB, 3.0),)),))) == (
        "all-reduce bus bandwidth of 1 host at best: 3 GB/s; what the model reaches is not written down"
    )


def test_nothing_measured_has_no_words() -> None:
    assert summarize_bandwidths(collect_bandwidths(("n1",), [], h100)) == ""


@pytest.mark.parametrize(
    "odd",
    [
        at("n1", 8 * GIB, float("nan")),
        at("n1", 8 * GIB, float("inf")),
        at("n1", 8 * GIB, 10**400),
        at("n1", 8 * GIB, True),
        at("n1", 8 * GIB, -1.0),
        at("n1", MAX_MESSAGE_BYTES * 2, 4.0),
        at("n1", 0, 4.0),
        at("n1", 8 * GIB, 4.0, stale=True),
        at("n1", 8 * GIB, None, status=Status.TIMEOUT),
        at("theirs", 8 * GIB, 4.0),
    ],
)
def test_what_is_no_bandwidth_of_these_hosts_is_not_known(odd: Fact) -> None:
    assert collect_bandwidths(("n1",), [odd], h100).curves == ()


def test_a_pasted_table_has_its_own_curve() -> None:
    text = """#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
   536870912     134217728     float     sum      -1   2454.1  218.76  382.84      0   2449.4  219.19  383.58      0
  1073741824     268435456     float     sum      -1   4509.2  238.12  416.71      0   4508.9  238.14  416.74      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 400.0
"""
    (curve,) = collect_bandwidths(("n1",), parse_nccl(text), lambda host: None).curves
    assert (curve.host, curve.points, curve.expected) == (PASTED_TABLE, ((512 * MIB, 383.58), (GIB, 416.74)), None)


def test_of_many_hosts_the_slowest_are_told() -> None:
    curves = tuple(BandwidthCurve(f"n{n}", ((GIB, float(500 - n)),), 460.0) for n in range(128))
    told = Bandwidths(curves).select_slowest(3)
    assert [row.host for row in told] == ["n125", "n126", "n127"]


def test_sizes_are_said_as_people_say_them() -> None:
    assert [format_size(size) for size in (8, 64 << 10, 512 * MIB, 8 * GIB, 2 << 40)] == ["8 B", "64 KiB", "512 MiB", "8 GiB", "2 TiB"]
