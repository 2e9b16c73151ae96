"""The SSH transport against a real OpenSSH server on loopback: what asyncssh does not do alone."""

import asyncio
import getpass
import os
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from tests.support.clock import PATIENCE
from tests.support.fixtures_sshd import free_port, keygen, needs_sshd, sshd
from tools.fact import Status
from tools.inventory.inventory import parse_inventory
from tools.ssh.client import SET_PATH_SCRIPT, SshLimits, SshTransport, build_remote_command
from tools.ssh.lazy import LazySshTransport
from tools.transport import AccessBarrier, Unreachable

pytestmark = [needs_sshd, pytest.mark.slow]
BRISK = SshLimits(connect_seconds=30, login_seconds=30, keepalive_seconds=0.5, grace_seconds=1)


async def test_a_command_runs_with_every_word_quoted_once(tmp_path: Path) -> None:
    async with sshd(tmp_path) as server:
        ssh = SshTransport(server.inventory(), BRISK)
        ran = await ssh.run("n1", ["printf", "%s|", "a b", "$(id)", "x;y", "*"], timeout=PATIENCE, cap=1000)
        await ssh.aclose()
    assert (ran.text, ran.exit_status) == ("a b|$(id)|x;y|*|", 0)


async def test_who_seldom_asks_builds_it_at_the_first_command_and_only_once(tmp_path: Path) -> None:
    built: list[SshTransport] = []

    def build() -> SshTransport:
        built.append(SshTransport(server.inventory(), BRISK))
        return built[-1]

    async with sshd(tmp_path) as server:
        never, late = LazySshTransport(build), LazySshTransport(build)
        await never.aclose()
        assert built == []
        asked = (late.run("n1", ["echo", "hello"], timeout=PATIENCE, cap=1000) for _ in range(3))
        rans, key = await asyncio.gather(asyncio.gather(*asked), late.fingerprint("n1"))
        await late.aclose()
    assert [ran.text for ran in rans] == ["hello\n"] * 3
    assert key.startswith("SHA256:")
    assert len(built) == 1


@pytest.mark.parametrize("cipher", ["aes256-gcm@openssh.com", "chacha20-poly1305@openssh.com", "aes256-ctr"])
async def test_an_sshd_that_knows_one_cipher_only_is_met_by_it(tmp_path: Path, cipher: str) -> None:
    async with sshd(tmp_path, f"Ciphers {cipher}") as server:
        ssh = SshTransport(server.inventory(), BRISK)
        ran = await ssh.run("n1", ["echo", "hello"], timeout=PATIENCE, cap=1000)
        await ssh.aclose()
    assert ran.text == "hello\n"


async def test_bytes_that_are_no_utf8_do_not_kill_the_connection(tmp_path: Path) -> None:
    async with sshd(tmp_path) as server:
        ssh = SshTransport(server.inventory(), BRISK)
        binary = await ssh.run("n1", ["printf", r"\377\376ok"], timeout=PATIENCE, cap=1000)
        after = await ssh.run("n1", ["echo", "still here"], timeout=PATIENCE, cap=1000)
        await ssh.aclose()
    assert binary.stdout == b"\xff\xfeok"
    assert after.text == "still here\n"


async def test_output_past_the_cap_is_cut_and_said_so(tmp_path: Path) -> None:
    async with sshd(tmp_path) as server:
        ssh = SshTransport(server.inventory(), BRISK)
        ran = await ssh.run("n1", ["yes"], timeout=PATIENCE, cap=100_000)
        await ssh.aclose()
    assert ran.truncated
    assert len(ran.stdout) == 100_000
    assert ran.seconds < 10, "the cap, not the time limit, ended it"


async def test_a_time_limit_ends_the_remote_process_too(tmp_path: Path) -> None:
    async with sshd(tmp_path) as server:
        ssh = SshTransport(server.inventory(), BRISK)
        ran = await ssh.run("n1", ["sleep", "4217"], timeout=0.5, cap=1000)
        left = subprocess.run(["pgrep", "-f", "sleep 4217"], capture_output=True, check=False)
        await ssh.aclose()
    assert ran.timed_out
    assert left.returncode == 1, "no remote process is left"


async def test_a_lost_connection_is_told_from_an_ended_command(tmp_path: Path) -> None:
    async with sshd(tmp_path) as server:
        ssh = SshTransport(server.inventory(), BRISK)
        suicide = "kill -9 $(ps -o ppid= -p $PPID); exec sleep 30"
        ran = await ssh.run("n1", ["sh", "-c", suicide], timeout=PATIENCE, cap=100)
        await ssh.aclose()
    assert ran.exit_status is None
    assert not ran.timed_out


