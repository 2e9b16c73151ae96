"""A front end and a worker started while Redis is down: both wait, say so, and work once it is back."""

import asyncio
import os
import socket
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import ClientConnectionError, ClientSession

from tests.stories.test_crash import MENTION, night, reported
from tests.support.clock import PATIENCE
from tests.support.redis_server import RealServer

pytest_plugins = ("tests.support.fixtures_redis",)
pytestmark = pytest.mark.liveness


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@asynccontextmanager
async def process(settings: Mapping[str, str], log: Path, port: int, *words: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run a RackMedic process with a health port."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("RACKMEDIC_")}
    environ = clean | dict(settings) | {"RACKMEDIC_HEALTH_PORT": str(port)}
    with log.open("ab") as sink:
        child = await asyncio.create_subprocess_exec(sys.executable, "-m", "bot.cli", *words, env=environ, stdout=sink, stderr=sink)
    try:
        yield child
    finally:
        if child.returncode is None:
            child.terminate()
        assert await asyncio.wait_for(child.wait(), PATIENCE) == 0


async def says(port: int, wanted: str) -> int:
    """Wait until `/readyz` contains this; return the status."""
    async with asyncio.timeout(PATIENCE), ClientSession() as http:
        while True:
            try:
                async with http.get(f"http://127.0.0.1:{port}/readyz") as answer:
                    if wanted in await answer.text():
                        return answer.status
            except ClientConnectionError:
                pass
            await asyncio.sleep(0.05)


async def test_both_wait_for_a_redis_that_is_down_and_work_once_it_is_back(tmp_path: Path, durable_server: RealServer) -> None:
    front_port, worker_port = free_port(), free_port()
    async with night(tmp_path / "n", durable_server) as world:
        durable_server.kill()
        settings = world.settings
        async with (
            process(settings, tmp_path / "front.log", front_port, "serve", "--front"),
            process(settings, tmp_path / "worker.log", worker_port, "worker"),
        ):
            assert await says(front_port, "waiting for Redis") == 503
            assert await says(worker_port, "waiting for Redis") == 503
            durable_server.start()
            assert await says(front_port, "ready\n") == 200
            assert await says(worker_port, "ready\n") == 200
            assert await reported(world, await world.slack.say("U0OLGA", "C0GPUINC", MENTION))
    for log in ("front.log", "worker.log"):
        text = (tmp_path / log).read_text()
        assert "store.waiting" in text
        assert "Traceback" not in text


@pytest.mark.parametrize("words", [("serve", "--front"), ("worker",)])
async def test_a_waiting_process_stops_on_a_signal(tmp_path: Path, durable_server: RealServer, words: tuple[str, ...]) -> None:
    async with night(tmp_path / "n", durable_server) as world:
        durable_server.kill()
        port = free_port()
        async with process(world.settings, tmp_path / "log", port, *words):
            await says(port, "waiting for Redis")
