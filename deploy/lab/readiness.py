"""Wait, with a time limit, until systemd, sshd and Slurm are ready."""

import time
from collections.abc import Callable

from deploy.lab.container import run_in_node
from deploy.lab.layout import CONTROLLER, NODES, Rack, RackNode, Role
from deploy.lab.programs import LabRefusal

WAIT_SECONDS = 60.0
BOOTED_STATES = ("running", "degraded")


def wait_for_rack(rack: Rack) -> None:
    """Wait until every node is up and Slurm reports the GPU nodes idle. Raises LabRefusal after a minute."""
    for node in NODES:
        wait_until(lambda node=node: has_booted(rack, node), f"{node.name} did not boot: {rack.folder}/nodes/{node.name}/console")  # type: ignore[misc]  # one lambda a node
    wait_for_slurm(rack)


def has_booted(rack: Rack, node: RackNode) -> bool:
    """Return whether the node's systemd has finished booting."""
    try:
        return run_in_node(rack, node, "systemctl", "is-system-running", seconds=10).stdout.strip() in BOOTED_STATES
    except LabRefusal:
        return False


def wait_for_slurm(rack: Rack) -> None:
    """Wait until Slurm reports every GPU node idle."""
    gpu_nodes = sum(node.role is Role.GPU for node in NODES)
    wait_until(
        lambda: read_slurm_states(rack).count("idle") == gpu_nodes,
        "Slurm did not take all its nodes: see /var/log/slurm on ctl and the nodes",
    )


def read_slurm_states(rack: Rack) -> list[str]:
    """Return the state of each node from sinfo; empty if Slurm does not answer."""
    return run_in_node(rack, CONTROLLER, "sinfo", "--noheader", "--Node", "-o", "%T").stdout.split()


def wait_until(is_true: Callable[[], bool], failure: str, seconds: float = WAIT_SECONDS) -> None:
    """Poll until `is_true()` holds. Raises LabRefusal with the text `failure` after `seconds`."""
    deadline = time.monotonic() + seconds
    while not is_true():
        if time.monotonic() > deadline:
            raise LabRefusal(f"{failure} (waited {seconds:g} s)")
        time.sleep(0.1)
