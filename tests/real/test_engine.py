"""A real docker client and daemon, and the memlock limit of a real job."""

from collections.abc import Iterator

import pytest

from deploy.lab.layout import Rack
from deploy.lab.parts.engine import start_engine, stop_engine
from deploy.lab.provision import DOCKER_HOST
from deploy.lab.readiness import wait_until
from tests.real.looking import fact, look, told
from tests.real.nodes import job_state, submit
from tools.fact import Status


@pytest.fixture
def engine(rack: Rack) -> Iterator[None]:
    start_engine(rack, memlock="65536")
    yield
    stop_engine(rack)


async def test_a_client_without_its_daemon_has_looked_at_nothing(rack: Rack) -> None:
    answers = await look(rack, ("gpu-001", DOCKER_HOST), ("docker",))
    silent, without = answers[DOCKER_HOST, "docker"], answers["gpu-001", "docker"]
    assert "docker is installed and not running" in silent.could_not, told(silent)
    assert not [row for row in silent.facts if row.key and row.status is not Status.UNREACHABLE]
    assert "docker is not installed" in told(without)


@pytest.mark.usefixtures("engine")
async def test_a_daemon_tells_its_runtimes_and_hands_its_limits_on(rack: Rack) -> None:
    answers = await look(rack, (DOCKER_HOST,), ("docker", "mem"))
    docker = answers[DOCKER_HOST, "docker"]
    assert not docker.could_not
    assert "runc" in str(fact(docker, "docker.runtimes").value)
    assert fact(docker, "docker.nvidia_runtime").value is False
    given = fact(answers[DOCKER_HOST, "mem"], "mem.memlock_kib")
    assert given.attrs["of"] == "slurmd", "which runs the jobs here"


@pytest.mark.usefixtures("in_service")
async def test_a_job_may_lock_what_it_was_submitted_with_and_not_what_slurmd_may(rack: Rack) -> None:
    before = fact((await look(rack, ("gpu-001",), ("mem",)))["gpu-001", "mem"], "mem.memlock_kib")
    job = submit(rack, "gpu-001", "ulimit -l 64; sleep 600")
    wait_until(lambda: job_state(rack, job) == "RUNNING", "the job did not start")

    async def mem() -> tuple[object, object]:
        seen = fact((await look(rack, ("gpu-001",), ("mem",)))["gpu-001", "mem"], "mem.memlock_kib")
        return seen.value, seen.attrs["of"]

    assert before.attrs["of"] == "slurmd"
    assert await mem() == (64, "job")
