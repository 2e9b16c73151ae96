"""Single remedies on the real rack: effects on Slurm, the kernel, find and chrony."""

from collections.abc import AsyncIterator

import pytest

from deploy.lab.layout import CONTROLLER, Rack
from deploy.lab.readiness import wait_until
from tests.real.hands import Hands, hands
from tests.real.looking import fact, look
from tests.real.nodes import fewer_gpus, job_state, on, slurm_reason, slurm_state, submit, works

pytestmark = pytest.mark.usefixtures("in_service")

DRAIN = {"node": "gpu-003", "approval": "apr-0123456789ab"}


@pytest.fixture
async def acting(rack: Rack) -> AsyncIterator[Hands]:
    async with hands(rack) as it:
        yield it


async def test_a_drain_and_a_resume_are_slurms_own(rack: Rack, acting: Hands) -> None:
    assert (await acting.do("drain_node", "gpu-003", **DRAIN)).state == "done"
    assert slurm_state(rack, "gpu-003") == "drained"
    assert slurm_reason(rack, "gpu-003").startswith("rackmedic:apr-")
    seen = (await look(rack, ("gpu-003",), ("sched",)))["gpu-003", "sched"]
    assert fact(seen, "sched.state").value == "IDLE+DRAIN"
    assert (await acting.do("resume_node", "gpu-003", node="gpu-003")).state == "done"
    wait_until(lambda: slurm_state(rack, "gpu-003") == "idle", "the node did not come back")  # "idle*" until the node answers Slurm


async def test_a_node_drained_by_another_admin_is_neither_drained_again_nor_returned(rack: Rack, acting: Hands) -> None:
    on(rack, CONTROLLER.name, "scontrol", "update", "NodeName=gpu-003", "State=DRAIN", "Reason=new DIMMs, Thursday")
    assert await acting.unmet(await acting.action("drain_node", "gpu-003", **DRAIN)) == ["drained"]
    assert await acting.unmet(await acting.action("resume_node", "gpu-003", node="gpu-003")) == ["new DIMMs, Thursday"]
    assert slurm_reason(rack, "gpu-003") == "new DIMMs, Thursday"


async def test_a_job_is_cancelled_and_another_runs_on(rack: Rack, acting: Hands) -> None:
    stuck, other = submit(rack, "gpu-003"), submit(rack, "gpu-001")
    wait_until(lambda: job_state(rack, stuck) == job_state(rack, other) == "RUNNING", "the jobs did not start")
    assert (await acting.do("cancel_job", "gpu-003", job=stuck)).state == "done"
    wait_until(lambda: job_state(rack, stuck) in ("", "CANCELLED"), "the job was not cancelled")
    assert job_state(rack, other) == "RUNNING"


async def test_a_busy_node_drains_and_is_not_called_drained_while_its_job_runs(rack: Rack, acting: Hands) -> None:
    job = submit(rack, "gpu-003")
    wait_until(lambda: job_state(rack, job) == "RUNNING", "the job did not start")
    assert (await acting.do("drain_node", "gpu-003", **DRAIN)).state == "done"
    assert slurm_state(rack, "gpu-003") == "draining"
    assert await acting.unmet(await acting.action("reboot", "gpu-003")) == ["draining allocated+drain"]
    assert job_state(rack, job) == "RUNNING"


async def test_a_drained_node_that_lacks_a_gpu_after_its_boot_is_drained_still_and_one_whose_job_runs_is_not(
    rack: Rack, acting: Hands
) -> None:
    assert (await acting.do("drain_node", "gpu-003", **DRAIN)).state == "done"
    with fewer_gpus(rack, "gpu-003", 7):
        assert await acting.unmet(await acting.action("reboot", "gpu-003")) == []
        refused = await acting.do("resume_node", "gpu-003", node="gpu-003")
        assert (refused.state, "`inval`" in refused.says) == ("failed", True)
    assert (await acting.do("resume_node", "gpu-003", node="gpu-003")).state == "done"
    job = submit(rack, "gpu-003", "sleep 600", "--gres=gpu:1")
    wait_until(lambda: job_state(rack, job) == "RUNNING", "the job did not start")
    with fewer_gpus(rack, "gpu-003", 7):
        assert await acting.unmet(await acting.action("reboot", "gpu-003")) == ["inval allocated+drain+invalid_reg"]
        assert await acting.unmet(await acting.action("drain_node", "gpu-003", **DRAIN)) == ["inval"], "it is out of service already"
        assert job_state(rack, job) == "RUNNING"


