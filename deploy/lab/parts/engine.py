"""A real docker daemon on ENGINE_HOST. Nothing here starts a container: that fails on small VMs without
CAP_SYS_RESOURCE.
"""

from deploy.lab.container import done, inside
from deploy.lab.furnish import ENGINE_HOST
from deploy.lab.layout import Rack, node_of
from deploy.lab.settle import until

UNIT = "lab-dockerd"
# keep the daemon away from the host's packet filters and bridges
DAEMON = ("dockerd", "--iptables=false", "--ip6tables=false", "--ip-forward=false", "--bridge=none", "--storage-driver=vfs")


def start_engine(rack: Rack, memlock: str = "infinity") -> None:
    """Start the daemon with this memlock limit for its containers. Raises LabRefusal."""
    node = node_of(ENGINE_HOST)
    done(rack, node, "systemd-run", "--quiet", f"--unit={UNIT}", "-p", f"LimitMEMLOCK={memlock}", *DAEMON)
    until(lambda: inside(rack, node, "docker", "version").returncode == 0, "dockerd does not answer: journalctl -u lab-dockerd")


def stop_engine(rack: Rack) -> None:
    inside(rack, node_of(ENGINE_HOST), "systemctl", "stop", UNIT)
    inside(rack, node_of(ENGINE_HOST), "systemctl", "reset-failed", UNIT)
