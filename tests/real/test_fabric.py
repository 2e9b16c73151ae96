"""Real infiniband-diags and OpenSM on simulated fabrics: healthy, degraded, cut, mislabelled, without a subnet manager."""

from collections.abc import Iterator

import pytest

from deploy.lab.fabric import FabricPlan, build_topology, start_fabric, stop_fabric
from deploy.lab.layout import Rack
from tests.real.looking import GPU_NODES, Answers, fact, look

CHECKS = ("fabric", "ibstat")


@pytest.fixture(autouse=True)
def taken_down(rack: Rack) -> Iterator[None]:
    yield
    stop_fabric(rack)


async def seen(rack: Rack, plan: FabricPlan) -> Answers:
    start_fabric(rack, plan)
    return await look(rack, GPU_NODES, CHECKS)


async def test_a_fabric_that_is_well(rack: Rack) -> None:
    answers = await seen(rack, FabricPlan())
    for host in GPU_NODES:
        assert fact(answers[host, "fabric"], "fabric.sm").value == "MASTER"
        assert fact(answers[host, "fabric"], "fabric.leaf").value == "leaf1"
        assert fact(answers[host, "fabric"], "fabric.degraded").attrs["uplinks"] == 2
        assert fact(answers[host, "ibstat"], "ib.state").value == "Active"


async def test_a_cable_at_a_quarter_of_its_width_and_one_that_is_not_there(rack: Rack) -> None:
    answers = await seen(rack, FabricPlan(widths=(("uplink-1", "1xEDR"),), dead=("gpu-003",)))
    uplink = fact(answers["gpu-001", "fabric"], "fabric.degraded")
    assert uplink.value  # every simulated link could be wider and faster; of real ones only degraded ones
    assert uplink.attrs["width"] == "1X"
    assert fact(answers["gpu-003", "ibstat"], "ib.state").value == "Down"
    assert not [row for row in answers["gpu-003", "fabric"].facts if row.key == "fabric.sm" and row.value == "MASTER"]
    assert fact(answers["gpu-001", "ibstat"], "ib.state").value == "Active"


async def test_an_adapter_that_calls_itself_like_another_machine_is_believed_in_nothing(rack: Rack) -> None:
    answers = await seen(rack, FabricPlan(names=(("gpu-002", "gpu-001"),)))
    assert [fact(answers[host, "fabric"], "fabric.leaf").value for host in GPU_NODES] == ["leaf1"] * 3
    assert {row.host for answer in answers.values() for row in answer.facts} == set(GPU_NODES)


async def test_without_a_subnet_manager_nothing_is_called_well(rack: Rack) -> None:
    answers = await seen(rack, FabricPlan(managers=0))
    for host in GPU_NODES:
        assert not [row for row in answers[host, "fabric"].facts if row.key == "fabric.sm" and row.value == "MASTER"]
        assert fact(answers[host, "ibstat"], "ib.state").value == "Initializing"


async def test_of_two_subnet_managers_one_is_master(rack: Rack) -> None:
    answers = await seen(rack, FabricPlan(managers=2))
    assert {fact(answers[host, "fabric"], "fabric.sm").value for host in GPU_NODES} == {"MASTER"}


def test_a_plan_is_a_net_file_in_which_every_cable_has_two_ends() -> None:
    text = build_topology(FabricPlan(dead=("gpu-003",), widths=(("gpu-002", "1xEDR"),)))
    assert '"gpu-003"[1]' not in text
    assert text.count("1xEDR") == 2
