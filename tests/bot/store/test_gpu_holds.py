"""One holder per host across processes; a dead holder loses the host, and no host is granted while the store is down."""

import asyncio

from fakeredis import FakeAsyncRedis, FakeServer
from redis.asyncio import Redis

from bot.store.gpu_reservations import RedisGpuReservations

pytest_plugins = ("tests.support.fixtures_redis",)


async def test_a_host_has_one_holder_among_all_processes(redis: Redis) -> None:
    one, other = RedisGpuReservations(redis), RedisGpuReservations(redis)
    tokens = await asyncio.gather(*(holds.reserve_host("gpu-001", 60) for holds in (one, other, one, other)))
    (token,) = filter(None, tokens)
    assert await other.reserve_host("gpu-002", 60)
    await other.release_host("gpu-001", "somebody else's")
    assert await other.reserve_host("gpu-001", 60) is None
    await one.release_host("gpu-001", token)
    assert await other.reserve_host("gpu-001", 60)


async def test_a_dead_holder_loses_the_host(redis: Redis) -> None:
    assert await RedisGpuReservations(redis).reserve_host("gpu-001", 600)
    assert 0 < await redis.pttl("rm:gpus:gpu-001") <= 600_000


async def test_a_store_that_is_down_gives_no_host_away() -> None:
    server = FakeServer()
    server.connected = False
    holds = RedisGpuReservations(FakeAsyncRedis(server=server))
    assert await holds.reserve_host("gpu-001", 60) is None
    await holds.release_host("gpu-001", "token")
