"""Set the rack up for RackMedic as an administrator would: node kit by its installer, account key, inventory."""

import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import yaml

from deploy.lab.container import done, inside
from deploy.lab.layout import CONTROLLER, NODES, Rack, RackNode, Role
from deploy.lab.programs import run
from deploy.lab.settle import until

ACCOUNT = "rackmedic"
CHANNEL = {"channel": "C0GPUINC", "name": "gpu-incidents", "kind": "operators", "groups": ["train"], "approvers": "S0GPUAPPR"}
ADD_ACCOUNT = f"id {ACCOUNT} >/dev/null 2>&1 || useradd --system --create-home --shell /bin/sh --password '*' {ACCOUNT}"
# For a node without the kit's sshd rule: the account's own authorized_keys, which the account can write.
ADD_KEY = f"exec runuser -u {ACCOUNT} -- sh -c 'umask 077; mkdir -p ~{ACCOUNT}/.ssh && cat >~{ACCOUNT}/.ssh/authorized_keys'"


# sshd does not listen while it restarts
LISTENS = "exec 3<>/dev/tcp/127.0.0.1/22 && read -r -t 2 line <&3 && [[ $line == SSH-* ]]"


def install(rack: Rack) -> None:
    """Install kit and account on every node, then write the inventory. Raises LabRefusal."""
    kit, key = rack.folder / "kit", rack.folder / "id_ed25519"
    run(sys.executable, "-m", "bot.cli", "node-kit", "--out", kit)
    if not key.exists():
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "rackmedic of the lab", "-f", key)
    public = key.with_suffix(".pub").read_text()
    with ThreadPoolExecutor() as several:
        list(several.map(lambda node: _prepare(rack, node, kit, public), NODES))
    (rack.folder / "known_hosts").write_text("".join(_known(rack, node) for node in NODES))
    rack.inventory.write_text(yaml.safe_dump(_inventory(rack), sort_keys=False))


def _prepare(rack: Rack, node: RackNode, kit: Path, public: str) -> None:
    if node.has_kit:
        shutil.copytree(kit, rack.root(node) / "root/kit", dirs_exist_ok=True)
        done(rack, node, "sh", "/root/kit/install.sh", "--key", "/dev/stdin", stdin=public)
        inside(rack, node, "systemctl", "reload", "ssh")  # fails harmlessly where sshd is socket-activated
        until(
            lambda: inside(rack, node, "bash", "-c", LISTENS).returncode == 0, f"sshd of {node.name} does not listen again after its reload"
        )
    else:
        done(rack, node, "sh", "-c", ADD_ACCOUNT)
        done(rack, node, "sh", "-c", ADD_KEY, stdin=public)


def _known(rack: Rack, node: RackNode) -> str:
    kind, key = (rack.root(node) / "etc/ssh/ssh_host_ed25519_key.pub").read_text().split()[:2]
    return f"{rack.address(node)} {kind} {key}\n"


def _inventory(rack: Rack) -> dict[str, object]:
    gpus = [node.name for node in NODES if node.role is Role.GPU]
    others = [node.name for node in NODES if node.role is not Role.GPU]
    hosts = {node.name: {"address": rack.address(node)} | ({} if node.has_kit else {"kit": False}) for node in NODES}
    return {
        "defaults": {"user": ACCOUNT, "key": str(rack.folder / "id_ed25519"), "known_hosts": str(rack.folder / "known_hosts"), "kit": True},
        "groups": {
            "train": {"hosts": ",".join(gpus), "controller": CONTROLLER.name, "job_logs": "/shared/logs"},
            "mgmt": {"hosts": ",".join(others)},
        },
        "hosts": hosts,
        "channels": [CHANNEL],
    }
