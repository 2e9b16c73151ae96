"""A host's last healthy baseline outlives its incident, and damaged values are ignored."""

import zlib
from datetime import timedelta

import pytest
from redis.asyncio import Redis

from bot.store.baselines import BASELINE_RETENTION, BaselineStore
from graph.engine.peer_differences import HostBaseline
from tests.support.clock import T0

pytest_plugins = ("tests.support.fixtures_redis",)

ROW = HostBaseline(T0, {"system": ("kernel = 5.15", "time zone = Etc/UTC"), "mount": ("/ = ext4",)})


async def test_what_was_kept_is_recalled_and_goes_by_itself(redis: Redis) -> None:
    store = BaselineStore(redis)
    await store.save_baselines({"n1": ROW})
    newer = HostBaseline(T0 + timedelta(days=1), {"system": ("kernel = 6.8",)})
    await store.save_baselines({"n1": newer, "n2": ROW})
    assert await store.load_baselines(["n1", "n2", "n3"]) == {"n1": newer, "n2": ROW}
    assert 0 < await redis.ttl("rm:baseline:n1") <= BASELINE_RETENTION.total_seconds()
    assert await store.load_baselines([]) == {}


@pytest.mark.parametrize("value", [b"", b"not compressed", b"\x78\x9c", zlib.compress(b"{}"), zlib.compress(b"[1]")])
async def test_a_damaged_value_is_none(redis: Redis, value: bytes) -> None:
    await redis.set("rm:baseline:n1", value)
    assert await BaselineStore(redis).load_baselines(["n1"]) == {}
