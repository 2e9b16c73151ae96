"""Front end and worker as processes: if either dies, nothing is lost, and neither outlives the other."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import pytest

from deploy.sandbox.demo import run_bot, run_sandbox
from tests.stories.test_crash import MENTION, alone, night, reported
from tests.support.clock import PATIENCE
from tests.support.redis_server import RealServer

pytest_plugins = ("tests.support.fixtures_redis",)
pytestmark = pytest.mark.liveness


def children(pid: int) -> list[int]:
    """Return a front end's worker pids."""
    found = []
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        if b"--beside" in Path(f"/proc/{child}/cmdline").read_bytes():
            found.append(int(child))
    return found


async def gone(pid: int) -> None:
    """Wait until the process has ended, whatever its parent."""
    ended = asyncio.Event()
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    asyncio.get_running_loop().add_reader(handle, ended.set)
    try:
        await asyncio.wait_for(ended.wait(), PATIENCE)
    finally:
        asyncio.get_running_loop().remove_reader(handle)
        os.close(handle)


async def test_a_worker_killed_in_the_middle_is_replaced_and_the_report_comes_once(tmp_path: Path, durable_server: RealServer) -> None:
    async with night(tmp_path / "n", durable_server) as world, run_bot(world, dict(os.environ), tmp_path / "a.log") as front:
        await world.slack.connected()
        ts = await world.slack.say("U0OLGA", "C0GPUINC", MENTION)
        await world.slack.quiet()
        [worker] = children(front.pid)
        os.kill(worker, signal.SIGKILL)
        assert len(await reported(world, ts)) == 1
        assert front.returncode is None
        assert children(front.pid) != [worker]


async def test_a_front_end_that_is_killed_takes_its_worker_along(tmp_path: Path) -> None:
    async with run_sandbox(tmp_path / "n") as world:
        async with run_bot(world, dict(os.environ), tmp_path / "a.log") as front:
            await world.slack.connected()
            [worker] = children(front.pid)
            front.kill()
            await front.wait()
            await gone(worker)
        async with run_bot(world, dict(os.environ), tmp_path / "b.log"):  # takes over the abandoned Redis and stops it at the end
            await world.slack.connected()


@pytest.mark.usefixtures("real_redis")
async def test_an_inventory_that_cannot_be_used_is_told_once(tmp_path: Path, redis_server: RealServer) -> None:
    (tmp_path / "inventory.yaml").write_text("groups: {g: {hosts: '-bad'}}\n")
    given = {"SLACK_BOT_TOKEN": "xoxb-1-a", "SLACK_APP_TOKEN": "xapp-1-a", "INVENTORY": str(tmp_path / "inventory.yaml")}
    given |= {"REDIS_URL": redis_server.url, "DATA_DIR": str(tmp_path / "data"), "HEALTH_PORT": "0", "WORKERS": "1"}
    environ = {name: value for name, value in os.environ.items() if not name.startswith("RACKMEDIC_")}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bot.cli", "serve"),
        env=environ | {f"RACKMEDIC_{name}": value for name, value in given.items()},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = (part.decode() for part in await asyncio.wait_for(process.communicate(), PATIENCE))
    assert process.returncode == 2, err
    assert (out + err).count("cannot be used") == 1, out + err
    assert "Traceback" not in out + err


async def test_ctrl_c_leaves_no_process(tmp_path: Path) -> None:
    async with run_sandbox(tmp_path / "n") as world, run_bot(world, dict(os.environ), tmp_path / "a.log") as front:
        await world.slack.connected()
        [worker] = children(front.pid)
        os.killpg(front.pid, signal.SIGINT)
        assert await asyncio.wait_for(front.wait(), PATIENCE) == 0
        await gone(worker)
        assert "Traceback" not in (tmp_path / "a.log").read_text()


async def test_without_workers_one_process_does_everything(tmp_path: Path) -> None:
    async with run_sandbox(tmp_path / "n") as world:
        world.cluster.break_("G07", "gpu-003", gpu=5)
        async with run_bot(alone(world), dict(os.environ), tmp_path / "a.log") as front:
            await world.slack.connected()
            assert children(front.pid) == []
            assert await reported(world, await world.slack.say("U0OLGA", "C0GPUINC", MENTION))


FRONT = """
import asyncio, json, sys
from bot.app.serve import serve
from bot.settings import load_settings
code = asyncio.run(serve(load_settings(), (), front=True))
print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules})))
raise SystemExit(code)
"""
# imported for turns, waves and the index; a front end reads messages (with NumPy) and takes events, and asks a host only for a decision
HEAVY = {"langgraph", "langchain_core", "langsmith", "asyncssh", "qdrant_client"}


async def test_a_front_end_carries_nothing_that_only_workers_need(tmp_path: Path, durable_server: RealServer) -> None:
    async with night(tmp_path / "n", durable_server) as world, run_bot(alone(world), dict(os.environ), tmp_path / "worker.log"):
        await world.slack.connected()
        clean = {name: value for name, value in os.environ.items() if not name.startswith("RACKMEDIC_")}
        front = await asyncio.create_subprocess_exec(
            sys.executable, "-c", FRONT, env=clean | dict(world.settings), stdout=asyncio.subprocess.PIPE
        )
        await world.slack.connected(2)
        for number in range(4):  # Slack gives events to one of two connections
            ts = await world.slack.say("U0OLGA", "C0GPUINC", f"<@U0RACKMED> training hangs with NCCL timeout ({number})")
            await reported(world, ts)
            await world.slack.say("U0OLGA", "C0GPUINC", "<@U0RACKMED> status", thread_ts=ts)
        await world.slack.quiet()
        front.terminate()
        said, _ = await asyncio.wait_for(front.communicate(), PATIENCE)
        assert front.returncode == 0
        assert not HEAVY & set(json.loads(said.splitlines()[-1]))
