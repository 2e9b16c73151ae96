"""kill -9 while a ticket is sent to each of the five trackers, with a real Redis: it is opened once, whether the
process died before or after its creation.
"""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Literal

import pytest
import yaml
from redis.asyncio import Redis

from bot.store.external_outbox import ClickResult, Outbox, build_tracker_outbox_keys
from bot.trackers.tracker_kinds import KINDS
from tests.bot.trackers.test_courier import DRAFT, INCIDENT
from tests.support.clock import PATIENCE, WallClock
from tests.support.redis_server import RealServer
from tests.support.trackers import config_of, stand_in

pytest_plugins = ("tests.support.fixtures_redis",)
# seconds by which the second process's clock is ahead: the dead process's lease has expired and the ticket is findable
LATER = 120


@contextlib.asynccontextmanager
async def courier(server: RealServer, file: Path, ahead: int = 0) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run a delivering process; it is killed at the end, as by a power cut."""
    words = (sys.executable, "-m", "tests.support.courier_process", server.url, str(file), str(ahead))
    with (file.parent / f"courier-{ahead}.log").open("wb") as sink:
        child = await asyncio.create_subprocess_exec(*words, stdin=asyncio.subprocess.DEVNULL, stdout=sink, stderr=sink)
    try:
        yield child
    finally:
        with contextlib.suppress(ProcessLookupError):
            child.kill()
        await child.wait()


async def sent(outbox: Outbox, *names: str) -> None:
    """Wait until all have arrived."""
    while True:
        if {(await outbox.load_row(name)).stage for name in names} == {"sent"}:
            return
        await asyncio.sleep(0.05)


@pytest.mark.parametrize("dies", ["before", "after"])
async def test_a_ticket_on_its_way_when_the_process_is_killed_is_opened_once(
    tmp_path: Path, durable_server: RealServer, dies: Literal["before", "after"]
) -> None:
    file, names = tmp_path / "trackers.yaml", [f"{INCIDENT} {kind}" for kind in KINDS]
    async with contextlib.AsyncExitStack() as stack:
        await stack.enter_async_context(asyncio.timeout(PATIENCE))
        redis = await stack.enter_async_context(Redis.from_url(durable_server.url))
        there = {kind: await stack.enter_async_context(stand_in(WallClock())) for kind in KINDS}
        file.write_text(yaml.safe_dump({kind: config_of(kind, theirs.url) for kind, theirs in there.items()}))
        outbox = Outbox(redis, WallClock(), build_tracker_outbox_keys())
        for name in names:
            assert (
                await outbox.queue_draft(name, await outbox.save_draft(name, DRAFT.to_stored_bytes()), "U1", once=True) is ClickResult.SENT
            )
        for theirs in there.values():
            theirs.holds = dies
        async with courier(durable_server, file) as child:
            for theirs in there.values():
                await theirs.held.wait()
            child.kill()
            await child.wait()
        assert {theirs.made for theirs in there.values()} == {int(dies == "after")}
        for theirs in there.values():
            theirs.holds = ""
            theirs.let_go.set()
        async with courier(durable_server, file, LATER):
            await sent(outbox, *names)
        assert {kind: theirs.made for kind, theirs in there.items()} == dict.fromkeys(KINDS, 1)
