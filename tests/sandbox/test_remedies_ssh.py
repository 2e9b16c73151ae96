"""The product repairs simulated machines over real SSH, from claim to outcome, despite network and host failures."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import aiohttp
from fakeredis import FakeAsyncRedis

from deploy.sandbox.cluster.access.cluster import Cluster
from deploy.sandbox.cluster.access.control import ControlServer
from deploy.sandbox.cluster.access.sshd import SshCluster
from tests.support.clock import PATIENCE, WallClock
from tests.support.fakes_cluster import argv, facts
from tests.support.fakes_ledger import Desk
from tests.support.fakes_repairs import CONTROL, NODE, Repairs, condition_of, faults_of, live, unsound
from tests.support.inventories import inventory_of
from tools.action import Action
from tools.execution import runner as act
from tools.execution.build import HostIdentity
from tools.execution.runner import ExecutionResult
from tools.ledger.claim import Claim
from tools.ssh.client import SshLimits, SshTransport
from tools.transport import Unreachable

QUICK = SshLimits(connect_seconds=30, login_seconds=30, keepalive_seconds=0.3, attempts=1, grace_seconds=0.5)


@dataclass
class Site:
    """The servers, the product's client, and the repairs."""

    of: Cluster
    servers: SshCluster
    client: SshTransport
    work: Repairs

    async def action(self, remedy: str, target: str = NODE, **args: str) -> Action:
        """Return the action with the host key that is approved with it."""
        via = (await self.work.action(remedy, target, **args)).via
        self.work.seen = {via: HostIdentity(await self.work.boot(via), await self.client.fingerprint(via))}
        return await self.work.action(remedy, target, **args)

    async def run(self, action: Action) -> ExecutionResult:
        """Run it as a worker does, with a claim of the real ledger."""
        desk = Desk(FakeAsyncRedis())
        held: Claim = await desk.claim(await desk.approved(action), policy=action.policy, catalogue=action.catalogue)
        return await act.run_action(held, self.client, clock=WallClock(), beat=_alive, pause=_moment)


async def _alive(claim: Claim) -> None: ...


async def _moment(seconds: float) -> None:
    await asyncio.sleep(0)


@contextlib.asynccontextmanager
async def site(of: Cluster, folder: Path) -> AsyncIterator[Site]:
    async with SshCluster(of, folder) as servers:
        client = SshTransport(inventory_of(folder / "inventory.yaml"), QUICK)
        try:
            yield Site(of, servers, client, Repairs(of, client))
        finally:
            await client.aclose()


async def _until_refused(client: SshTransport, host: str = NODE) -> None:
    with contextlib.suppress(Unreachable):
        while (await client.run(host, argv("mods.kernel"), timeout=PATIENCE, cap=100)).exit_status is not None:
            pass


async def _until_up(client: SshTransport, host: str = NODE) -> None:
    while True:
        with contextlib.suppress(Unreachable):
            if (await client.run(host, argv("mods.kernel"), timeout=PATIENCE, cap=100)).exit_status == 0:
                return
        await asyncio.sleep(0)


async def test_a_gpu_that_fell_off_the_bus_is_mended_by_drain_and_reboot(tmp_path: Path) -> None:
    of = live(pace=0.0003)
    of.break_("G07", NODE, gpu=5, outcome="cures")
    async with site(of, tmp_path) as here:
        assert (await here.run(await here.action("drain_node"))).state == "done"
        assert condition_of(of) == "drained"
        reboot = await here.action("reboot")
        assert await here.work.unmet(reboot) == []
        ended = await here.run(reboot)
        assert (ended.state, ended.exit_status) == ("done", 0)
        assert await here.work.boot() in ended.says
        assert await here.work.boot() != reboot.boot_id
        assert (faults_of(of), unsound(of), condition_of(of)) == ([], [], "drained")
        assert (await here.run(await here.action("resume_node"))).state == "done"
    assert condition_of(of) == "allocated"
    assert sorted(of.executions.values()) == [1, 1, 1]
    assert not of.unsafe_commands
    assert not [f for f in await facts(of, ["smi", "dmesg"], [NODE]) if f.key == "kernel.xid" and f.value == 79 and not f.stale]


async def test_what_a_tool_refuses_is_explained(tmp_path: Path) -> None:
    of = live()
    of.break_("G03", NODE, gpu=5)
    of.hold(NODE, 5)
    async with site(of, tmp_path) as here:
        ended = await here.run(await here.action("gpu_reset", bdf=here.work.bdf(5)))
    assert (ended.state, ended.exit_status) == ("failed", 255)
    assert ended.says.startswith("the GPU is still held by a client")


async def test_a_connection_that_breaks_neither_stops_nor_repeats_a_remedy(tmp_path: Path) -> None:
    of = live(pace=0.002)
    of.break_("G03", NODE, gpu=5)
    async with site(of, tmp_path) as here:
        action = await here.action("gpu_reset", bdf=here.work.bdf(5))
        running = asyncio.create_task(here.run(action))
        while not of.executions:  # noqa: ASYNC110  # the cluster has no event to give
            await asyncio.sleep(0)
        await here.servers.drop(NODE)
        ended = await asyncio.wait_for(running, PATIENCE)
    assert (ended.state, faults_of(of)) == ("done", [])
    assert of.executions == {(NODE, "gpu_reset", action.digest): 1}


