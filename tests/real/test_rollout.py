"""The Ansible role on a machine without RackMedic: install, repeat, remove, and restore."""

import json
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from bot.cli.node_kit import write_kit
from deploy.lab.container import run_checked_in_node
from deploy.lab.layout import Rack, find_node
from deploy.lab.programs import run
from tests.real.looking import told
from tests.support.clock import WallClock
from tests.support.inventories import inventory_of
from tools.checks import CHECKS
from tools.evidence import MemoryEvidence
from tools.fleet.answers import CheckAnswer, CheckRequest
from tools.fleet.fleet import Fleet
from tools.ssh.client import SshTransport

PLAYBOOK = Path(__file__).parents[2] / "deploy" / "ansible" / "rollout.yml"
NODE = find_node("cpu-001")


class Administrator:
    """An administrator with root login and Ansible."""

    def __init__(self, rack: Rack, folder: Path) -> None:
        self.rack, self.folder, self.kit = rack, folder, folder / "kit"
        write_kit(self.kit)
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / "root")
        key = (folder / "root.pub").read_text()
        run_checked_in_node(rack, NODE, "sh", "-c", "install -d -m 700 /root/.ssh && cat > /root/.ssh/authorized_keys", stdin=key)
        options = f"-o UserKnownHostsFile={rack.folder / 'known_hosts'} -o ControlPath=none"
        hosts = {"ansible_host": rack.address(NODE), "ansible_user": "root", "ansible_ssh_private_key_file": str(folder / "root")}
        inventory = {"all": {"hosts": {NODE.name: hosts | {"ansible_ssh_common_args": options}}}}
        (folder / "hosts.json").write_text(json.dumps(inventory))

    def plays(self, **variables: object) -> Mapping[str, int]:
        """Run the playbook and return the counts of changed, failed and other tasks."""
        key = (self.rack.folder / "id_ed25519.pub").read_text().strip()
        said = {"rackmedic_kit": str(self.kit), "rackmedic_public_key": key} | variables
        command = (Path(sys.executable).parent / "ansible-playbook", "-i", self.folder / "hosts.json", PLAYBOOK, "-e", json.dumps(said))
        environ = {**os.environ, "ANSIBLE_HOME": str(self.folder), "ANSIBLE_NOCOLOR": "1", "ANSIBLE_PIPELINING": "1", "LC_ALL": "C.UTF-8"}
        return tally(run(*command, env=environ, seconds=180))


def tally(printed: str) -> Mapping[str, int]:
    """Parse Ansible's recap line: `cpu-001 : ok=9 changed=0 …`."""
    [line] = [line for line in printed.splitlines() if line.startswith(NODE.name) and "ok=" in line]
    return {word.partition("=")[0]: int(word.partition("=")[2]) for word in line.split() if "=" in word}


@pytest.fixture
def administrator(rack: Rack, tmp_path: Path) -> Iterator[Administrator]:
    """Restore the machine for the other tests: an account, and no kit."""
    administrator = Administrator(rack, tmp_path)
    yield administrator
    run_checked_in_node(
        rack, NODE, "sh", "-c", "rm -rf /usr/local/sbin/rackmedic-* /etc/sudoers.d/rackmedic /etc/ssh/sshd_config.d/50-* /var/lib/rackmedic"
    )
    administrator.plays(rackmedic_only_look=True)


async def dmesg(rack: Rack) -> CheckAnswer:
    """Run a check that needs the kit, as if the inventory listed it."""
    inventory = inventory_of(rack.inventory)
    hosts = {**inventory.hosts, NODE.name: inventory.hosts[NODE.name].model_copy(update={"kit": True})}
    ssh = SshTransport(inventory := inventory.model_copy(update={"hosts": hosts}))
    try:
        wave = await Fleet(ssh, inventory, CHECKS, MemoryEvidence(), WallClock()).run_checks(
            "inc-rack", [CheckRequest(NODE.name, "dmesg")], fresh=True
        )
    finally:
        await ssh.aclose()
    return wave.answers[0]


@pytest.mark.tier3
async def test_a_machine_is_rolled_out_to_once_and_left_as_it_was(rack: Rack, administrator: Administrator) -> None:
    assert (await dmesg(rack)).could_not
    assert administrator.plays()["changed"] > 0
    answer = await dmesg(rack)
    assert not answer.could_not, told(answer)
    assert administrator.plays()["changed"] == 0
    administrator.plays(rackmedic_state="absent", rackmedic_forget=True)
    assert "login refused" in (await dmesg(rack)).could_not
    assert (
        run_checked_in_node(
            rack, NODE, "sh", "-c", "ls /usr/local/sbin /etc/sudoers.d /etc/ssh/sshd_config.d /var/lib | grep -c rackmedic || true"
        ).strip()
        == "0"
    )
