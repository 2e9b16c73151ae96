"""A real docker daemon on ENGINE_HOST. Nothing here starts a container: that fails on small VMs without
CAP_SYS_RESOURCE.
"""

from deploy.lab.container import run_checked_in_node, run_in_node
from deploy.lab.layout import Rack, find_node
from deploy.lab.provision import DOCKER_HOST
from deploy.lab.readiness import wait_until

UNIT = "lab-dockerd"
# keep the daemon away from the host's packet filters and bridges
DOCKERD_COMMAND = ("dockerd", "--iptables=false", "--ip6tables=false", "--ip-forward=false", "--bridge=none", "--storage-driver=vfs")


def start_engine(rack: Rack, memlock: str = "infinity") -> None:
    """Start the daemon with this memlock limit for its containers. Raises LabRefusal."""
    node = find_node(DOCKER_HOST)
    run_checked_in_node(rack, node, "systemd-run", "--quiet", f"--unit={UNIT}", "-p", f"LimitMEMLOCK={memlock}", *DOCKERD_COMMAND)
    wait_until(lambda: run_in_node(rack, node, "docker", "version").returncode == 0, "dockerd does not answer: journalctl -u lab-dockerd")


def stop_engine(rack: Rack) -> None:
    run_in_node(rack, find_node(DOCKER_HOST), "systemctl", "stop", UNIT)
    run_in_node(rack, find_node(DOCKER_HOST), "systemctl", "reset-failed", UNIT)
