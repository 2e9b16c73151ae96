"""A lease is renewed while the event loop is blocked, and losing it cancels the work."""

import pytest
from redis import Redis as Blocking
from redis.asyncio import Redis

from bot.incidents.dispatch.lease import Leases
from bot.store.keys import RedisKeys
from graph.checkpoints.fence import LostLease
from tests.support.clock import SetClock
from tests.support.redis_server import RealServer

pytest_plugins = ("tests.support.fixtures_redis",)
pytestmark = pytest.mark.slow
SECONDS = 6.0


def leases_of(real_redis: Redis, server: RealServer) -> Leases:
    return Leases(real_redis, SetClock(), owner="me", seconds=SECONDS, url=f"unix://{server.socket}")


async def test_a_loop_that_is_held_up_keeps_its_lease(real_redis: Redis, redis_server: RealServer) -> None:
    lease = await leases_of(real_redis, redis_server).acquire("inc-1")
    assert lease

    async def turn() -> int:
        """Block the event loop until the lease was renewed twice."""
        renewed, left = 0, SECONDS * 1000
        with Blocking.from_url(f"unix://{redis_server.socket}") as other:
            while renewed < 2:
                now = other.pttl(RedisKeys().lease_key("inc-1"))
                assert isinstance(now, int)
                assert now > 0, "it ran out"
                renewed, left = renewed + (now > left), now
        return renewed

    assert await lease.guard(turn()) == 2
    assert await lease.release()


async def test_a_lease_that_another_took_ends_the_work(real_redis: Redis, redis_server: RealServer) -> None:
    lease = await leases_of(real_redis, redis_server).acquire("inc-1")
    assert lease
    await real_redis.set(RedisKeys().lease_key("inc-1"), "99:somebody")

    async def turn() -> None:
        await real_redis.blpop(["never"], timeout=0)

    with pytest.raises(LostLease):
        await lease.guard(turn())
