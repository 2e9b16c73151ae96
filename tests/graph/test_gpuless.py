"""Missing GPUs are reported only on hosts that should have them."""

import pytest

from graph.engine.expected_devices import drop_absence_of_gpus
from tools.fact import Fact, Status, Value

WORKERS = ("gpu-001", "gpu-002", "cpu-001")


def kind(host: str) -> str:
    return host.partition("-")[0]


def facts_of(host: str, gpus: int, *, driver: bool = False) -> list[Fact]:
    driver_version = Fact(
        "mods", "driver.installed_version", "535.161.08" if driver else None, status=Status.OK if driver else Status.ABSENT, host=host
    )
    listed = [Fact("lspci", "pcie.gpu_count", gpus, host=host), driver_version]
    return listed if gpus else [*listed, Fact("dmesg", "kernel.nvidia_absent", True, host=host)]


def left(facts: list[Fact], expected: Value = None) -> set[str]:
    kept = drop_absence_of_gpus(facts, lambda host: expected, WORKERS.__contains__, kind)
    return {
        fact.host
        for fact in kept
        if fact.key in ("pcie.gpu_count", "kernel.nvidia_absent") and not (fact.key == "pcie.gpu_count" and fact.value)
    }


@pytest.mark.parametrize(
    ("facts", "told"),
    [
        pytest.param(facts_of("ctl", 0), set(), id="a controller alone"),
        pytest.param(facts_of("ctl", 0) + facts_of("gpu-001", 8), set(), id="a controller beside a GPU host"),
        pytest.param(facts_of("cpu-001", 0) + facts_of("gpu-001", 8), set(), id="a host of a kind without GPUs"),
        pytest.param(facts_of("gpu-002", 0) + facts_of("gpu-001", 8), {"gpu-002"}, id="a host of a kind with GPUs"),
        pytest.param(facts_of("gpu-001", 0), {"gpu-001"}, id="the only host that was looked at"),
        pytest.param(facts_of("cpu-001", 0, driver=True) + facts_of("gpu-001", 8), {"cpu-001"}, id="a host with a driver"),
        pytest.param(facts_of("ctl", 0, driver=True), {"ctl"}, id="a controller with a driver"),
    ],
)
def test_absence_of_gpus_is_told_where_gpus_are_meant_to_be(facts: list[Fact], told: set[str]) -> None:
    assert left(facts) == told


def test_absence_of_gpus_is_told_where_a_profile_expects_them() -> None:
    assert left(facts_of("ctl", 0), expected=8) == {"ctl"}
