"""Prepare a node before it boots: an overlay file system, a network namespace, and its configuration files."""

import contextlib
import os
import re
import secrets
import uuid
from collections.abc import Mapping
from pathlib import Path

from deploy.lab.container import make_control_groups
from deploy.lab.layout import CONTROLLER, GPUS_PER_NODE, NODES, Rack, RackNode, Role
from deploy.lab.programs import run

JOB_USER = "trainer"  # the user who starts jobs; same uid on every node
JOB_UID = 2000
DOCKER_HOST = "gpu-003"  # the only node with a container engine
DOCKER_FILES = (
    "usr/bin/docker",
    "usr/sbin/dockerd",
    "lib/systemd/system/docker.service",
    "lib/systemd/system/docker.socket",
    "etc/init.d/docker",
)
# services of the image that start only when a test asks for them
DISABLED_SERVICES = (
    *("docker", "containerd", "mariadb", "slurmdbd"),
    *("prometheus", "prometheus-alertmanager"),
)
# tmpfs limits of the rack's shared files and of each node's root; a node writes about 10 MB
SHARED_SIZE, ROOT_SIZE = "256m", "512m"
# Slurm needs a file per GPU; `Count=` alone registers none (22.05: "count reported lower than configured").
GPU_FILES = "/run/lab/gpu"

# `config_overrides`: nodes claim what is written here, not what the host has. `MessageTimeout`: how long commands look
# for a missing controller (default ten seconds each).
SLURM_SETTINGS = f"""\
ClusterName=lab
SlurmctldHost={CONTROLLER.name}
SlurmUser=slurm
AuthType=auth/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmdSpoolDir=/var/lib/slurm/slurmd
StateSaveLocation=/var/lib/slurm/slurmctld
SlurmctldLogFile=/var/log/slurm/slurmctld.log
SlurmdLogFile=/var/log/slurm/slurmd.log
SlurmdParameters=config_overrides
ReturnToService=1
SlurmctldTimeout=30
SlurmdTimeout=30
MessageTimeout=5
KillWait=2
AccountingStorageType=accounting_storage/none
AccountingStorageHost={CONTROLLER.name}
JobAcctGatherType=jobacct_gather/none
GresTypes=gpu
"""


def furnish_rack(rack: Rack, image: Path) -> None:
    """Prepare everything up to the boot of the nodes. Raises LabRefusal if a system program fails."""
    rack.folder.mkdir(parents=True, exist_ok=True)
    run("mount", "-t", "tmpfs", "-o", f"size={SHARED_SIZE},mode=0755", "rackmedic-lab", rack.folder)
    rack.shared.mkdir(mode=0o1777)
    rack.shared.chmod(0o1777)
    run("ip", "link", "add", rack.bridge, "type", "bridge")
    run("ip", "addr", "add", f"{rack.gateway}/24", "dev", rack.bridge)
    run("ip", "link", "set", rack.bridge, "up")
    munge_key = secrets.token_bytes(1024)
    for node in NODES:
        _connect_node(rack, node)
        _mount_root(rack, node, image)
        _write_files(rack, node, munge_key)
        make_control_groups(rack.unit(node))


def _connect_node(rack: Rack, node: RackNode) -> None:
    """Create a network namespace with a veth pair to the bridge."""
    space, outside = rack.unit(node), f"{rack.bridge}v{node.last}"
    run("ip", "netns", "add", space)
    run("ip", "link", "add", outside, "type", "veth", "peer", "name", "eth0", "netns", space)
    run("ip", "link", "set", outside, "master", rack.bridge, "up")
    run("ip", "-n", space, "addr", "add", f"{rack.address(node)}/24", "dev", "eth0")
    run("ip", "-n", space, "link", "set", "eth0", "up")
    run("ip", "-n", space, "link", "set", "lo", "up")


def _mount_root(rack: Rack, node: RackNode, image: Path) -> None:
    """Mount the node's root: an overlay on the image whose changes stay in memory."""
    root = rack.root(node)
    upper, work = root.with_name("upper"), root.with_name("work")
    root.parent.mkdir(parents=True)
    run("mount", "-t", "tmpfs", "-o", f"size={ROOT_SIZE},mode=0755", "rackmedic-lab", root.parent)
    for path in (root, upper, work):
        path.mkdir()
    run("mount", "-t", "overlay", "overlay", "-o", f"lowerdir={image},upperdir={upper},workdir={work}", root)


def _write_files(rack: Rack, node: RackNode, munge_key: bytes) -> None:
    root = rack.root(node)
    for name, text in _build_texts(rack, node).items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (root / "usr/sbin/policy-rc.d").unlink(missing_ok=True)  # debootstrap's own file, which forbids starting daemons
    _configure_chrony(root)
    _write_munge_key(root, munge_key)
    _enable_services(root, node)
    _create_host_key(root)
    _add_job_user(root)


