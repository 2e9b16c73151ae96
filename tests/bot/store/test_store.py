"""Opening Redis by URL, privately or in memory: durability, and refusals with their fix."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import ConstantBackoff

from bot.store.private_redis import find_server
from bot.store.store import StoreUnavailable, open_store
from tests.support.redis_server import RealServer

pytest_plugins = ("tests.support.fixtures_redis",)
pytestmark = pytest.mark.liveness
needs_server = pytest.mark.skipif(shutil.which("redis-server") is None, reason="NO redis-server ON PATH: the private Redis is NOT tested")
LEAVE_BEHIND = """
import asyncio, os, signal, sys
from pathlib import Path
from bot.store.store import open_store

async def main():
    store = await open_store(None, Path(sys.argv[1]))
    await store.redis.set("kept", "yes")
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


async def test_without_url_and_server_it_is_memory_and_says_so(tmp_path: Path) -> None:
    store = await open_store(None, tmp_path, path=str(tmp_path))
    assert store.is_memory_only
    assert store.url is None
    assert "nothing survives exit" in store.describe()
    assert not (await store.get_durability()).is_durable
    await store.redis.set("a", 1)
    assert await store.redis.get("a") == b"1"
    await store.aclose()


async def test_five_hundred_calls_in_one_moment_wait_for_a_connection_instead_of_failing(
    redis_server: RealServer, real_redis: Redis
) -> None:
    store = await open_store(redis_server.url, None)
    await asyncio.gather(*(store.redis.set(f"storm:{n}", n) for n in range(500)))
    assert len(await real_redis.keys("storm:*")) == 500
    await store.aclose()


@needs_server
async def test_a_private_server_is_durable_and_stops_with_us(tmp_path: Path) -> None:
    store = await open_store(None, tmp_path / "data")
    durability = await store.get_durability()
    assert durability.is_durable
    assert (durability.kind, durability.appendfsync, durability.eviction) == ("private", "always", "noeviction")
    await store.redis.set("kept", "yes")
    await store.aclose()
    again = await open_store(None, tmp_path / "data")
    assert await again.redis.get("kept") == b"yes"
    await again.aclose()
    assert not (tmp_path / "data" / "redis.sock").exists()


@needs_server
async def test_a_private_server_that_dies_is_started_again_and_has_lost_nothing(tmp_path: Path) -> None:
    store = await open_store(None, tmp_path / "data")
    await store.redis.set("kept", "yes")
    died = (await store.redis.info("server"))["process_id"]
    os.kill(died, signal.SIGKILL)
    patient = Retry(ConstantBackoff(0.1), 300)
    async with Redis(unix_socket_path=str(tmp_path / "data" / "redis.sock"), retry=patient) as redis:
        assert (await redis.info("server"))["process_id"] != died
    assert await store.redis.get("kept") == b"yes"
    await store.aclose()
    assert not (tmp_path / "data" / "redis.sock").exists(), "the new one stops with us too"


@needs_server
async def test_only_we_may_touch_the_data_and_the_socket(tmp_path: Path) -> None:
    store = await open_store(None, tmp_path / "data")
    assert (tmp_path / "data").stat().st_mode & 0o077 == 0
    assert (tmp_path / "data" / "redis.sock").stat().st_mode & 0o077 == 0
    await store.aclose()


@needs_server
async def test_a_second_process_of_ours_shares_the_server_and_leaves_it_running(tmp_path: Path) -> None:
    first = await open_store(None, tmp_path)
    second = await open_store(None, tmp_path)
    assert "another rackmedic process" in second.describe()
    await second.redis.set("a", 1)
    await second.aclose()
    assert await first.redis.get("a") == b"1"
    await first.aclose()


@needs_server
async def test_the_server_of_a_killed_process_is_taken_over(tmp_path: Path) -> None:
    root = Path(__file__).parents[3]
    ended = await asyncio.to_thread(subprocess.run, [sys.executable, "-c", LEAVE_BEHIND, str(tmp_path)], cwd=root, check=False)
    assert ended.returncode == -signal.SIGKILL
    store = await open_store(None, tmp_path)
    assert await store.redis.get("kept") == b"yes"
    assert store.describe() == f"private Redis in {tmp_path}"
    await store.aclose()
    assert not (tmp_path / "redis.sock").exists()


@needs_server
async def test_a_path_too_long_for_a_socket_works_all_the_same(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 60) / ("e" * 60)
    store = await open_store(None, deep)
    assert await store.redis.ping()
    await store.aclose()


@needs_server
async def test_a_server_that_cannot_start_says_where_to_look(tmp_path: Path) -> None:
    (tmp_path / "appendonlydir").write_text("a file where a directory must be")
    with pytest.raises(StoreUnavailable, match=r"redis\.log"):
        await open_store(None, tmp_path)


async def test_a_server_by_url_tells_what_is_not_durable_about_it(redis_server: RealServer, real_redis: Redis) -> None:
    store = await open_store(redis_server.url, None)
    durability = await store.get_durability()
    assert not durability.is_durable
    assert durability.problems == ("appendfsync is no: set it to always",)
    assert store.url == redis_server.url
    await store.aclose()


async def test_a_url_that_is_none_is_refused() -> None:
    with pytest.raises(StoreUnavailable, match="not a Redis URL"):
        await open_store("localhost:6379", None)


async def test_a_redis_that_does_not_answer_is_refused_without_showing_the_password() -> None:
    with pytest.raises(StoreUnavailable, match="does not answer") as refusal:
        await open_store("redis://:hunter2@127.0.0.1:9/0", None)
    assert "hunter2" not in str(refusal.value)


def test_a_server_is_looked_for_by_both_names(tmp_path: Path) -> None:
    assert find_server(str(tmp_path)) is None
    binary = tmp_path / "valkey-server"
    binary.write_text("#!/bin/sh\n")
    binary.chmod(0o755)
    assert find_server(str(tmp_path)) == str(binary)
