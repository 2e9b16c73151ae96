"""Failures of the whole bot as processes: two replicas on one Redis, kill -9 midway, Redis killed. One mention, one
report.
"""

import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deploy.sandbox.demo import Sandbox, run_bot, run_sandbox
from tests.stories.test_remedies import asking, mended
from tests.support.redis_server import RealServer

pytest_plugins = ("tests.support.fixtures_redis",)
MENTION = "<@U0RACKMED> job 4711 hangs with NCCL timeout on gpu-[001-004]"
APART = "<@U0RACKMED> training hangs with NCCL timeout"  # a shared remediation's result is reported once too


@asynccontextmanager
async def night(tmp_path: Path, redis: RealServer) -> AsyncIterator[Sandbox]:
    """Run the sandbox with a durable Redis and a GPU off the bus."""
    async with run_sandbox(tmp_path) as world:
        world.cluster.break_("G07", "gpu-003", gpu=5)
        shared = {"RACKMEDIC_REDIS_URL": redis.url, "RACKMEDIC_LEASE_SECONDS": "2"}
        yield replace(world, settings={**world.settings, **shared})


def alone(world: Sandbox) -> Sandbox:
    """Use a single-process bot, for stories about other things."""
    return replace(world, settings={**world.settings, "RACKMEDIC_WORKERS": "0"})


def reports(world: Sandbox, ts: str) -> list[dict[str, Any]]:
    return [m for m in world.slack.thread("C0GPUINC", ts) if m.get("metadata", {}).get("event_type") == "rackmedic_report"]


def here(world: Sandbox, thread: str, ts: str) -> dict[str, Any]:
    return next(m for m in world.slack.thread("C0GPUINC", thread) if m["ts"] == ts)


async def reported(world: Sandbox, ts: str) -> list[dict[str, Any]]:
    return await world.slack.wait_for(lambda: reports(world, ts))


async def test_two_replicas_on_one_redis_report_once(tmp_path: Path, durable_server: RealServer) -> None:
    async with night(tmp_path / "n", durable_server) as world:
        environ = dict(os.environ)
        async with run_bot(world, environ, tmp_path / "a.log"), run_bot(world, environ, tmp_path / "b.log"):
            await world.slack.connected(2)
            stamps = [await world.slack.say("U0OLGA", "C0GPUINC", f"{APART} ({i})") for i in range(4)]
            for ts in stamps:
                await reported(world, ts)
            await world.slack.quiet()
        answered = [[report["metadata"]["event_payload"]["item"] for report in reports(world, ts)] for ts in stamps]
        assert [sum(item.endswith(ts) for item in items) for ts, items in zip(stamps, answered, strict=True)] == [1, 1, 1, 1]
        assert all(
            len(set(items)) == len(items) for items in answered
        )  # the result of a remediation that several incidents want is also reported once


async def test_kill_nine_right_after_the_acknowledgement_loses_nothing(tmp_path: Path, durable_server: RealServer) -> None:
    async with night(tmp_path / "n", durable_server) as world:
        async with run_bot(world, dict(os.environ), tmp_path / "a.log") as child:
            await world.slack.connected()
            ts = await world.slack.say("U0OLGA", "C0GPUINC", MENTION)
            await world.slack.quiet()
            os.killpg(child.pid, signal.SIGKILL)
            await child.wait()
        async with run_bot(world, dict(os.environ), tmp_path / "b.log"):
            [report] = await reported(world, ts)
        assert "fell off the PCIe bus" in str(report)
        said = [m for m in world.slack.thread("C0GPUINC", ts) if m.get("bot_id")]
        assert [m["ts"] for m in said if (m.get("metadata") or {}).get("event_type") != "rackmedic_approval"] == [report["ts"]]
        assert "Looking at the hosts" not in str(said)


async def test_redis_killed_and_back_does_not_stop_the_work(tmp_path: Path, durable_server: RealServer) -> None:
    async with night(tmp_path / "n", durable_server) as world, run_bot(world, dict(os.environ), tmp_path / "a.log"):
        await world.slack.connected()
        first = await world.slack.say("U0OLGA", "C0GPUINC", MENTION)
        await reported(world, first)
        durable_server.kill()
        durable_server.start()
        second = await world.slack.say("U0OLGA", "C0GPUINC", f"{APART} again")
        await reported(world, second)
        assert [len(reports(world, ts)) for ts in (first, second)] == [1, 1]


@pytest.mark.parametrize("how", ["dead", "frozen_key", "sudo", "garbage"])
async def test_a_host_that_cannot_be_looked_at_is_never_called_healthy(tmp_path: Path, how: str) -> None:
    async with run_sandbox(tmp_path / "n") as world, run_bot(alone(world), dict(os.environ), tmp_path / "a.log"):
        await world.slack.connected()
        match how:
            case "dead":
                await world.ssh.drop("gpu-002")
                world.cluster.break_("O01", "gpu-002")
            case "frozen_key":
                await world.ssh.change_host_key("gpu-002")
            case "sudo":
                world.ssh.refuse_sudo("gpu-002")
            case _:
                world.ssh.emit("gpu-002", b"\xff\xfe\x00 garbage \x1b[31m" * 50)
        ts = await world.slack.say("U0OLGA", "C0GPUINC", MENTION)
        [report] = await reported(world, ts)
        assert "gpu-002" in str(report)
        assert "No fault found" not in str(report)


@pytest.mark.parametrize("when", ["acknowledged", pytest.param("running", marks=pytest.mark.tier1)])
async def test_kill_nine_between_click_and_proof_runs_nothing_twice(tmp_path: Path, durable_server: RealServer, when: str) -> None:
    async with night(tmp_path / "n", durable_server) as world:
        world.cluster.heal()
        world.cluster.break_("G17", "gpu-002", gpu=5)
        async with run_bot(world, dict(os.environ), tmp_path / "a.log") as child:
            await world.slack.connected()
            ts = await world.slack.say("U0OLGA", "C0GPUINC", "<@U0RACKMED> gpu-[001-004] are half as fast as yesterday")
            [card] = await world.slack.wait_for(lambda: asking(world, ts))
            await world.slack.click("U0PRIYA", card["ts"], "approval.approve")
            await world.slack.quiet()
            if when == "running":
                await world.slack.wait_for(lambda: "Approve?" not in str(here(world, ts, card["ts"])))
            os.killpg(child.pid, signal.SIGKILL)
            await child.wait()
        async with run_bot(world, dict(os.environ), tmp_path / "b.log"):
            await world.slack.wait_for(lambda: mended(world, ts))
        assert set(world.cluster.executions.values()) == {1}