def _build_texts(rack: Rack, node: RackNode) -> Mapping[str, str]:
    """Return the text of each configuration file by its path below the node's root."""
    hosts = "".join(f"{rack.address(other)} {other.name}\n" for other in NODES)
    clock_server = f"local stratum 8\nallow {rack.gateway}/24\n"
    clock_client = f"server {CONTROLLER.name} iburst minpoll 0 maxpoll 2\n"
    texts = {
        "etc/hostname": f"{node.name}\n",
        "etc/hosts": f"127.0.0.1 localhost\n{hosts}{rack.gateway} outside\n",
        "etc/resolv.conf": "",
        "etc/machine-id": f"{uuid.uuid4().hex}\n",
        "etc/chrony/conf.d/lab.conf": clock_server if node is CONTROLLER else clock_client,
        "etc/systemd/system/chrony.service.d/lab.conf": "[Unit]\nConditionCapability=\n",  # else it needs CAP_SYS_TIME
    }
    if node.role is not Role.PLAIN:
        texts |= {"etc/slurm/slurm.conf": _build_slurm_conf()}
    if node.role is Role.GPU:
        texts |= {"etc/slurm/gres.conf": _build_gres_conf(), "etc/tmpfiles.d/lab.conf": _build_tmpfiles_conf()}
    return texts


def _build_slurm_conf() -> str:
    names = ",".join(node.name for node in NODES if node.role is Role.GPU)
    nodes = f"NodeName={names} CPUs=16 RealMemory=2000 Gres=gpu:h100:{GPUS_PER_NODE} State=UNKNOWN\n"
    return SLURM_SETTINGS + nodes + f"PartitionName=train Nodes={names} Default=YES MaxTime=INFINITE State=UP\n"


def _build_gres_conf() -> str:
    return f"Name=gpu Type=h100 File={GPU_FILES}[0-{GPUS_PER_NODE - 1}]\n"


def _build_tmpfiles_conf() -> str:
    """Return a systemd-tmpfiles fragment that creates the GPU files at every boot."""
    return "".join(f"f {GPU_FILES}{gpu} 0666\n" for gpu in range(GPUS_PER_NODE))


def _configure_chrony(root: Path) -> None:
    """Configure chronyd to follow its servers and never set the clock (-x)."""
    path = root / "etc/default/chrony"
    path.write_text(re.sub(r"^DAEMON_OPTS=.*$", 'DAEMON_OPTS="-F 1 -x"', path.read_text(), flags=re.MULTILINE))
    configuration = root / "etc/chrony/chrony.conf"
    lines = configuration.read_text().splitlines()
    remaining_lines = [line for line in lines if not re.match(r"\s*(pool|server|sourcedir|makestep)\b", line)]
    configuration.write_text("\n".join(remaining_lines) + "\n")


def _write_munge_key(root: Path, munge_key: bytes) -> None:
    path, owner = root / "etc/munge/munge.key", (root / "etc/munge").stat()
    path.unlink(missing_ok=True)
    path.touch(mode=0o400)
    path.write_bytes(munge_key)
    os.chown(path, owner.st_uid, owner.st_gid)


def _enable_services(root: Path, node: RackNode) -> None:
    """Enable only the Slurm daemon of the node's role; disable the other packaged services."""
    slurm_daemon = {Role.CONTROLLER: "slurmctld", Role.GPU: "slurmd", Role.PLAIN: ""}[node.role]
    wants_folder = root / "etc/systemd/system/multi-user.target.wants"
    for name in (*DISABLED_SERVICES, "slurmd", "slurmctld", "opensm", *(["munge"] if node.role is Role.PLAIN else [])):
        (wants_folder / f"{name}.service").unlink(missing_ok=True)
    for path in (*root.glob("etc/systemd/system/sockets.target.wants/*.socket"), *root.glob("etc/rc?.d/S??openipmi")):
        path.unlink()
    if node.name != DOCKER_HOST:
        for name in DOCKER_FILES:
            (root / name).unlink(missing_ok=True)
    if slurm_daemon:
        (wants_folder / f"{slurm_daemon}.service").symlink_to(f"/lib/systemd/system/{slurm_daemon}.service")


def _create_host_key(root: Path) -> None:
    for path in (root / "etc/ssh").glob("ssh_host_*"):
        path.unlink()
    run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", root / "etc/ssh/ssh_host_ed25519_key")


def _add_job_user(root: Path) -> None:
    with contextlib.suppress(FileExistsError):
        (root / f"home/{JOB_USER}").mkdir()
    os.chown(root / f"home/{JOB_USER}", JOB_UID, JOB_UID)
    for name, line in (
        ("passwd", f"{JOB_USER}:x:{JOB_UID}:{JOB_UID}::/home/{JOB_USER}:/bin/sh\n"),
        ("group", f"{JOB_USER}:x:{JOB_UID}:\n"),
    ):
        path = root / "etc" / name
        path.write_text(path.read_text() + line)
