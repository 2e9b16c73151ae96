"""The installed kit behind real sshd and sudo, with a temporary account."""

import asyncio
import contextlib
import os
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import asyncssh
import pytest
from fakeredis import FakeAsyncRedis

from tests.support.clock import PATIENCE, WallClock
from tests.support.fakes_ledger import CATALOGUE, PEOPLE, POLICY, Desk
from tests.support.fakes_nodekit import BOOT, Node
from tests.support.fixtures_sshd import Sshd, keygen, needs_sshd, sshd
from tools.action import Action
from tools.execution import runner as act
from tools.execution.build import ActionRequest, HostIdentity, build_action
from tools.execution.kit import KitState, get_current_kit_version, read_kit_state
from tools.inventory.inventory import Inventory
from tools.ledger.claim import Claim
from tools.ssh.client import SshLimits, SshTransport
from tools.transport import CommandResult, Unreachable

SUDOERS = Path("/etc/sudoers.d")
BDF = "0000:9b:00.0"
HOST = "gpu-017"
BRISK = SshLimits(connect_seconds=30, login_seconds=30, keepalive_seconds=0.5, grace_seconds=1)

pytestmark = [
    needs_sshd,
    pytest.mark.skipif(os.geteuid() != 0, reason="accounts and sudoers files are made by root: run as root"),
    pytest.mark.skipif(not (shutil.which("sudo") and shutil.which("useradd")), reason="sudo or useradd is missing: make setup-system"),
]


@dataclass(frozen=True)
class Installed:
    """A node with the kit, and the account that may use it."""

    node: Node
    account: str

    @property
    def kit(self) -> tuple[str, ...]:
        return ("sudo", "-n", f"{self.node.paths.directory}/rackmedic-act")

    @property
    def look(self) -> tuple[str, ...]:
        return ("sudo", "-n", f"{self.node.paths.directory}/rackmedic-look")


@pytest.fixture(scope="module")
def installed() -> Iterator[Installed]:
    """Create account, scripts and sudoers file, and remove all of them at the end."""
    account = f"rmkit-{secrets.token_hex(3)}"
    root = Path(tempfile.mkdtemp(prefix="rackmedic-kit-"))
    rules = SUDOERS / f"zz-{account}"
    with contextlib.ExitStack() as undo:
        undo.callback(shutil.rmtree, root, ignore_errors=True)
        root.chmod(0o755)
        node = Node(root, account=account)
        undo.callback(node.kill_all)
        subprocess.run(["useradd", "--create-home", "--shell", "/bin/sh", "--password", "*", account], check=True, capture_output=True)
        undo.callback(subprocess.run, ["userdel", "--remove", account], check=True, capture_output=True)
        for script in ("rackmedic-act", "rackmedic-look"):
            (root / "sbin" / script).chmod(0o755)
        undo.callback(rules.unlink, missing_ok=True)
        rules.touch(mode=0o440)
        rules.write_text((root / "sbin/sudoers").read_text())
        yield Installed(node, account)


@pytest.fixture
async def reach(installed: Installed) -> AsyncIterator[tuple[SshTransport, Sshd, Inventory]]:
    """Connect as that account through sshd with the kit's settings."""
    with tempfile.TemporaryDirectory(prefix="rackmedic-sshd-") as name:
        directory = Path(name)
        directory.chmod(0o755)
        snippet = (installed.node.root / "sbin/sshd_config").read_text().splitlines()
        async with sshd(directory, *snippet) as server:
            keys = Path(installed.node.paths.keys)
            keys.mkdir(exist_ok=True)
            (keys / installed.account).write_text((directory / "client.pub").read_text())
            inventory = server.inventory(HOST, user=installed.account, kit=True)
            ssh = SshTransport(inventory, BRISK)
            yield ssh, server, inventory
            await ssh.aclose()
    (installed.node.root / "calls").unlink(missing_ok=True)


Reach = tuple[SshTransport, Sshd, Inventory]


async def _run(reach: Reach, *argv: str) -> CommandResult:
    return await reach[0].run(HOST, argv, timeout=PATIENCE, cap=200_000)


# -- the account's rights -------------------------------------------------------------------------------------


