"""Remedies on a real rack from mention to proof, each approved in Slack: a completely full disk, a service, the power."""

from pathlib import Path

import pytest

from deploy.lab.gpus import BMC_TOOLS, ENGINE_TOOLS, RackGpus
from deploy.lab.layout import Rack
from tests.real.nodes import boot_of, on, slurm_state
from tests.real.team import team

pytestmark = pytest.mark.usefixtures("in_service")

FILL = """mkdir -p /var/crash; head -c 1G /dev/zero > /var/crash/core; touch -d '4 days ago' /var/crash/core
! echo x > /var/tmp/one-byte-more"""


async def test_a_root_file_system_without_a_byte_left_is_cleaned_up_and_its_record_lasts(rack: Rack, tmp_path: Path) -> None:
    try:
        async with RackGpus.healthy(rack), team(rack, tmp_path) as people:
            on(rack, "gpu-003", "sh", "-c", FILL)
            assert on(rack, "gpu-003", "df", "--output=pcent,avail", "/").split()[-2:] == ["100%", "0"]
            await people.report("training on gpu-003 dies: No space left on device")
            await people.approve_until(lambda: "Fixed; re-check at" in people.said)
        assert on(rack, "gpu-003", "sh", "-c", "ls /var/crash") == ""
        newest = "cat $(ls -t /var/lib/rackmedic/actions/*/status | head -1)"  # named by digest; other actions ran too
        assert on(rack, "gpu-003", "sh", "-c", newest) == "0"
        assert len(on(rack, "gpu-003", "ls", "/var/lib/rackmedic/reserve").split()) == 20
    finally:
        on(rack, "gpu-003", "rm", "-rf", "/var/crash/core", "/var/tmp/one-byte-more")


async def test_a_service_of_systemd_is_restarted_on_its_drained_node(rack: Rack, tmp_path: Path) -> None:
    async with RackGpus.healthy(rack, ENGINE_TOOLS) as gpus, team(rack, tmp_path) as people:
        before = {host: on(rack, host, "systemctl", "show", "-P", "MainPID", "docker") for host in ("gpu-001", "gpu-002")}
        gpus.cluster.break_("S07", "gpu-002", outcome="cures")
        await people.report("containers do not start on gpu-002: could not select device driver with capabilities gpu")
        await people.approve_until(lambda: "re-check at" in people.said)
        after = {host: on(rack, host, "systemctl", "show", "-P", "MainPID", "docker") for host in ("gpu-001", "gpu-002")}
        assert after["gpu-002"] != before["gpu-002"]
        assert after["gpu-001"] == before["gpu-001"]
        assert slurm_state(rack, "gpu-002") == "idle"


async def test_the_power_of_a_node_that_no_reboot_helps_is_cut_and_comes_back(rack: Rack, tmp_path: Path) -> None:
    boots = [boot_of(rack, "gpu-002")]
    async with RackGpus.healthy(rack, BMC_TOOLS) as gpus, team(rack, tmp_path) as people:
        gpus.cluster.break_("G07", "gpu-002", gpu=4, outcome="power_cycle")
        await people.report("training hangs on gpu-002")
        await people.approve_until(lambda: "re-check at" in people.said)
        assert ("gpu-002", "ipmitool", "chassis", "power", "cycle") in gpus.calls
        assert slurm_state(rack, "gpu-002") == "idle"
        assert not gpus.cluster.unsafe_commands
    assert boot_of(rack, "gpu-002") not in boots
