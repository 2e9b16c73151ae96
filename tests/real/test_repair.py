"""A remediation on a real rack: real drain, reboot and resume, each approved in Slack. Only the GPU off its bus is
simulated.
"""

from pathlib import Path

from deploy.lab.container import run_checked_in_node, run_in_node
from deploy.lab.gpus import RackGpus
from deploy.lab.layout import CONTROLLER, Rack, find_node
from tests.real.team import team


def boot_of(rack: Rack, host: str) -> str:
    return run_checked_in_node(rack, find_node(host), "cat", "/proc/sys/kernel/random/boot_id").strip()


def slurm_state(rack: Rack, host: str) -> str:
    return run_in_node(rack, CONTROLLER, "sinfo", "--noheader", "--node", host, "-o", "%T").stdout.strip()


async def test_a_node_is_drained_rebooted_and_returned_with_two_approvals_for_the_reboot(rack: Rack, tmp_path: Path) -> None:
    before = {host: boot_of(rack, host) for host in ("gpu-001", "gpu-002")}
    async with RackGpus.healthy(rack) as gpus, team(rack, tmp_path) as people:
        gpus.cluster.break_("G07", "gpu-002", gpu=4, outcome="cures")
        await people.report("training hangs on gpu-002")
        await people.approve_until(lambda: "re-check at" in people.said)
        assert slurm_state(rack, "gpu-002") == "idle"
        assert not gpus.cluster.unsafe_commands
    assert boot_of(rack, "gpu-002") != before["gpu-002"]
    assert boot_of(rack, "gpu-001") == before["gpu-001"]