async def test_the_account_may_use_both_scripts(installed: Installed, reach: Reach) -> None:
    installed.node.stub("dmesg", 'echo "uid $(id -u)"')
    looked = await _run(reach, *installed.look, "dmesg.ring")
    assert (looked.text, looked.exit_status) == ("uid 0\n", 0)
    assert (await read_kit_state(HOST, reach[0], installed.kit)).state == "current"


OTHER_COMMANDS = (
    ("id",), ("-i",), ("-s",), ("-u", "root", "id"), ("-u", "nobody", "{kit}/rackmedic-act", "version"),
    ("-E", "{kit}/rackmedic-act", "version"), ("sh",), ("bash", "-c", "id"), ("/bin/sh", "{kit}/rackmedic-act", "version"),
    ("{kit}/rackmedic-act-x",), ("{kit}/install.sh",), ("{kit}/sudoers",), ("nvidia-smi", "--gpu-reset"), ("systemctl", "reboot"),
    ("reboot",), ("tee", "{kit}/rackmedic-act"), ("cp", "/bin/sh", "{kit}/rackmedic-act"), ("vi", "{kit}/rackmedic-act"), ("visudo",),
    ("-e", "{kit}/rackmedic-act"), ("su",), ("env", "{kit}/rackmedic-act", "version"),
    ("LD_PRELOAD=/tmp/x.so", "{kit}/rackmedic-act", "version"), ("PATH=/tmp", "{kit}/rackmedic-act", "version"),
    ("BASH_ENV=/tmp/x", "{kit}/rackmedic-look", "version"), ("cat", "/etc/shadow"), ("-C", "10", "id"), ("/tmp/link-to-act", "version"),
    ("chmod", "u+s", "/bin/sh"), ("-R", "/tmp", "{kit}/rackmedic-act", "version"), ("-D", "/tmp", "{kit}/rackmedic-act"),
)  # fmt: skip


async def test_sudo_gives_the_account_those_two_paths_and_nothing_else(installed: Installed, reach: Reach) -> None:
    directory = installed.node.paths.directory
    for words in OTHER_COMMANDS:
        ran = await _run(reach, "sudo", "-n", *(word.replace("{kit}", directory) for word in words))
        assert ran.exit_status == 1, words
        assert ran.stdout == b"", words
        assert b"sudo: " in ran.stderr or b"Sorry, user" in ran.stderr, words
    listed = (await _run(reach, "sudo", "-n", "-l")).text
    rules = listed.split("may run the following commands", 1)[1].splitlines()[1:]
    assert [rule.replace("NOSETENV: ", "").strip() for rule in rules] == [
        f"(root) NOPASSWD: {directory}/rackmedic-look, {directory}/rackmedic-act"
    ]
    assert installed.node.calls == []


async def test_another_name_for_a_script_runs_the_script_itself_or_nothing(installed: Installed, reach: Reach) -> None:
    directory, home = installed.node.paths.directory, f"/home/{installed.account}"
    await _run(reach, "ln", "-s", f"{directory}/rackmedic-act", f"{home}/rackmedic-act")
    for path in (f"{directory}/../sbin/rackmedic-act", f"{directory}//rackmedic-act", f"{home}/rackmedic-act"):
        ran = await _run(reach, "sudo", "-n", path, "version")
        assert ran.text in ("", f"{get_current_kit_version()}\n"), path
    await _run(
        reach, "sh", "-c", f"rm {home}/rackmedic-act; printf '#!/bin/sh\\nid -u\\n' >{home}/rackmedic-act; chmod 755 {home}/rackmedic-act"
    )
    ran = await _run(reach, "sudo", "-n", f"{home}/rackmedic-act", "version")
    assert (ran.exit_status, ran.stdout) == (1, b"")


