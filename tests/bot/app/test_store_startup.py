"""Losing Redis during the start restarts the start; losing it later does not."""

import asyncio
from pathlib import Path

import pytest
from redis import exceptions

from bot.app.health import Health
from bot.app.serve import run_with_store
from bot.refusal import Refusal
from bot.settings import Settings, load_settings
from bot.store.store import Store
from tests.support.redis_server import RealServer

pytest_plugins = ("tests.support.fixtures_redis",)


def at(url: str, folder: Path) -> Settings:
    return load_settings(environ={"RACKMEDIC_REDIS_URL": url, "RACKMEDIC_DATA_DIR": str(folder)})


@pytest.mark.usefixtures("real_redis")
async def test_a_redis_that_goes_away_during_the_start_is_waited_for(tmp_path: Path, redis_server: RealServer) -> None:
    health, began = Health(), 0

    async def run(store: Store) -> None:
        nonlocal began
        began += 1
        if began == 1:
            raise exceptions.ConnectionError("gone in the middle")
        assert health.waits == ""
        assert health.redis is store.redis

    await run_with_store(at(redis_server.url, tmp_path), health, asyncio.Event(), run)
    assert began == 2


@pytest.mark.usefixtures("real_redis")
async def test_what_is_lost_after_the_start_is_no_trouble_of_the_start(tmp_path: Path, redis_server: RealServer) -> None:
    health = Health()

    async def run(store: Store) -> None:
        health.mark_ready()
        raise exceptions.ConnectionError("gone at the end")

    with pytest.raises(exceptions.ConnectionError):
        await run_with_store(at(redis_server.url, tmp_path), health, asyncio.Event(), run)


async def test_an_error_that_needs_a_person_is_not_retried(tmp_path: Path) -> None:
    async def run(store: Store) -> None: ...

    with pytest.raises(Refusal, match="is not a Redis URL"):
        await run_with_store(at("redis://:secret@nowhere:port", tmp_path), Health(), asyncio.Event(), run)
