"""A worker that loses Redis at any moment of its start recovers and works."""

import asyncio
from pathlib import Path

import pytest

from bot.app.bot import run_bot
from bot.app.diagnosis_runtime import open_diagnosis_runtime
from bot.app.health import Health
from bot.app.serve import run_with_store
from bot.settings import load_settings
from bot.store.store import Store, StoreNotAnswering, open_store
from deploy.sandbox.demo import Sandbox, run_sandbox
from tests.support.clock import PATIENCE
from tests.support.redis_gate import RedisGate
from tests.support.redis_server import RealServer

pytest_plugins = ("tests.support.fixtures_redis",)
pytestmark = pytest.mark.liveness
AWAY = 0.2  # seconds without Redis
# every third moment, because a start takes half a second; each part of a start asks Redis more often than that
STEP, AT_ONCE = 3, 4


async def started(world: Sandbox, redis: RealServer, folder: Path, cut_at: int) -> int:
    """Start a worker whose connection is cut after `cut_at` writes; return the number of writes until it worked."""

    def listen(gate: RedisGate) -> None:
        if gate.heard == cut_at:
            gate.cut()
            asyncio.get_running_loop().call_later(AWAY, gate.reopen)

    worked = asyncio.Event()
    async with RedisGate(redis.socket, folder / f"{cut_at}.sock", listen).standing() as gate:
        settings = load_settings(environ={**world.settings, "RACKMEDIC_REDIS_URL": gate.url})

        async def run(store: Store) -> None:
            async with open_diagnosis_runtime(settings, lasting=True) as opened, run_bot(settings, store, opened, "worker", "worker-1"):
                worked.set()

        async with asyncio.timeout(PATIENCE):
            await run_with_store(settings, Health(), asyncio.Event(), run)
        assert worked.is_set()
        return gate.heard


async def test_it_works_wherever_it_was_cut_off(tmp_path: Path, durable_server: RealServer) -> None:
    async with run_sandbox(tmp_path / "demo", nodes=1, job="") as world:
        spoken = await started(world, durable_server, tmp_path, cut_at=0)
        assert spoken > 20
        few = asyncio.Semaphore(AT_ONCE)

        async def cut_off(at: int) -> None:
            async with few:
                await started(world, durable_server, tmp_path, at)

        await asyncio.gather(*(cut_off(at) for at in range(1, spoken + 1, STEP)))


async def test_a_redis_that_is_away_is_not_taken_for_one_that_forgets(tmp_path: Path, durable_server: RealServer) -> None:
    """Otherwise the process would refuse every remedy for its lifetime."""
    store = await open_store(durable_server.url, tmp_path)
    durable_server.kill()
    with pytest.raises(StoreNotAnswering, match="does not answer"):
        await store.get_durability()
    await store.aclose()
