"""The real ipmitool with a simulated BMC, and a node that the BMC power-cycles."""

from collections.abc import Iterator

import pytest

from deploy.lab.layout import Rack, find_node
from deploy.lab.parts.bmc import FAN, HEALTHY_SENSORS, PSU_FAILED, TEMPERATURE, Sensor, start_bmc, stop_bmc
from deploy.lab.readiness import wait_until
from tests.real.hands import hands
from tests.real.looking import fact, look, told
from tests.real.nodes import boot_of, slurm_state
from tools.fact import Status

HOST = "gpu-001"
DRAIN = {"node": HOST, "approval": "apr-0123456789ab"}


@pytest.fixture
def bmc(rack: Rack) -> Iterator[None]:
    yield
    stop_bmc(rack, find_node(HOST))


async def test_a_machine_without_a_bmc_could_not_be_asked(rack: Rack) -> None:
    answer = (await look(rack, (HOST,), ("ipmi",)))[HOST, "ipmi"]
    assert "/dev/ipmi" in answer.could_not, told(answer)


@pytest.mark.usefixtures("bmc")
async def test_what_a_bmc_has_logged_and_measures_is_read(rack: Rack) -> None:
    start_bmc(rack, find_node(HOST))
    well = (await look(rack, (HOST,), ("ipmi",)))[HOST, "ipmi"]
    assert not well.could_not, told(well)
    assert (fact(well, "ipmi.inlet").value, fact(well, "ipmi.event").status) == (24, Status.ABSENT), told(well)
    hot = (Sensor("Inlet Temp", TEMPERATURE, 47, 42), Sensor("FAN1", FAN, 5, 20))
    start_bmc(rack, find_node(HOST), hot, (PSU_FAILED,))
    ill = (await look(rack, (HOST,), ("ipmi",)))[HOST, "ipmi"]
    assert fact(ill, "ipmi.inlet").value == 47
    assert fact(ill, "ipmi.event").value == "psu"
    assert {row.value for row in ill.facts if row.key == "ipmi.sensor"} == {"fan", "temperature"}, told(ill)


@pytest.mark.usefixtures("in_service", "bmc")
async def test_the_power_of_a_drained_node_is_switched_round_by_its_bmc(rack: Rack) -> None:
    start_bmc(rack, find_node(HOST), HEALTHY_SENSORS)
    before = boot_of(rack, HOST)
    async with hands(rack) as acting:
        assert (await acting.do("drain_node", HOST, **DRAIN)).state == "done"
        wait_until(lambda: slurm_state(rack, HOST) == "drained", "it does not drain")
        ended = await acting.do("power_cycle", HOST)
        assert ended.state == "done", ended
    assert boot_of(rack, HOST) != before
    wait_until(lambda: slurm_state(rack, HOST).startswith("drained"), "it forgot that it is drained")
    assert (await look(rack, (HOST,), ("ipmi",)))[HOST, "ipmi"].facts