async def test_the_account_can_neither_change_the_kit_nor_read_or_forge_its_records(installed: Installed, reach: Reach) -> None:
    root, directory = installed.node.root, installed.node.paths.directory
    installed.node.start(f"{99:064x}", "modprobe_peermem")
    installed.node.ended(f"{99:064x}")
    state = installed.node.paths.state
    for line in (
        f"echo x >>{directory}/rackmedic-act",
        f"rm -f {directory}/rackmedic-act",
        f"mv {directory}/rackmedic-act {directory}/a",
        f"ln -sf /bin/sh {directory}/rackmedic-look",
        f"chmod 777 {directory}",
        f"ls {state}",
        f"cat {state}/actions/{99:064x}/command",
        f"mkdir {state}/actions/{1:064x}",
        f"echo 0 >{state}/actions/{99:064x}/status",
        f"echo x >{SUDOERS}/zz-{installed.account}",
        f"cat {SUDOERS}/zz-{installed.account}",
        f"echo {BOOT} >{root}/proc/sys/kernel/random/boot_id",
    ):
        ran = await _run(reach, "sh", "-c", f"{{ {line}; }} 2>&1")
        assert ran.exit_status != 0, line
        assert "denied" in ran.text or "not permitted" in ran.text, (line, ran.text)


async def test_the_accounts_environment_and_paths_do_not_reach_the_script(installed: Installed, reach: Reach) -> None:
    home = f"/home/{installed.account}"
    installed.node.stub("modprobe", f"env >{installed.node.root}/env")
    trap = f"mkdir -p {home}/bin; for t in modprobe flock cat timeout sh nvidia-smi; do printf '#!/bin/sh\\ntouch {home}/trapped\\n' >{home}/bin/$t; "
    trap += f"chmod 755 {home}/bin/$t; done; echo 'touch {home}/trapped' >{home}/rc; ln -sf {installed.node.paths.directory}/rackmedic-act {home}/act"
    await _run(reach, "sh", "-c", trap)
    words = (*installed.kit, "start", f"{77:064x}", BOOT, "modprobe_peermem")
    hostile = (
        f"PATH={home}/bin:/usr/bin:/bin ENV={home}/rc BASH_ENV={home}/rc IFS=/ LD_PRELOAD={home}/x.so LD_LIBRARY_PATH={home} TMPDIR={home}"
    )
    hostile += f" PROC={home} STATE={home} LC_ALL=C.UTF-8 record={home} SUDO_EDITOR={home}/bin/sh BASH_FUNC_flock%%='() {{ touch {home}/trapped; }}'"
    ran = await _run(reach, "sh", "-c", f"cd {home}/bin; exec /usr/bin/env {hostile} /usr/bin/{' '.join(words)}")
    assert ran.text == "started\n", ran.stderr
    assert installed.node.ended(f"{77:064x}").first == "done 0"
    env = (installed.node.root / "env").read_text()
    assert home not in env.replace(f"SUDO_HOME={home}", "")
    assert f"PATH={installed.node.paths.search}\n" in env
    assert not Path(home, "trapped").exists()
    linked = await _run(reach, "sudo", "-n", f"{home}/act", "version")
    assert linked.exit_status == 1
    assert linked.stdout == b""


async def test_the_accounts_connection_forwards_nothing(installed: Installed, reach: Reach) -> None:
    _, server, inventory = reach
    row = inventory.hosts[HOST]
    async with asyncssh.connect(
        "127.0.0.1", server.port, username=row.user, client_keys=[row.key], known_hosts=row.known_hosts, config=None, agent_path=None
    ) as connection:
        with pytest.raises(asyncssh.ChannelOpenError):
            await connection.open_connection("127.0.0.1", server.port)
        with pytest.raises(asyncssh.ChannelOpenError):
            await connection.open_unix_connection("/run/docker.sock")


async def test_a_key_below_the_accounts_own_home_opens_nothing(installed: Installed, reach: Reach) -> None:
    """The account cannot authorise further keys, and its other files have no effect."""
    server, inventory = reach[1], reach[2]
    keygen(server.directory / "own")
    line = (server.directory / "own.pub").read_text().strip()
    await _run(reach, "sh", "-c", f"mkdir -p ~/.ssh; for f in authorized_keys authorized_keys2; do echo '{line}' >~/.ssh/$f; done")
    row = inventory.hosts[HOST]
    own = row.model_copy(update={"key": str(server.directory / "own")})
    refused = SshTransport(inventory.model_copy(update={"hosts": {HOST: own}}), BRISK)
    try:
        with pytest.raises(Unreachable):
            await refused.run(HOST, ("true",), timeout=PATIENCE, cap=1000)
    finally:
        await refused.aclose()