async def test_a_changed_host_key_is_refused_with_the_mend(tmp_path: Path) -> None:
    async with sshd(tmp_path) as server:
        keygen(tmp_path / "other")
        other = (tmp_path / "other.pub").read_text().split()
        (tmp_path / "known_hosts").write_text(f"[127.0.0.1]:{server.port} {other[0]} {other[1]}\n")
        ssh = SshTransport(server.inventory(), BRISK)
        with pytest.raises(Unreachable, match=r"host key not verified.*re-installed or something answers in its place") as told:
            await ssh.run("n1", ["true"], timeout=PATIENCE, cap=10)
        assert told.value.barrier is AccessBarrier.CHANGED_KEY
        await ssh.aclose()


async def test_without_known_hosts_nothing_is_trusted(tmp_path: Path) -> None:
    async with sshd(tmp_path) as server:
        (tmp_path / "empty").write_text("")
        ssh = SshTransport(server.inventory(known_hosts=str(tmp_path / "empty")), BRISK)
        with pytest.raises(Unreachable, match=r"host key not verified.*known_hosts has no key of 127\.0\.0\.1") as told:
            await ssh.run("n1", ["true"], timeout=PATIENCE, cap=10)
        assert told.value.barrier is AccessBarrier.UNLISTED_KEY
        await ssh.aclose()


async def test_a_host_certificate_of_a_trusted_authority_is_enough(tmp_path: Path) -> None:
    keygen(tmp_path / "ca")
    keygen(tmp_path / "host")
    sign = ["ssh-keygen", "-q", "-s", str(tmp_path / "ca"), "-I", "n1", "-h", "-n", "gpu-001", str(tmp_path / "host.pub")]
    subprocess.run(sign, check=True)
    authority = (tmp_path / "ca.pub").read_text().split()
    (tmp_path / "trusted").write_text(f"@cert-authority gpu-* {authority[0]} {authority[1]}\n")
    async with sshd(tmp_path, f"HostCertificate {tmp_path / 'host-cert.pub'}") as server:
        good = SshTransport(server.inventory(known_hosts=str(tmp_path / "trusted"), host_key_alias="gpu-001"), BRISK)
        ran = await good.run("n1", ["echo", "hello"], timeout=PATIENCE, cap=10)
        wrong = SshTransport(server.inventory(known_hosts=str(tmp_path / "trusted"), host_key_alias="gpu-002"), BRISK)
        with pytest.raises(Unreachable, match="host key"):
            await wrong.run("n1", ["true"], timeout=PATIENCE, cap=10)
        await good.aclose()
        await wrong.aclose()
    assert ran.text == "hello\n"


async def test_a_stranger_key_is_denied_not_unreachable(tmp_path: Path) -> None:
    async with sshd(tmp_path) as server:
        keygen(tmp_path / "stranger")
        ssh = SshTransport(server.inventory(key=str(tmp_path / "stranger")), BRISK)
        with pytest.raises(Unreachable) as refused:
            await ssh.run("n1", ["true"], timeout=PATIENCE, cap=10)
        await ssh.aclose()
    assert (refused.value.status, refused.value.barrier) == (Status.DENIED, AccessBarrier.LOGIN)


async def test_a_closed_port_and_a_mute_port_are_told_apart(tmp_path: Path) -> None:
    keygen(tmp_path / "client")
    (tmp_path / "known_hosts").write_text("")
    reach = {"address": "127.0.0.1", "key": str(tmp_path / "client"), "known_hosts": str(tmp_path / "known_hosts")}
    mute = socket.create_server(("127.0.0.1", 0))
    port = mute.getsockname()[1]
    rows = {"closed": reach | {"port": free_port()}, "mute": reach | {"port": port}}
    inventory = parse_inventory({"groups": {"g": {"hosts": "closed,mute"}}, "hosts": rows})
    ssh = SshTransport(inventory, SshLimits(connect_seconds=0.5, login_seconds=0.5))
    with pytest.raises(Unreachable, match=r"refused|Connect call failed"):
        await ssh.run("closed", ["true"], timeout=1, cap=10)
    with pytest.raises(Unreachable) as silent:
        await ssh.run("mute", ["true"], timeout=1, cap=10)
    assert silent.value.status in (Status.TIMEOUT, Status.UNREACHABLE)
    mute.close()


