"""A real bot polls a tracker: a comment is posted in the thread once although the bot is killed, and the ticket's
closing is reported.
"""

import contextlib
import json
import os
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import yaml

from bot.trackers.handlers import REMARK_EVENT_TYPE
from deploy.sandbox.demo import Sandbox, run_bot, run_sandbox
from tests.stories.test_alertmanager import OPS, confirmed
from tests.stories.test_provider_link import said
from tests.support.clock import WallClock
from tests.support.redis_server import RealServer
from tests.support.trackers import config_of, stand_in

pytest_plugins = ("tests.support.fixtures_redis",)


@contextlib.asynccontextmanager
async def polling(folder: Path, server: RealServer, jira: str) -> AsyncIterator[Sandbox]:
    """Return a world with this Redis whose bot, not yet started, polls Jira."""
    trackers = folder / "trackers.yaml"
    trackers.write_text(yaml.safe_dump({"jira": config_of("jira", jira)}))
    more = {
        "RACKMEDIC_TRACKERS": str(trackers),
        "RACKMEDIC_TRACKER_POLL_SECONDS": "1",
        "RACKMEDIC_OUTBOX_LEASE_SECONDS": "6",
        "RACKMEDIC_REDIS_URL": server.url,
        "RACKMEDIC_WORKERS": "0",
        "RACKMEDIC_LEASE_SECONDS": "2",
    }
    async with run_sandbox(folder) as made:
        yield replace(made, settings={**made.settings, **more})


def notes(world: Sandbox, ts: str) -> list[str]:
    rows = world.slack.thread(OPS, ts)
    return [json.dumps(row["blocks"]) for row in rows if (row.get("metadata") or {}).get("event_type") == REMARK_EVENT_TYPE]


async def test_a_comment_stands_in_the_thread_once_though_the_bot_is_killed_over_it(tmp_path: Path, durable_server: RealServer) -> None:
    async with stand_in(WallClock()) as theirs, polling(tmp_path, durable_server, theirs.url) as world:
        async with run_bot(world, dict(os.environ), tmp_path / "bot.log") as child:
            await world.slack.connected()
            world.cluster.break_("G07", "gpu-003", gpu=5)
            ts = await world.slack.say("priya", OPS, "@rackmedic job 4711 hangs with NCCL timeout on gpu-[001-004]")
            await world.slack.wait_for(lambda: "fell off the PCIe bus" in said(world, ts))
            await world.slack.say("priya", OPS, "@rackmedic hand off", ts)
            ticket = await confirmed(world, theirs, ts)
            await world.slack.wait_for(lambda: "To Do" in said(world, ts))
            theirs.write(ticket["id"], "@rackmedic approve 1: the riser is on its way", by="Beth")
            await world.slack.wait_for(lambda: notes(world, ts))
            child.kill()
            await child.wait()
        async with run_bot(world, dict(os.environ), tmp_path / "bot.log"):
            theirs.write(ticket["id"], "It is here.", by="Beth")
            ticket |= {"state": "Done", "done": True}
            await world.slack.wait_for(lambda: "I verified nothing" in said(world, ts))
            await world.slack.wait_for(lambda: len(notes(world, ts)) > 1)  # A comment that is retried may come after the state.
            assert ["on its way" in note for note in notes(world, ts)] == [True, False]