# -- a whole action --------------------------------------------------------------------------------------------------------


async def _claimed(reach: Reach, desk: Desk, remedy: str, **args: str) -> tuple[Claim, Action]:
    ssh, _, inventory = reach
    host = inventory.hosts[HOST]
    seen = HostIdentity(BOOT, await ssh.fingerprint(HOST))
    action = build_action(ActionRequest(remedy, args, "inc-1"), host, host, seen, policy=POLICY, catalogue=CATALOGUE)
    row = await desk.approved(action)
    return await desk.ledger.claim(row.approval, row.digest, "w1", policy=POLICY, catalogue=CATALOGUE, authorised=PEOPLE), action


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    async with FakeAsyncRedis() as redis:
        yield Desk(redis)


def _no_pause() -> Callable[[float], Awaitable[None]]:
    async def pause(seconds: float) -> None:
        await asyncio.sleep(0)

    return pause


async def test_an_approved_action_runs_as_root_through_ssh_and_is_settled(installed: Installed, reach: Reach, desk: Desk) -> None:
    installed.node.stub("nvidia-smi", 'case $1 in --gpu-reset) echo "reset by uid $(id -u)" ;; esac')
    claim, action = await _claimed(reach, desk, "gpu_reset", bdf=BDF)
    ended = await act.run_action(claim, reach[0], clock=WallClock(), beat=desk.ledger.send_heartbeat, pause=_no_pause(), kit=installed.kit)
    assert ended == act.ExecutionResult("done", 0, "reset by uid 0\n")
    row = await desk.ledger.finish(claim, ended.state, exit_status=ended.exit_status, output=ended.output)
    assert row.state == "done"
    assert installed.node.calls[-1] == " ".join(action.command)
    assert (await act.settle_action(action, reach[0], installed.kit)).word == "done"
    assert len(installed.node.calls) == 2


async def test_a_connection_that_dies_right_after_start_changes_nothing(installed: Installed, reach: Reach, desk: Desk) -> None:
    installed.node.idle()
    installed.node.stub("modprobe", f"{installed.node.stop_at('work')}; echo effect >>{installed.node.root}/effect")
    claim, action = await _claimed(reach, desk, "modprobe_peermem")
    assert (await act.start_action(claim, reach[0], installed.kit)).word == "started"
    await asyncio.to_thread(installed.node.reached, "work")
    await asyncio.to_thread(subprocess.run, ["pkill", "-KILL", "-u", installed.account], check=False)
    await reach[0].aclose()
    assert (await act.settle_action(action, reach[0], installed.kit)).word == "running"
    await asyncio.to_thread(installed.node.open_gate, "work")
    await asyncio.to_thread(installed.node.ended, action.digest)
    adopted = await _adopted(desk, claim)
    ended = await act.run_action(
        adopted, reach[0], clock=WallClock(), beat=desk.ledger.send_heartbeat, pause=_no_pause(), kit=installed.kit
    )
    assert ended.state == "done"
    assert (installed.node.root / "effect").read_text() == "effect\n"


async def _adopted(desk: Desk, claim: Claim) -> Claim:
    desk.clock.go(minutes=5)
    adopted: Claim | None = await desk.ledger.adopt(claim.action.approval, "w2")
    assert adopted is not None
    assert not adopted.may_start
    return adopted


async def test_a_host_without_the_kit_says_so_and_nothing_is_in_doubt(reach: Reach, desk: Desk) -> None:
    missing = ("sudo", "-n", "/usr/local/sbin/rackmedic-act-of-nobody")
    state = await read_kit_state(HOST, reach[0], missing)
    claim, action = await _claimed(reach, desk, "gpu_reset", bdf=BDF)
    ended = await act.run_action(claim, reach[0], clock=WallClock(), beat=desk.ledger.send_heartbeat, pause=_no_pause(), kit=missing)
    assert state == KitState("missing", says=state.says)
    assert state.explain_unusable(action).endswith(f"as root on {HOST}: nvidia-smi --gpu-reset -i {BDF}")
    assert ended.state == "failed"
    assert ended.says.startswith("nothing was started: sudo: ")
