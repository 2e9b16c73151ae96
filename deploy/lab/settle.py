"""Wait, with a time limit, until systemd, sshd and Slurm are ready."""

import time
from collections.abc import Callable

from deploy.lab.container import inside
from deploy.lab.layout import CONTROLLER, NODES, Rack, RackNode, Role
from deploy.lab.programs import LabRefusal

SECONDS = 60.0
UP = ("running", "degraded")


def settle(rack: Rack) -> None:
    """Wait until every node is up and Slurm reports the GPU nodes idle. Raises LabRefusal."""
    for node in NODES:
        until(lambda node=node: booted(rack, node), f"{node.name} did not boot: {rack.folder}/nodes/{node.name}/console")  # type: ignore[misc]  # one lambda a node
    slurm_ready(rack)


def booted(rack: Rack, node: RackNode) -> bool:
    """Return whether the node's systemd has finished booting."""
    try:
        return inside(rack, node, "systemctl", "is-system-running", seconds=10).stdout.strip() in UP
    except LabRefusal:
        return False


def slurm_ready(rack: Rack) -> None:
    """Wait until Slurm reports every GPU node idle."""
    wanted = sum(node.role is Role.GPU for node in NODES)
    until(lambda: slurm_states(rack).count("idle") == wanted, "Slurm did not take all its nodes: see /var/log/slurm on ctl and the nodes")


def slurm_states(rack: Rack) -> list[str]:
    """Return the state of each node from sinfo; empty if Slurm does not answer."""
    return inside(rack, CONTROLLER, "sinfo", "--noheader", "--Node", "-o", "%T").stdout.split()


def until(true: Callable[[], bool], otherwise: str, seconds: float = SECONDS) -> None:
    """Poll until `true()` holds. Raises LabRefusal with `otherwise` after `seconds`."""
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            raise LabRefusal(f"{otherwise} (waited {seconds:g} s)")
        time.sleep(0.1)
