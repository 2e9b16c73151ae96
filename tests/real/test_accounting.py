"""A job that the controller has forgotten, with and without Slurm's accounting: a real slurmdbd on a real MariaDB."""

from collections.abc import Iterator

import pytest

from deploy.lab.layout import CONTROLLER, Rack
from deploy.lab.parts.accounting import forget_jobs, start_accounting, stop_accounting
from deploy.lab.readiness import wait_for_slurm, wait_until
from tests.real.looking import fact, look, told
from tests.real.nodes import calm, on, submit
from tests.support.inventories import inventory_of
from tools.fact import Status
from tools.inventory.job_lookup import JobHosts, SlurmJobFinder
from tools.ssh.client import SshTransport

pytestmark = pytest.mark.usefixtures("in_service")


@pytest.fixture
def accounts(rack: Rack) -> Iterator[None]:
    start_accounting(rack)
    wait_for_slurm(rack)
    yield
    calm(rack)
    stop_accounting(rack)
    wait_for_slurm(rack)


def ended_job(rack: Rack) -> str:
    """Return a failed job that ran on gpu-002."""
    job = submit(rack, "gpu-002", "exit 3")
    wait_until(lambda: "FAILED" in on(rack, CONTROLLER.name, "scontrol", "show", "job", job), "the job did not end")
    return job


async def place_of(rack: Rack, job: str) -> JobHosts:
    inventory = inventory_of(rack.inventory)
    ssh = SshTransport(inventory)
    try:
        return await SlurmJobFinder(ssh, inventory).find_job_hosts(job)
    finally:
        await ssh.aclose()


async def test_without_accounts_a_forgotten_job_is_nowhere_and_that_is_an_answer(rack: Rack) -> None:
    job = ended_job(rack)
    assert await place_of(rack, job) == JobHosts(("gpu-002",)), "the controller still knows it"
    forget_jobs(rack)
    assert await place_of(rack, job) == JobHosts(why="accounting_off")
    answer = (await look(rack, ("gpu-002",), ("sched",)))["gpu-002", "sched"]
    off = fact(answer, "sched.job")
    assert (off.status, "accounting storage is disabled" in off.line) == (Status.ABSENT, True)
    assert not answer.could_not


@pytest.mark.usefixtures("accounts")
async def test_the_accounts_know_a_job_that_the_controller_forgot_and_their_silence_is_no_answer(rack: Rack) -> None:
    job = ended_job(rack)
    listed = ("sacct", "-nPXa", "-N", "gpu-002", "-S", "now-1days", "-o", "JobID,State")
    wait_until(lambda: f"{job}|FAILED" in on(rack, CONTROLLER.name, *listed), "it was not accounted")
    forget_jobs(rack)
    assert await place_of(rack, job) == JobHosts(("gpu-002",))
    assert (await place_of(rack, "99999")).why == "not_known"
    seen = fact((await look(rack, ("gpu-002",), ("sched",)))["gpu-002", "sched"], "sched.job")
    assert (seen.value, seen.attrs["job"], seen.attrs["exit"]) == ("FAILED", job, "3:0")
    on(rack, CONTROLLER.name, "systemctl", "stop", "slurmdbd")
    assert (await place_of(rack, job)).why == "accounting_silent"
    silent = (await look(rack, ("gpu-002",), ("sched",)))["gpu-002", "sched"]
    assert "slurmdbd" in silent.could_not, told(silent)
    assert fact(silent, "sched.state").value == "IDLE", "Slurm itself answers on"
