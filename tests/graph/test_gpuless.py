"""Missing GPUs are reported only on hosts that should have them."""

import pytest

from graph.engine.expected_devices import drop_absence_of_gpus
from tools.fact import Fact, Status, Value

WORKERS = ("gpu-001", "gpu-002", "cpu-001")


def kind(host: str) -> str:
    return host.partition("-")[0]


def build_host_facts(host: str, gpus: int, *, driver: bool = False) -> list[Fact]:
    facts = [Fact("lspci", "pcie.gpu_count", gpus, host=host)]
    if driver:
        facts.append(Fact("mods", "driver.installed_version", "535.161.08", status=Status.OK, host=host))
    else:
        facts.append(Fact("mods", "driver.installed_version", None, status=Status.ABSENT, host=host))
    if not gpus:
        facts.append(Fact("dmesg", "kernel.nvidia_absent", True, host=host))
    return facts


def reports_no_gpu(fact: Fact) -> bool:
    if fact.key == "pcie.gpu_count":
        return not fact.value
    return fact.key == "kernel.nvidia_absent"


def hosts_without_gpus(facts: list[Fact], expected: Value = None) -> set[str]:
    """Return the hosts on which missing GPUs are still reported after the filter."""
    remaining_facts = drop_absence_of_gpus(facts, lambda host: expected, WORKERS.__contains__, kind)
    return {fact.host for fact in remaining_facts if reports_no_gpu(fact)}


@pytest.mark.parametrize(
    ("facts", "expected_hosts"),
    [
        pytest.param(build_host_facts("ctl", 0), set(), id="a controller alone"),
        pytest.param(build_host_facts("ctl", 0) + build_host_facts("gpu-001", 8), set(), id="a controller beside a GPU host"),
        pytest.param(build_host_facts("cpu-001", 0) + build_host_facts("gpu-001", 8), set(), id="a host of a kind without GPUs"),
        pytest.param(build_host_facts("gpu-002", 0) + build_host_facts("gpu-001", 8), {"gpu-002"}, id="a host of a kind with GPUs"),
        pytest.param(build_host_facts("gpu-001", 0), {"gpu-001"}, id="the only checked host"),
        pytest.param(build_host_facts("cpu-001", 0, driver=True) + build_host_facts("gpu-001", 8), {"cpu-001"}, id="a host with a driver"),
        pytest.param(build_host_facts("ctl", 0, driver=True), {"ctl"}, id="a controller with a driver"),
    ],
)
def test_missing_gpus_are_reported_only_on_hosts_that_should_have_them(facts: list[Fact], expected_hosts: set[str]) -> None:
    assert hosts_without_gpus(facts) == expected_hosts


def test_missing_gpus_are_reported_if_the_profile_expects_them() -> None:
    assert hosts_without_gpus(build_host_facts("ctl", 0), expected=8) == {"ctl"}
