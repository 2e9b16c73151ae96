"""Over real SSH nodes answer as in process, with simulated network and host failures."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import asyncssh
import pytest

from deploy.sandbox.cluster.access.cluster import Cluster
from deploy.sandbox.cluster.access.in_process import InProcessTransport
from deploy.sandbox.cluster.access.sshd import SshCluster
from tests.support.clock import PATIENCE
from tests.support.fakes_cluster import argv, cluster
from tests.support.inventories import inventory_of
from tools.ssh.client import SshLimits, SshTransport
from tools.transport import CommandResult, Unreachable

QUICK = SshLimits(connect_seconds=30, login_seconds=30, keepalive_seconds=0.3, attempts=1, grace_seconds=0.5)


@contextlib.asynccontextmanager
async def reached(of: Cluster, folder: Path) -> AsyncIterator[tuple[SshCluster, SshTransport]]:
    """Run the cluster's servers and the product's client on their inventory."""
    async with SshCluster(of, folder) as servers:
        client = SshTransport(inventory_of(folder / "inventory.yaml"), QUICK)
        try:
            yield servers, client
        finally:
            await client.aclose()


async def _ask(
    client: SshTransport, command: str = "mods.kernel", host: str = "n0", timeout: float = 5, cap: int = 1 << 22
) -> CommandResult:
    return await client.run(host, argv(command), timeout=timeout, cap=cap)


async def test_ssh_and_in_process_answers_are_the_same(tmp_path: Path) -> None:
    of, twin = cluster("G07@n0", nodes=2), InProcessTransport(cluster("G07@n0", nodes=2))
    async with reached(of, tmp_path) as (_, client):
        for command in ("smi.query", "dmesg.ring", "lspci.gpus", "joblog.tail", "ibstat.counters", "env.job", "mods.loaded"):
            for host in of.hosts:
                here, there = await twin.run(host, argv(command), timeout=PATIENCE, cap=1 << 22), await _ask(client, command, host)
                assert (there.stdout, there.stderr, there.exit_status) == (here.stdout, here.stderr, here.exit_status)
    assert not of.unsafe_commands


async def test_every_node_has_a_host_key_of_its_own(tmp_path: Path) -> None:
    async with reached(cluster(nodes=3), tmp_path) as (_, client):
        for host in ("n0", "n1", "n2"):
            await _ask(client, host=host)
        assert len({await client.fingerprint(host) for host in ("n0", "n1", "n2")}) == 3


async def test_a_command_that_is_in_no_table_is_refused_and_counted(tmp_path: Path) -> None:
    of = cluster(nodes=1)
    async with reached(of, tmp_path) as (_, client):
        ran = await client.run("n0", ("nvidia-smi", "-r"), timeout=PATIENCE, cap=1000)
    assert ran.exit_status == 127
    assert [row.argv for row in of.unsafe_commands] == [("nvidia-smi", "-r")]


async def test_a_hanging_command_ends_with_its_time_limit(tmp_path: Path) -> None:
    async with reached(cluster("G10@n0", nodes=1), tmp_path) as (_, client):
        ran = await _ask(client, "smi.query", timeout=0.2)
        assert (ran.timed_out, ran.stdout) == (True, b"")
        assert (await _ask(client)).exit_status == 0


async def test_only_single_commands_and_the_right_key_are_let_in(tmp_path: Path) -> None:
    async with SshCluster(cluster(nodes=1), tmp_path) as servers:
        host = inventory_of(tmp_path / "inventory.yaml").hosts["n0"]
        options = {"username": host.user, "known_hosts": host.known_hosts, "config": None, "agent_path": None}
        async with asyncssh.connect(host.address, host.port, client_keys=[host.key], **options) as connection:
            shell = await connection.run(check=False)
            assert shell.exit_status == 1
            with pytest.raises(asyncssh.ChannelOpenError):
                await connection.open_connection("127.0.0.1", 22)
        stranger = asyncssh.generate_private_key("ssh-ed25519")
        with pytest.raises(asyncssh.PermissionDenied):
            await asyncssh.connect(host.address, host.port, client_keys=[stranger], **options)
        assert set(servers.inventory()["hosts"]) == {"n0"}


async def test_a_changed_host_key_is_not_trusted(tmp_path: Path) -> None:
    async with reached(cluster(nodes=2), tmp_path) as (servers, client):
        await _ask(client)
        await servers.change_host_key("n0")
        await asyncio.wait_for(_until_lost(client), PATIENCE)
        with pytest.raises(Unreachable, match="host key not verified"):
            await _ask(client)
        assert (await _ask(client, host="n1")).exit_status == 0


async def _until_lost(client: SshTransport) -> None:
    """Wait until the client notices that its connection is gone."""
    with contextlib.suppress(Unreachable):
        while (await _ask(client)).exit_status is not None:
            pass


async def test_a_dropped_connection_is_lost_and_the_next_one_works(tmp_path: Path) -> None:
    async with reached(cluster("G10@n0", nodes=1), tmp_path) as (servers, client):
        await _ask(client)
        waiting = asyncio.create_task(_ask(client, "smi.query", timeout=10 * PATIENCE))
        while not servers.running:  # noqa: ASYNC110  # the server has no event to give
            await asyncio.sleep(0)
        await servers.drop("n0")
        assert (await asyncio.wait_for(waiting, PATIENCE)).exit_status is None
        await asyncio.wait_for(_until_up(client), PATIENCE)


async def _until_up(client: SshTransport) -> None:
    while True:
        with contextlib.suppress(Unreachable):
            if (await _ask(client)).exit_status == 0:
                return
        await asyncio.sleep(0)


async def test_a_frozen_node_is_noticed_by_its_silence(tmp_path: Path) -> None:
    async with reached(cluster(nodes=1), tmp_path) as (servers, client):
        await _ask(client)
        servers.freeze("n0")
        with contextlib.suppress(Unreachable):
            ran = await asyncio.wait_for(_ask(client, timeout=10 * PATIENCE), PATIENCE)
            assert ran.exit_status is None
        servers.thaw("n0")
        await asyncio.wait_for(_until_up(client), PATIENCE)


async def test_sudo_may_refuse_and_outputs_may_be_rubbish(tmp_path: Path) -> None:
    async with reached(cluster(nodes=2), tmp_path) as (servers, client):
        servers.refuse_sudo("n0")
        ran = await _ask(client, "dmesg.ring")
        assert (ran.exit_status, ran.stderr) == (1, b"sudo: a password is required\n")
        servers.emit("n1", bytes(range(256)) * 40_000)
        ran = await _ask(client, "smi.query", "n1", cap=1 << 20)
        assert ran.truncated
        assert len(ran.stdout) == 1 << 20
        assert (await _ask(client, "mods.kernel", "n0")).exit_status == 0


async def test_a_node_that_is_switched_off_refuses_until_it_is_healed(tmp_path: Path) -> None:
    of = Cluster.of(nodes=["n0", "n1"])
    async with reached(of, tmp_path) as (_, client):
        await _ask(client)
        of.break_("O01", "n0")
        await asyncio.wait_for(_until_refused(client), PATIENCE)
        assert (await _ask(client, host="n1")).exit_status == 0
        of.heal()
        await asyncio.wait_for(_until_up(client), PATIENCE)


async def _until_refused(client: SshTransport) -> None:
    while True:
        try:
            await _ask(client)
        except Unreachable:
            return
        await asyncio.sleep(0)


async def test_changes_of_power_at_the_same_moment_are_followed_one_after_the_other(tmp_path: Path) -> None:
    of = cluster("O01@n0", nodes=2)
    failed: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, told: failed.append(told.get("exception")))
    async with reached(of, tmp_path) as (servers, client):
        with pytest.raises(Unreachable):
            await _ask(client)
        of.heal()
        await asyncio.gather(*(servers._follow_power() for _ in range(8)))
        assert (await _ask(client)).exit_status == 0
    assert failed == []
