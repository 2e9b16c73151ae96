"""What was sent to us has its effect once, and what could not be stored may come again."""

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from fakeredis import FakeAsyncRedis
from redis.asyncio import Redis

from bot.store.heard import HeardOnce, Hearing


@pytest.fixture
async def redis() -> AsyncIterator[Redis]:
    async with FakeAsyncRedis() as redis:
        yield redis


async def said(heard: HeardOnce, sign: str = "s", room: str = "slack") -> Hearing:
    async with heard.hearing(room, sign) as what:
        return what


async def test_the_same_message_again_has_no_second_effect(redis: Redis) -> None:
    heard = HeardOnce(redis, timedelta(minutes=15))
    assert [await said(heard), await said(heard)] == [Hearing.FIRST, Hearing.BEFORE]
    assert [await said(heard, "other"), await said(heard, room="alerts")] == [Hearing.FIRST, Hearing.FIRST]
    assert 0 < await redis.ttl("rm:heard:slack:s") <= 900


async def test_a_second_one_beside_the_first_waits_for_how_that_ends(redis: Redis) -> None:
    heard = HeardOnce(redis, timedelta(minutes=15))
    async with heard.hearing("slack", "s"):
        assert await said(heard) is Hearing.GOES_ON
    assert await said(heard) is Hearing.BEFORE


async def test_what_could_not_be_stored_is_heard_when_it_comes_again(redis: Redis) -> None:
    heard = HeardOnce(redis, timedelta(minutes=15))
    with pytest.raises(OSError, match="away"):
        async with heard.hearing("slack", "s"):
            raise OSError("away")
    assert await said(heard) is Hearing.FIRST
