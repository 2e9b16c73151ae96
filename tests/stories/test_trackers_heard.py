"""A real bot hears of a ticket elsewhere over HTTP: what somebody wrote there stands in its thread once, though the bot is killed over it."""

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml
from aiohttp import ClientConnectionError, ClientSession

from bot.slack.trackers.office import REMARK
from bot.store.outbox import PATIENCE as OUTBOX_PATIENCE
from deploy.sandbox.demo import Sandbox, bot, sandbox
from tests.stories.test_alertmanager import OPS, confirmed
from tests.stories.test_provider_link import said
from tests.support.clock import WallClock
from tests.support.fixtures_sshd import free_port
from tests.support.redis_server import RealServer
from tests.support.tracker_hooks import HOOK, hooked
from tests.support.trackers import config_of, stand_in

pytest_plugins = ("tests.support.fixtures_redis",)
SECRET = HOOK["jira"]
LEFT = 3 * OUTBOX_PATIENCE.total_seconds()
"""Seconds: whoever was killed over a row has it for so long at most, and a slow machine takes some more."""


@contextlib.asynccontextmanager
async def hearing(folder: Path, server: RealServer, jira: str) -> AsyncIterator[tuple[Sandbox, str]]:
    """A world whose bot keeps its state in this Redis and hears Jira at this address; the bot is not begun yet."""
    port, trackers = free_port(), folder / "trackers.yaml"
    trackers.write_text(yaml.safe_dump({"jira": config_of("jira", jira, hook=SECRET)}))
    more = {
        "RACKMEDIC_HTTP_PORT": str(port),
        "RACKMEDIC_TRACKERS": str(trackers),
        "RACKMEDIC_REDIS_URL": server.url,
        "RACKMEDIC_WORKERS": "0",
        "RACKMEDIC_LEASE_SECONDS": "2",
    }
    async with sandbox(folder) as made:
        yield replace(made, settings={**made.settings, **more}), f"http://127.0.0.1:{port}/trackers/jira"


async def told(url: str, ticket: Mapping[str, Any], *, forged: bool = False) -> int:
    """Jira says that something moved, again and again until somebody listens; the status."""
    body, headers = hooked("jira", ticket, WallClock().now())
    async with ClientSession() as http:
        while True:
            with contextlib.suppress(ClientConnectionError):
                async with http.post(url, data=body + b" " * forged, headers=headers) as answer:
                    return answer.status
            await asyncio.sleep(0.1)


def notes(world: Sandbox, ts: str) -> list[str]:
    rows = world.slack.thread(OPS, ts)
    return [json.dumps(row["blocks"]) for row in rows if (row.get("metadata") or {}).get("event_type") == REMARK]


async def test_a_comment_stands_in_the_thread_once_though_the_bot_is_killed_over_it(tmp_path: Path, durable_server: RealServer) -> None:
    async with stand_in(WallClock()) as theirs, hearing(tmp_path, durable_server, theirs.url) as (world, url):
        async with bot(world, dict(os.environ), tmp_path / "bot.log") as child:
            await world.slack.connected()
            world.cluster.break_("G07", "gpu-003", gpu=5)
            ts = await world.slack.say("priya", OPS, "@rackmedic job 4711 hangs with NCCL timeout on gpu-[001-004]")
            await world.slack.wait_for(lambda: "fell off the PCIe bus" in said(world, ts))
            await world.slack.say("priya", OPS, "@rackmedic hand off", ts)
            ticket = await confirmed(world, theirs, ts)
            await world.slack.wait_for(lambda: "To Do" in said(world, ts))
            assert await told(url, ticket, forged=True) == 401
            theirs.write(ticket["id"], "@rackmedic approve 1: the riser is on its way", by="Beth")
            assert await told(url, ticket) == 202
            await world.slack.wait_for(lambda: notes(world, ts))
            child.kill()
            await child.wait()
        async with bot(world, dict(os.environ), tmp_path / "bot.log"):
            theirs.write(ticket["id"], "It is here.", by="Beth")
            ticket |= {"state": "Done", "done": True}
            assert await told(url, ticket) == 202
            await world.slack.wait_for(lambda: "nothing was proved here" in said(world, ts), LEFT)
            assert ["on its way" in note for note in notes(world, ts)] == [True, False]
