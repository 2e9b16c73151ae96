"""The store version is written into an empty store; a store with another version is refused unread."""

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from bot.app.health import Health
from bot.app.serve import run_with_store
from bot.refusal import Refusal
from bot.settings import load_settings
from bot.store.keys import FIXED_KEYS, KEY_PREFIX, VERSION_KEY
from bot.store.store import PREVIOUS_STORE_VERSION, STORE_VERSION, Store, WrongStoreVersion, open_store
from graph.report import FileReadResult
from graph.state import Evidence
from tests.support.fakes_actions import BOB, Office, Site, hung, well
from tests.support.redis_server import RealServer
from tests.support.terminal import rackmedic

pytest_plugins = ("tests.support.fixtures_redis",)
pytestmark = pytest.mark.slow
needs_server = pytest.mark.skipif(shutil.which("redis-server") is None, reason="NO redis-server ON PATH: the private Redis is NOT tested")
OURS = str(STORE_VERSION).encode()


async def dump(redis: Redis) -> dict[Any, Any]:
    return {key: await redis.dump(key) for key in sorted(await redis.keys("*"))}


async def seed_mention(redis: Redis) -> None:
    site = Site(facts=well("n1", "n2", "n3", "n4", "m1", "m2", "ctl"))
    site.sick(hung("n1"))
    await Office(redis, site).mention()


async def seed_kill_switch(redis: Redis) -> None:
    await Office(redis, Site()).ledger.stop(BOB, "looking at the racks")


SEEDS: tuple[Callable[[Redis], Awaitable[None]], ...] = (seed_mention, seed_kill_switch)


async def test_new_store_gets_the_version_and_opens_again(real_redis: Redis, redis_server: RealServer) -> None:
    for _ in range(2):
        store = await open_store(redis_server.url, None)
        await store.aclose()
        assert await real_redis.get(VERSION_KEY) == OURS
        await seed_mention(real_redis)


async def test_store_in_memory_is_new(tmp_path: Path) -> None:
    store = await open_store(None, None)
    assert await store.redis.get(VERSION_KEY) == OURS
    await store.aclose()


async def test_keys_of_other_programs_are_no_data_of_ours(real_redis: Redis, redis_server: RealServer) -> None:
    await real_redis.mset({"celery": "1", "rmx:due": "1", f"{KEY_PREFIX}": "1"})
    await (await open_store(redis_server.url, None)).aclose()
    assert await real_redis.get(VERSION_KEY) == OURS


async def test_many_processes_that_start_at_once_on_an_empty_store_all_open_it(real_redis: Redis, redis_server: RealServer) -> None:
    async def start() -> None:
        store = await open_store(redis_server.url, None)
        await store.redis.incr("rm:fence")  # the first write of a process, while others start
        await store.aclose()

    await asyncio.gather(*(start() for _ in range(20)))
    assert await real_redis.mget(VERSION_KEY, "rm:fence") == [OURS, b"20"]


@needs_server
async def test_two_processes_that_start_at_once_on_an_empty_folder_both_open_it(tmp_path: Path) -> None:
    stores = await asyncio.gather(*(open_store(None, tmp_path) for _ in range(2)))
    assert [await store.redis.get(VERSION_KEY) for store in stores] == [OURS, OURS]
    for store in stores:
        await store.aclose()


@pytest.mark.parametrize("version", [b"0", b"3", b"1 ", b"01", b"one", b"\xff" * 1000])
async def test_another_version_is_refused_in_one_line_and_nothing_changes(
    real_redis: Redis, redis_server: RealServer, version: bytes
) -> None:
    await seed_mention(real_redis)
    await real_redis.set(VERSION_KEY, version)
    before = await dump(real_redis)
    with pytest.raises(WrongStoreVersion, match=r"has the store version .* and this RackMedic reads 2 alone") as refused:
        await open_store(redis_server.url, None)
    said = str(refused.value)
    assert ("\n" in said, len(said) < 600, "run the RackMedic that wrote it" in said) == (False, True, True)
    assert "RACKMEDIC_REDIS_URL to an empty database (another number) and RACKMEDIC_DATA_DIR to an empty folder" in said
    assert await dump(real_redis) == before


