"""Workers on a Redis that is restarted repeatedly, killed while they listen: work continues within one sweep."""

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from bot.incidents.dispatch.inbox import Inbox
from bot.incidents.dispatch.sweeper import Sweeper
from bot.incidents.dispatch.wakeups import StreamWakeups
from bot.store.keys import WAKEUP_STREAM_KEY
from tests.support.clock import PATIENCE, WallClock
from tests.support.fakes_desk import item, origin
from tests.support.redis_server import RealServer

pytest_plugins = ("tests.support.fixtures_redis",)
pytestmark = pytest.mark.liveness


@contextlib.contextmanager
def worker(url: str, name: str) -> Iterator[subprocess.Popen[str]]:
    """Run a listening worker process."""
    command = [sys.executable, "-m", "tests.support.wakeup_worker", url, name]
    with subprocess.Popen(command, cwd=Path(__file__).parents[2], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        try:
            yield process
        finally:
            process.kill()


class Front:
    """A front end that stores an item and sweeps once, which must suffice."""

    def __init__(self, redis: Redis, url: str) -> None:
        self._redis, self._inbox = redis, Inbox(redis, WallClock())
        self.wakeups = StreamWakeups(url, receive=False)

    async def answered(self, name: str) -> None:
        """Store a mention and lose its wake-up; after one sweep a worker has answered it."""
        incident = (await self._inbox.open_or_join(origin(name), name, lambda incident: item(incident, name))).incident
        assert await Sweeper(self._inbox, self.wakeups).sweep() == 1
        async with asyncio.timeout(PATIENCE):
            while await self._inbox.list_waiting(incident):  # noqa: ASYNC110  another process answers
                await asyncio.sleep(0.02)
        assert await self._redis.zscore("asked", name) == 1


async def nobody(incident: str) -> None:
    raise AssertionError("a front end receives nothing")


async def test_redis_restarted_three_times_and_a_worker_killed_while_it_listens(durable_server: RealServer) -> None:
    url = durable_server.url
    async with Redis(unix_socket_path=str(durable_server.socket)) as redis:
        front = Front(redis, url)
        await front.wakeups.start(nobody)
        with worker(url, "b") as other:
            with worker(url, "a"):
                await front.answered("first")
                for n in range(3):
                    durable_server.kill()
                    durable_server.start()
                    await front.answered(f"after restart {n}")
            await front.answered("one of two is dead")
            with worker(url, "a"):
                other.kill()
                other.wait()  # Redis may still assign entries to a dying process; they return after the sweeper's timeout
                await front.answered("the other is dead, and the first is back")
        consumers: Any = await redis.xinfo_consumers(WAKEUP_STREAM_KEY, "workers")
        assert sorted((row["name"], row["pending"]) for row in consumers) == [(b"a", 0), (b"b", 0)]
        await front.wakeups.aclose()