async def test_a_host_that_died_after_the_approval_leaves_it_unclear_and_nothing_run(tmp_path: Path) -> None:
    of = live()
    async with site(of, tmp_path) as here:
        action = await here.action("modprobe_peermem")
        here.servers.toolbox.lose_power(NODE)
        await asyncio.wait_for(_until_refused(here.client), PATIENCE)
        assert (await here.work.start(action)).word == "unclear"
        here.servers.toolbox.boot(NODE)
        await asyncio.wait_for(_until_up(here.client), PATIENCE)
        assert (await here.work.start(action)).says == "the host has booted since the approval"
        assert (await here.work.settle(action)).word == "never"
    assert not of.executions


async def test_a_host_that_reboots_by_itself_during_a_remedy_leaves_it_unknown(tmp_path: Path) -> None:
    of = live(pace=0.5)
    of.break_("G03", NODE, gpu=5)
    async with site(of, tmp_path) as here:
        action = await here.action("gpu_reset", bdf=here.work.bdf(5))
        running = asyncio.create_task(here.run(action))
        while not of.executions:  # noqa: ASYNC110  # the cluster has no event to give
            await asyncio.sleep(0)
        here.servers.toolbox.lose_power(NODE, "panic")
        here.servers.toolbox.boot(NODE)
        ended = await asyncio.wait_for(running, PATIENCE)
        assert ended.state == "unknown"
        assert await here.work.boot() != action.boot_id
    assert of.executions == {(NODE, "gpu_reset", action.digest): 1}


async def test_a_reinstalled_host_is_not_trusted_and_remembers_nothing(tmp_path: Path) -> None:
    of = live()
    of.break_("S08", NODE)
    async with site(of, tmp_path) as here:
        action = await here.action("modprobe_peermem")
        assert (await here.run(action)).state == "done"
        assert [path.name for path in (here.servers.toolbox.records(NODE) / "actions").iterdir()] == [action.digest]
        await here.servers.reinstall(NODE)
        await asyncio.wait_for(_until_refused(here.client), PATIENCE)
        assert "host key not verified" in (await here.work.settle(action)).says
        assert not list(here.servers.toolbox.records(NODE).iterdir())


async def test_starts_from_many_connections_run_it_once(tmp_path: Path) -> None:
    of = live(pace=0.001)
    async with site(of, tmp_path) as here:
        action = await here.action("drain_node")
        async with contextlib.AsyncExitStack() as stack:
            others = [SshTransport(inventory_of(tmp_path / "inventory.yaml"), QUICK) for _ in range(4)]
            for client in others:
                stack.push_async_callback(client.aclose)
            said = await asyncio.gather(*(Repairs(of, client).start(action) for client in others for _ in range(5)))
        assert {row.word for row in said} <= {"started", "running", "done"}
        await here.work.ended(action)
    assert of.executions == {(CONTROL, "drain_node", action.digest): 1}


async def test_sudo_that_refuses_reaches_no_kit(tmp_path: Path) -> None:
    of = live()
    async with site(of, tmp_path) as here:
        action = await here.action("modprobe_peermem")
        here.servers.refuse_sudo(NODE)
        assert (await here.work.start(action)).word == "absent"
    assert not of.executions


async def test_the_controller_is_in_the_inventory_and_never_repaired(tmp_path: Path) -> None:
    async with site(live(), tmp_path) as here:
        inventory = inventory_of(tmp_path / "inventory.yaml")
        assert inventory.groups["control"] == (CONTROL,)
        assert {inventory.hosts[name].controller for name in inventory.groups["demo"]} == {CONTROL}
        assert CONTROL not in inventory.list_group_hosts(["demo"])
        ran = await here.client.run(CONTROL, ("sinfo", "-h", "-N", "-n", NODE, "-o", "%T"), timeout=PATIENCE, cap=100)
        assert ran.text == "allocated\n"


async def test_the_page_sees_what_becomes_of_a_node(tmp_path: Path) -> None:
    of = live()
    async with site(of, tmp_path) as here, ControlServer(of) as control, aiohttp.ClientSession(control.url) as page:

        async def state() -> dict[str, object]:
            async with page.get("/state") as reply:
                row: dict[str, object] = (await reply.json())["nodes"][0]
                return row

        await here.run(await here.action("drain_node"))
        row = await state()
        assert (row["state"], str(row["reason"])[:10]) == ("draining", "rackmedic:")
        here.servers.toolbox.lose_power(NODE, "rebooting")
        assert (await state())["state"] == "rebooting"
        async with page.post("/job", json={}) as reply:
            assert (reply.status, (await reply.json())["error"]) == (400, f"the job needs {NODE}")
        async with page.post("/heal", json={}) as reply:
            assert reply.status == 200
        assert (await state())["state"] == "allocated"
