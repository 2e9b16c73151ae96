"""A real redis-server (skipped loudly if not installed), and fakeredis.

Use with `pytest_plugins = ("tests.support.fixtures_redis",)`.
"""

import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from fakeredis import FakeAsyncRedis
from redis.asyncio import Redis

from tests.support.redis_server import RealServer


def _server(directory: Path, fsync: str) -> Iterator[RealServer]:
    if shutil.which("redis-server") is None:
        pytest.skip("NO redis-server ON PATH: what survives a crash is NOT tested. apt-get install redis-server")
    server = RealServer(directory, fsync)
    server.start()
    try:
        yield server
    finally:
        server.kill()


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    """Share one server per run; `real_redis` empties it."""
    yield from _server(tmp_path_factory.mktemp("redis"), "no")


@pytest.fixture
def durable_server(tmp_path: Path) -> Iterator[RealServer]:
    """Start a durable server (fsync always, as in production) for one test."""
    yield from _server(tmp_path, "always")


@pytest.fixture
async def real_redis(redis_server: RealServer) -> AsyncIterator[Redis]:
    async with Redis(unix_socket_path=str(redis_server.socket)) as redis:
        await redis.flushall()
        yield redis


@pytest.fixture(params=["redis-server", "fakeredis"])
async def redis(request: pytest.FixtureRequest) -> AsyncIterator[Redis]:
    """Run each test on redis-server and on fakeredis, which embedded mode uses."""
    if request.param == "fakeredis":
        async with FakeAsyncRedis() as fake:
            yield fake
        return
    server: RealServer = request.getfixturevalue("redis_server")
    async with Redis(unix_socket_path=str(server.socket)) as real:
        await real.flushall()
        yield real
