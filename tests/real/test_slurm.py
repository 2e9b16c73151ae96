"""RackMedic reads the states and reasons that real Slurm daemons write."""

import pytest

from bot.cli.doctor.schedulers import check_schedulers
from deploy.lab.layout import CONTROLLER, Rack
from deploy.lab.readiness import wait_until
from graph.engine.abnormal_facts import is_abnormal
from tests.real.looking import GPU_NODES, fact, look
from tests.real.nodes import fewer_gpus, job_state, on, submit
from tests.support.inventories import inventory_of
from tools.fact import Fact, Status
from tools.ssh.client import SshTransport

pytestmark = pytest.mark.usefixtures("in_service")


async def read(rack: Rack, key: str) -> Fact:
    return fact((await look(rack, ("gpu-001",), ("sched",)))["gpu-001", "sched"], key)


def update(rack: Rack, *words: str) -> None:
    on(rack, CONTROLLER.name, "scontrol", "update", "NodeName=gpu-001", *words)


async def test_an_idle_and_a_busy_node(rack: Rack) -> None:
    assert (await read(rack, "sched.state")).value == "IDLE"
    job = submit(rack, "gpu-001")
    wait_until(lambda: job_state(rack, job) == "RUNNING", "the job did not start")
    assert str((await read(rack, "sched.state")).value).startswith(("ALLOCATED", "MIXED"))


@pytest.mark.parametrize(("state", "reason"), [("DRAIN", "Kill task failed"), ("DOWN", "Not responding"), ("FAIL", "gres/gpu count 7 < 8")])
async def test_a_state_with_the_reason_that_slurm_gives_it(rack: Rack, state: str, reason: str) -> None:
    update(rack, f"State={state}", f"Reason={reason}")
    assert state in str((await read(rack, "sched.state")).value)
    assert (await read(rack, "sched.reason")).value == reason


async def test_a_node_that_came_back_with_fewer_gpus_is_put_out_of_service_by_slurm_and_in_its_words(rack: Rack) -> None:
    with fewer_gpus(rack, "gpu-001", 6):
        assert (await read(rack, "sched.state")).value == "IDLE+DRAIN+INVALID_REG"
        reason = await read(rack, "sched.reason")
        assert (reason.value, reason.attrs["told"]) == ("gres/gpu count reported lower than configured (6 < 8)", "gpus_missing")
        assert (reason.attrs["by"], is_abnormal(reason)) == ("slurm", True)


async def test_a_reservation_is_no_fault(rack: Rack) -> None:
    on(
        rack, CONTROLLER.name, "scontrol", "create", "reservation", "ReservationName=upkeep", "StartTime=now", "Duration=60", "Users=root",
        "Nodes=gpu-001", "Flags=maint",
    )  # fmt: skip
    try:
        wait_until(lambda: "MAINT" in on(rack, CONTROLLER.name, "scontrol", "show", "node", "gpu-001"), "the reservation did not begin")
        seen = await read(rack, "sched.state")
        assert {"MAINTENANCE", "MAINT", "RESERVED"} & set(str(seen.value).split("+"))
    finally:
        on(rack, CONTROLLER.name, "scontrol", "delete", "ReservationName=upkeep")


async def test_without_a_controller_slurms_state_is_not_known(rack: Rack) -> None:
    on(rack, CONTROLLER.name, "systemctl", "stop", "slurmctld")
    try:
        answer = (await look(rack, ("gpu-001",), ("sched",)))["gpu-001", "sched"]
        assert not [row for row in answer.facts if row.key == "sched.state" and row.status is Status.OK]
    finally:
        on(rack, CONTROLLER.name, "systemctl", "start", "slurmctld")


async def test_the_doctor_finds_slurm_answering_and_hosts_that_it_does_not_know(rack: Rack) -> None:
    inventory = inventory_of(rack.inventory)
    ssh = SshTransport(inventory)
    try:
        (knows,) = await check_schedulers(ssh, inventory, [*GPU_NODES, "ctl"])
        assert (knows.state, knows.says) == ("ok", "ctl answers and knows gpu-[001-003]")
        odd = inventory.model_copy(
            update={"hosts": {**inventory.hosts, "cpu-001": inventory.hosts["cpu-001"].model_copy(update={"controller": "ctl"})}}
        )
        (lacks,) = await check_schedulers(ssh, odd, ["cpu-001", "gpu-001"])
        assert (lacks.state, lacks.says) == ("fail", "Slurm (ctl) knows no node cpu-001; it knows gpu-[002-003]")
        on(rack, CONTROLLER.name, "systemctl", "stop", "slurmctld")
        (silent,) = await check_schedulers(ssh, inventory, GPU_NODES)
        assert (silent.state, "Unable to contact slurm controller" in silent.says) == ("fail", True)
    finally:
        on(rack, CONTROLLER.name, "systemctl", "start", "slurmctld")
        await ssh.aclose()