async def test_the_version_before_is_raised_and_its_data_stays(real_redis: Redis, redis_server: RealServer) -> None:
    await seed_mention(real_redis)
    await real_redis.set(VERSION_KEY, str(PREVIOUS_STORE_VERSION))
    before = await dump(real_redis)
    await (await open_store(redis_server.url, None)).aclose()
    assert await real_redis.get(VERSION_KEY) == OURS
    await real_redis.set(VERSION_KEY, str(PREVIOUS_STORE_VERSION))
    assert await dump(real_redis) == before


def test_rows_of_the_version_before_claim_nothing() -> None:
    """Missing fields get defaults: no log owner, nothing misunderstood."""
    read = FileReadResult.model_validate({"name": "rank0.log", "size": 12})
    assert (read.recognised, read.not_understood, read.foreign) == (True, 0, "")
    line = Evidence.model_validate(
        {"host": "n1", "check": "joblog", "key": "job.error", "device": "", "line": "x", "says": "x", "time": None, "sha256": ""}
    )
    assert line.source is None


@pytest.mark.parametrize("seed", SEEDS)
async def test_data_without_a_version_is_refused_and_nothing_changes(
    real_redis: Redis, redis_server: RealServer, seed: Callable[[Redis], Awaitable[None]]
) -> None:
    await seed(real_redis)
    before = await dump(real_redis)
    with pytest.raises(WrongStoreVersion, match="holds data without a store version; nothing was read or changed: commit 578df5c reads it"):
        await open_store(redis_server.url, None)
    assert await dump(real_redis) == before


@pytest.mark.parametrize("key", FIXED_KEYS)
async def test_each_key_without_an_id_shows_that_there_is_data(real_redis: Redis, redis_server: RealServer, key: str) -> None:
    await real_redis.set(key, "anything")
    with pytest.raises(WrongStoreVersion):
        await open_store(redis_server.url, None)


async def test_a_refusal_touches_no_key_but_the_version_and_those_without_an_id(real_redis: Redis, redis_server: RealServer) -> None:
    await seed_mention(real_redis)
    allowed = [VERSION_KEY, *FIXED_KEYS]
    await real_redis.acl_setuser("narrow", enabled=True, reset=True, passwords=["+secret"], categories=["+@all"], keys=allowed)
    try:
        for version in ("", "3"):
            if version:
                await real_redis.set(VERSION_KEY, version)
            with pytest.raises(WrongStoreVersion):
                await open_store(redis_server.url.replace("unix://", "unix://narrow:secret@"), None)
    finally:
        await real_redis.acl_deluser("narrow")


@pytest.fixture
async def unversioned(tmp_path: Path) -> Path:
    """Return a data folder with a private Redis that has data but no version."""
    store = await open_store(None, tmp_path)
    await seed_mention(store.redis)
    await store.redis.delete(VERSION_KEY)
    await store.aclose()
    return tmp_path


@needs_server
async def test_a_private_folder_without_a_version_is_refused_by_its_name(unversioned: Path) -> None:
    before = written(unversioned)
    with pytest.raises(WrongStoreVersion) as refused:
        await open_store(None, unversioned)
    assert str(refused.value) == (
        f"private Redis in {unversioned} holds data without a store version; nothing was read or changed: "
        "commit 578df5c reads it; or start over by setting RACKMEDIC_DATA_DIR to an empty folder"
    )
    assert not (unversioned / "redis.sock").exists(), "its server is stopped again"
    assert written(unversioned) == before


@needs_server
async def test_no_process_starts_on_a_store_without_a_version(unversioned: Path) -> None:
    before, environ = written(unversioned), {"RACKMEDIC_DATA_DIR": str(unversioned)}
    with pytest.raises(Refusal, match="holds data without a store version") as refused:
        await run_with_store(load_settings(environ=environ), Health(), asyncio.Event(), never)
    assert refused.value.code == 2
    for words in (("status",), ("stop", "now"), ("audit", "verify")):
        ran = await asyncio.to_thread(rackmedic, *words, environ=environ)
        assert (ran.returncode, ran.stdout) == (2, "")
        assert ran.stderr.endswith(f"{refused.value}\n")
    doctor = await asyncio.to_thread(rackmedic, "doctor", "--json", environ=environ)
    assert (doctor.returncode, "holds data without a store version" in doctor.stdout) == (1, True)
    assert written(unversioned) == before


def written(folder: Path) -> dict[str, bytes]:
    """Return Redis' files."""
    return {file.name: file.read_bytes() for file in sorted((folder / "appendonlydir").iterdir())}


async def never(store: Store) -> None:
    raise AssertionError("a process began to work on a store that it cannot read")
