"""A message has one effect, and may be redelivered if it was not stored."""

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from fakeredis import FakeAsyncRedis
from redis.asyncio import Redis

from bot.store.replay_guard import ReplayGuard, ReplayState


@pytest.fixture
async def redis() -> AsyncIterator[Redis]:
    async with FakeAsyncRedis() as redis:
        yield redis


async def said(heard: ReplayGuard, sign: str = "s", room: str = "slack") -> ReplayState:
    async with heard.guard_message(room, sign) as what:
        return what


async def test_the_same_message_again_has_no_second_effect(redis: Redis) -> None:
    heard = ReplayGuard(redis, timedelta(minutes=15))
    assert [await said(heard), await said(heard)] == [ReplayState.FIRST, ReplayState.BEFORE]
    assert [await said(heard, "other"), await said(heard, room="alerts")] == [ReplayState.FIRST, ReplayState.FIRST]
    assert 0 < await redis.ttl("rm:heard:slack:s") <= 900


async def test_a_second_one_beside_the_first_waits_for_how_that_ends(redis: Redis) -> None:
    heard = ReplayGuard(redis, timedelta(minutes=15))
    async with heard.guard_message("slack", "s"):
        assert await said(heard) is ReplayState.GOES_ON
    assert await said(heard) is ReplayState.BEFORE


async def test_what_could_not_be_stored_is_heard_when_it_comes_again(redis: Redis) -> None:
    heard = ReplayGuard(redis, timedelta(minutes=15))
    with pytest.raises(OSError, match="away"):
        async with heard.guard_message("slack", "s"):
            raise OSError("away")
    assert await said(heard) is ReplayState.FIRST
