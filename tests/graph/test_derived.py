"""Facts derived from several checks: differing MTU, GPUs waiting for the fabric manager, GPU memory without a process."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from graph.engine.derived_facts import find_mtu_mismatches, find_unmanaged_fabrics, find_unowned_memory
from tools.fact import Fact, Status


def fact(key: str, value: object = None, device: str | None = None, status: Status = Status.OK, check: str = "smi") -> Fact:
    return Fact(check, key, value, device=device, status=status, host="n1")  # type: ignore[arg-type]  # toy values


def mtu(host: str, value: int, device: str = "eth1") -> Fact:
    return Fact("net", "net.mtu", value, device=device, host=host)


def test_of_two_hosts_the_one_with_the_smaller_mtu_is_told() -> None:
    [found] = find_mtu_mismatches([mtu("n1", 9000), mtu("n2", 1500), mtu("n1", 1500, "eth0"), mtu("n2", 1500, "eth0")])
    assert (found.host, found.device, found.value, found.attrs["other"], found.attrs["peer"]) == ("n2", "eth1", 1500, 9000, "n1")


def test_three_hosts_with_a_majority_and_a_single_host_have_no_mtu_mismatch() -> None:
    assert find_mtu_mismatches([mtu("n1", 9000), mtu("n2", 1500), mtu("n3", 9000)]) == []
    assert find_mtu_mismatches([mtu("n1", 9000)]) == []


WAITS = [fact("gpu.fabric.state", "In Progress", f"gpu{at}") for at in range(8)]
IDLE = fact("service.state", "inactive", "nvidia-fabricmanager.service", check="sysd")


def test_gpus_that_wait_and_a_manager_that_does_not_run_are_one_fact() -> None:
    [found] = find_unmanaged_fabrics([*WAITS, IDLE])
    assert (found.host, found.value, found.attrs["gpus"], found.check) == ("n1", True, 8, "sysd")


@pytest.mark.parametrize(
    "facts",
    [
        WAITS,
        [IDLE],
        [*WAITS[1:], fact("gpu.fabric.state", "Completed", "gpu0"), IDLE],
        [*WAITS, fact("service.state", "active", "nvidia-fabricmanager.service", check="sysd")],
        [fact("gpu.fabric.state", "Not Supported", "gpu0"), IDLE],
    ],
)
def test_either_alone_may_be_as_it_should(facts: list[Fact]) -> None:
    assert find_unmanaged_fabrics(facts) == []


USED = fact("gpu.memory.used", 62_750, "gpu5")
NONE_LISTED = fact("gpu.processes", 0, "gpu5")


def test_memory_of_a_gpu_of_which_the_same_look_lists_no_process_is_told() -> None:
    [found] = find_unowned_memory([USED, fact("gpu.memory.used", 12, "gpu0"), fact("gpu.processes", 0, "gpu0"), NONE_LISTED])
    assert (found.device, found.value, found.key) == ("gpu5", 62_750, "gpu.memory.unowned")


def test_where_processes_were_not_listed_or_at_another_time_nothing_is_told() -> None:
    assert find_unowned_memory([USED]) == []
    assert find_unowned_memory([USED, fact("gpu.processes", status=Status.UNREADABLE, device="gpu5")]) == []
    assert find_unowned_memory([USED, fact("gpu.processes", 1, "gpu5")]) == []
    assert find_unowned_memory([USED, replace(NONE_LISTED, time=datetime(2026, 5, 20, tzinfo=UTC))]) == [], (
        "a job may have ended between two looks"
    )
