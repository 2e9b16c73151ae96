"""Set the rack up for RackMedic as an administrator would: node kit by its installer, account key, inventory."""

import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import yaml

from deploy.lab.container import run_checked_in_node, run_in_node
from deploy.lab.layout import CONTROLLER, NODES, Rack, RackNode, Role
from deploy.lab.programs import run
from deploy.lab.readiness import wait_until

ACCOUNT = "rackmedic"
CHANNEL = {"channel": "C0GPUINC", "name": "gpu-incidents", "kind": "operators", "groups": ["train"], "approvers": "S0GPUAPPR"}
ADD_ACCOUNT_SCRIPT = f"id {ACCOUNT} >/dev/null 2>&1 || useradd --system --create-home --shell /bin/sh --password '*' {ACCOUNT}"
# for a node without the kit's sshd rule: the account's own authorized_keys, which the account can write
ADD_KEY_SCRIPT = f"exec runuser -u {ACCOUNT} -- sh -c 'umask 077; mkdir -p ~{ACCOUNT}/.ssh && cat >~{ACCOUNT}/.ssh/authorized_keys'"
# succeeds once sshd answers; it does not listen while it restarts
SSHD_LISTENS_SCRIPT = "exec 3<>/dev/tcp/127.0.0.1/22 && read -r -t 2 line <&3 && [[ $line == SSH-* ]]"


def install_kit(rack: Rack) -> None:
    """Install kit and account on every node, then write the inventory. Raises LabRefusal if a step fails."""
    kit, key = rack.folder / "kit", rack.folder / "id_ed25519"
    run(sys.executable, "-m", "bot.cli", "node-kit", "--out", kit)
    if not key.exists():
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "rackmedic of the lab", "-f", key)
    public = key.with_suffix(".pub").read_text()
    with ThreadPoolExecutor() as executor:
        list(executor.map(lambda node: _install_on_node(rack, node, kit, public), NODES))
    (rack.folder / "known_hosts").write_text("".join(_build_known_hosts_line(rack, node) for node in NODES))
    rack.inventory.write_text(yaml.safe_dump(_build_inventory(rack), sort_keys=False))


def _install_on_node(rack: Rack, node: RackNode, kit: Path, public: str) -> None:
    if node.has_kit:
        shutil.copytree(kit, rack.root(node) / "root/kit", dirs_exist_ok=True)
        run_checked_in_node(rack, node, "sh", "/root/kit/install.sh", "--key", "/dev/stdin", stdin=public)
        run_in_node(rack, node, "systemctl", "reload", "ssh")  # fails harmlessly where sshd is socket-activated
        wait_until(
            lambda: run_in_node(rack, node, "bash", "-c", SSHD_LISTENS_SCRIPT).returncode == 0,
            f"sshd of {node.name} does not listen again after its reload",
        )
    else:
        run_checked_in_node(rack, node, "sh", "-c", ADD_ACCOUNT_SCRIPT)
        run_checked_in_node(rack, node, "sh", "-c", ADD_KEY_SCRIPT, stdin=public)


def _build_known_hosts_line(rack: Rack, node: RackNode) -> str:
    key_type, key = (rack.root(node) / "etc/ssh/ssh_host_ed25519_key.pub").read_text().split()[:2]
    return f"{rack.address(node)} {key_type} {key}\n"


def _build_inventory(rack: Rack) -> dict[str, object]:
    gpu_nodes = [node.name for node in NODES if node.role is Role.GPU]
    other_nodes = [node.name for node in NODES if node.role is not Role.GPU]
    hosts: dict[str, dict[str, object]] = {}
    for node in NODES:
        hosts[node.name] = {"address": rack.address(node)}
        if not node.has_kit:
            hosts[node.name]["kit"] = False
    return {
        "defaults": {"user": ACCOUNT, "key": str(rack.folder / "id_ed25519"), "known_hosts": str(rack.folder / "known_hosts"), "kit": True},
        "groups": {
            "train": {"hosts": ",".join(gpu_nodes), "controller": CONTROLLER.name, "job_logs": "/shared/logs"},
            "mgmt": {"hosts": ",".join(other_nodes)},
        },
        "hosts": hosts,
        "channels": [CHANNEL],
    }