async def test_a_mute_host_is_tried_once_for_all_who_ask_it(tmp_path: Path) -> None:
    keygen(tmp_path / "client")
    (tmp_path / "known_hosts").write_text("")
    tried: list[asyncio.StreamWriter] = []

    async def mute(_: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        tried.append(back)

    async with await asyncio.start_server(mute, "127.0.0.1", 0) as server:
        reach = {"address": "127.0.0.1", "port": server.sockets[0].getsockname()[1], "key": str(tmp_path / "client")}
        rows = {"n1": reach | {"known_hosts": str(tmp_path / "known_hosts")}}
        ssh = SshTransport(
            parse_inventory({"groups": {"g": {"hosts": "n1"}}, "hosts": rows}), SshLimits(connect_seconds=0.5, login_seconds=0.5)
        )
        asked = [ssh.run("n1", ["true"], timeout=1, cap=10) for _ in range(40)]
        found = await asyncio.gather(*asked, return_exceptions=True)
        await ssh.aclose()
        for line in tried:
            line.close()
    assert all(isinstance(one, Unreachable) for one in found)
    assert len(tried) == 1


async def test_one_connection_carries_many_commands_within_maxsessions(tmp_path: Path) -> None:
    async with sshd(tmp_path) as server:
        ssh = SshTransport(server.inventory(), BRISK)
        rans = await asyncio.gather(*(ssh.run("n1", ["sh", "-c", "echo $SSH_CONNECTION"], timeout=PATIENCE, cap=200) for _ in range(40)))
        await ssh.aclose()
    assert all(ran.exit_status == 0 for ran in rans)
    assert len({ran.text for ran in rans}) == 1, "all over one connection"


@pytest.mark.parametrize("allowed", [1, 2, 3])
async def test_sessions_that_sshd_refuses_are_asked_for_again_until_every_command_has_run_once(tmp_path: Path, allowed: int) -> None:
    ran_on = tmp_path / "ran"
    async with sshd(tmp_path, f"MaxSessions {allowed}") as server:
        ssh = SshTransport(server.inventory(), BRISK)
        said = "echo $1 >> " + str(ran_on)
        rans = await asyncio.gather(*(ssh.run("n1", ["sh", "-c", said, "sh", str(n)], timeout=PATIENCE, cap=100) for n in range(40)))
        await ssh.aclose()
    assert [ran.exit_status for ran in rans] == [0] * 40
    assert sorted(map(int, ran_on.read_text().split())) == list(range(40)), "none was lost, none ran twice"


async def test_an_sshd_that_opens_no_session_at_all_is_told_with_the_mend(tmp_path: Path) -> None:
    async with sshd(tmp_path, "MaxSessions 0") as server:
        ssh = SshTransport(server.inventory(), BRISK)
        with pytest.raises(Unreachable, match="MaxSessions"):
            await ssh.run("n1", ["true"], timeout=PATIENCE, cap=10)
        await ssh.aclose()


async def test_sshd_that_drops_early_connections_is_met_with_patience(tmp_path: Path) -> None:
    async with sshd(tmp_path, "MaxStartups 2:60:6") as server:
        names = "n[1-12]"
        row = server.inventory().hosts["n1"]
        reach = {"address": "127.0.0.1", "port": row.port, "user": row.user, "key": row.key, "known_hosts": row.known_hosts}
        inventory = parse_inventory({"groups": {"g": {"hosts": names}}, "hosts": {f"n{i}": reach for i in range(1, 13)}})
        ssh = SshTransport(inventory, SshLimits(attempts=7, login_seconds=30))
        rans = await asyncio.gather(*(ssh.run(f"n{i}", ["true"], timeout=PATIENCE, cap=10) for i in range(1, 13)))
        await ssh.aclose()
    assert [ran.exit_status for ran in rans] == [0] * 12


async def test_hosts_behind_a_bastion_share_its_connection(tmp_path: Path) -> None:
    async with sshd(tmp_path) as server:
        user = server.inventory().hosts["n1"].user
        ssh = SshTransport(server.inventory(jump=f"{user}@127.0.0.1:{server.port}"), BRISK)
        ran = await ssh.run("n1", ["echo", "through"], timeout=PATIENCE, cap=100)
        await ssh.aclose()
    assert ran.text == "through\n"


async def test_a_dead_bastion_is_named(tmp_path: Path) -> None:
    async with sshd(tmp_path) as server:
        ssh = SshTransport(server.inventory(jump=f"127.0.0.1:{free_port()}"), BRISK)
        with pytest.raises(Unreachable, match="bastion"):
            await ssh.run("n1", ["true"], timeout=PATIENCE, cap=100)
        await ssh.aclose()


async def test_a_connection_that_died_is_opened_anew(tmp_path: Path) -> None:
    async with sshd(tmp_path) as server:
        ssh = SshTransport(server.inventory(), BRISK)
        pid = int((await ssh.run("n1", ["sh", "-c", "ps -o ppid= -p $PPID"], timeout=PATIENCE, cap=100)).text)
        os.kill(pid, signal.SIGKILL)
        answers = [await _status(ssh) for _ in range(2)]
        await ssh.aclose()
    assert answers[-1] == 0


async def _status(ssh: SshTransport) -> int | None:
    try:
        return (await ssh.run("n1", ["true"], timeout=PATIENCE, cap=10)).exit_status
    except Unreachable:
        return None


async def test_an_unknown_host_is_refused_not_resolved() -> None:
    ssh = SshTransport(parse_inventory({"groups": {"g": {"hosts": "n1"}}}))
    with pytest.raises(Unreachable, match="not in the inventory"):
        await ssh.run("localhost", ["true"], timeout=1, cap=10)


def test_the_remote_line_holds_its_own_time_limit() -> None:
    assert build_remote_command(["echo", "a b"], 20) == f"timeout -k 2 20 sh -c '{SET_PATH_SCRIPT}' sh echo 'a b'"


async def test_commands_are_also_found_where_sshd_does_not_look(tmp_path: Path) -> None:
    async with sshd(tmp_path, "SetEnv PATH=/opt/site/bin:/usr/bin:/bin") as server:
        ssh = SshTransport(server.inventory(), BRISK)
        path = await ssh.run("n1", ["sh", "-c", "echo $PATH"], timeout=PATIENCE, cap=1000)
        await ssh.aclose()
    folders = path.text.strip().split(":")
    assert folders.index("/opt/site/bin") < folders.index("/usr/local/sbin"), "what the site set comes first"
    assert {"/usr/local/sbin", "/usr/sbin", "/sbin"} <= set(folders)


async def test_user_port_key_certificate_and_bastion_of_a_group_are_used(tmp_path: Path) -> None:
    keygen(tmp_path / "ca")
    keygen(tmp_path / "member")
    me = getpass.getuser()
    sign = ["ssh-keygen", "-q", "-s", str(tmp_path / "ca"), "-I", "rackmedic", "-n", me, str(tmp_path / "member.pub")]
    subprocess.run(sign, check=True)
    async with sshd(tmp_path, f"TrustedUserCAKeys {tmp_path / 'ca.pub'}") as server:
        (tmp_path / "authorized_keys").write_text("")
        shared = {"user": me, "port": server.port, "key": str(tmp_path / "member"), "certificate": str(tmp_path / "member-cert.pub")}
        group = {"hosts": "n1,n2", "known_hosts": str(tmp_path / "known_hosts"), "jump": f"{me}@127.0.0.1:{server.port}", **shared}
        hosts = {name: {"address": "127.0.0.1"} for name in ("n1", "n2")}
        ssh = SshTransport(parse_inventory({"groups": {"g": group}, "hosts": hosts}), BRISK)
        rans = [await ssh.run(name, ["id", "-un"], timeout=PATIENCE, cap=100) for name in ("n1", "n2")]
        await ssh.aclose()
    assert [ran.text for ran in rans] == [f"{me}\n"] * 2


async def test_known_hosts_are_read_once_and_again_when_they_change(tmp_path: Path) -> None:
    async with sshd(tmp_path) as server:
        trusted = tmp_path / "trusted"
        trusted.write_text("")
        ssh = SshTransport(server.inventory(known_hosts=str(trusted)), BRISK)
        with pytest.raises(Unreachable, match="host key not verified"):
            await ssh.run("n1", ["true"], timeout=PATIENCE, cap=10)
        trusted.write_text((tmp_path / "known_hosts").read_text())
        ran = await ssh.run("n1", ["true"], timeout=PATIENCE, cap=10)
        await ssh.aclose()
    assert ran.exit_status == 0


@pytest.mark.parametrize("text", [None, "[127.0.0.1]:22 ssh-ed25519\n", "\0\n"])
async def test_unreadable_known_hosts_trust_no_host(tmp_path: Path, text: str | None) -> None:
    async with sshd(tmp_path) as server:
        if text is not None:
            (tmp_path / "broken").write_text(text)
        ssh = SshTransport(server.inventory(known_hosts=str(tmp_path / "broken")), BRISK)
        with pytest.raises(Unreachable, match=r"known_hosts cannot be read|host key not verified"):
            await ssh.run("n1", ["true"], timeout=PATIENCE, cap=10)
        await ssh.aclose()