async def test_without_slurms_controller_nothing_is_drained_and_its_words_are_shown(rack: Rack, acting: Hands) -> None:
    on(rack, CONTROLLER.name, "systemctl", "stop", "slurmctld")
    try:
        action = await acting.action("drain_node", "gpu-003", **DRAIN)
        [said] = await acting.unmet(action)
        assert "Unable to contact slurm controller" in said
        assert (await acting.run(action)).state == "failed"
    finally:
        on(rack, CONTROLLER.name, "systemctl", "start", "slurmctld")


async def test_a_process_is_killed_once_it_is_known_to_be_the_same(rack: Rack, acting: Hands) -> None:
    on(rack, "gpu-003", "systemd-run", "--unit=left-behind", "sleep", "1000")
    pid = on(rack, "gpu-003", "systemctl", "show", "--property=MainPID", "--value", "left-behind")
    ticks = on(rack, "gpu-003", "cat", f"/proc/{pid}/stat").rpartition(")")[2].split()[19]
    other = await acting.do("kill_gpu_process", "gpu-003", pid=pid, ticks=str(int(ticks) + 1), signal="TERM")
    assert (other.state, "the process is still the one" in other.says) == ("failed", True)
    assert works(rack, "gpu-003", "systemctl", "is-active", "left-behind")
    assert (await acting.do("kill_gpu_process", "gpu-003", pid=pid, ticks=ticks, signal="TERM")).state == "done"
    wait_until(lambda: not works(rack, "gpu-003", "systemctl", "is-active", "left-behind"), "it lives on")


async def test_old_files_go_when_the_disk_is_full_and_only_those(rack: Rack, acting: Hands) -> None:
    on(rack, "gpu-003", "sh", "-c", "mkdir -p /var/crash; echo keep > /var/tmp/new; ln -s /etc/passwd /var/crash/link")
    refused = await acting.do("cleanup", "gpu-003", hours="72")
    assert (refused.state, "nearly full" in refused.says) == ("failed", True)
    on(rack, "gpu-003", "sh", "-c", "head -c 490M /dev/zero > /var/crash/core; touch -d '4 days ago' /var/crash/core")
    seen = (await look(rack, ("gpu-003",), ("disk",)))["gpu-003", "disk"]
    assert fact(seen, "disk.used_percent", "/").value in range(95, 100)
    ended = await acting.do("cleanup", "gpu-003", hours="72")
    assert (ended.state, ended.says, "/var/crash/core" in ended.output) == ("done", "", True), ended
    assert on(rack, "gpu-003", "sh", "-c", "ls /var/crash /var/tmp/new; cat /etc/passwd | wc -l").split()[:3] == [
        "/var/tmp/new",
        "/var/crash:",
        "link",
    ]
    on(rack, "gpu-003", "rm", "/var/crash/link", "/var/tmp/new")


async def test_a_step_of_the_clock_where_the_clock_may_not_be_set_ends_without_effect(rack: Rack, acting: Hands) -> None:
    on(rack, "gpu-003", "systemctl", "stop", "chrony")
    ended = await acting.do("chrony_makestep", "gpu-003")
    assert (ended.state, ended.exit_status, "chronyd may not set the clock" in ended.says) == ("failed", 1, True), ended
    assert works(rack, "gpu-003", "systemctl", "is-active", "chrony")
    seen = (await look(rack, ("gpu-003",), ("time",)))["gpu-003", "time"]
    assert fact(seen, "time.synchronised").value is True
