"""A container engine on the one node of a rack that has one: the real docker daemon. Its containers do not start where a small virtual machine
lacks CAP_SYS_RESOURCE, so nothing here starts any."""

from deploy.lab.container import done, inside
from deploy.lab.furnish import ENGINE_HOST
from deploy.lab.layout import Rack, node_of
from deploy.lab.settle import until

UNIT = "lab-dockerd"
DAEMON = ("dockerd", "--iptables=false", "--ip6tables=false", "--ip-forward=false", "--bridge=none", "--storage-driver=vfs")
"""A container may change neither this machine's packet filters nor its bridges."""


def start_engine(rack: Rack, memlock: str = "infinity") -> None:
    """Up and answering, with this much memory that its containers may lock. Raises LabRefusal."""
    node = node_of(ENGINE_HOST)
    done(rack, node, "systemd-run", "--quiet", f"--unit={UNIT}", "-p", f"LimitMEMLOCK={memlock}", *DAEMON)
    until(lambda: inside(rack, node, "docker", "version").returncode == 0, "dockerd does not answer: journalctl -u lab-dockerd")


def stop_engine(rack: Rack) -> None:
    """No daemon answers the client any more."""
    inside(rack, node_of(ENGINE_HOST), "systemctl", "stop", UNIT)
    inside(rack, node_of(ENGINE_HOST), "systemctl", "reset-failed", UNIT)
