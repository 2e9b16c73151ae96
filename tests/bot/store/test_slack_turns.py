"""Turns at a rate-limited Slack method: one queue for all processes, removed when unused, and no obstacle when Redis is
away.
"""

import asyncio

from fakeredis import FakeAsyncRedis, FakeServer
from redis.asyncio import Redis

from bot.store.slack_state import SlackRateSlots

pytest_plugins = ("tests.support.fixtures_redis",)
EACH = 60.0


async def test_calls_do_not_queue_before_the_first_refusal(redis: Redis) -> None:
    one, other = SlackRateSlots(redis), SlackRateSlots(redis)
    assert not await other.is_rate_limited("chat.update")
    await one.apply_retry_after("chat.update", 30, EACH)
    assert await other.is_rate_limited("chat.update")
    assert not await other.is_rate_limited("chat.postMessage:C1")


async def test_all_processes_take_turns_from_one_row_after_the_rest(redis: Redis) -> None:
    one, other = SlackRateSlots(redis), SlackRateSlots(redis)
    await one.apply_retry_after("chat.update", 30, EACH)
    turns = sorted(await asyncio.gather(*(row.reserve_slot("chat.update", EACH) for row in (one, other, one, other))))
    assert [round(turn / 10) for turn in turns] == [3, 9, 15, 21]
    assert 0 < await redis.pttl("rm:turns:chat.update") <= 330_000


async def test_a_shorter_rest_brings_no_turn_nearer(redis: Redis) -> None:
    row = SlackRateSlots(redis)
    await row.apply_retry_after("chat.update", 300, EACH)
    await row.apply_retry_after("chat.update", 1, EACH)
    assert await row.reserve_slot("chat.update", EACH) > 200


async def test_an_unavailable_store_delays_no_call() -> None:
    server = FakeServer()
    row = SlackRateSlots(FakeAsyncRedis(server=server))
    server.connected = False
    await row.apply_retry_after("chat.update", 30, EACH)
    assert not await row.is_rate_limited("chat.update")
    assert await row.reserve_slot("chat.update", EACH) == 0.0
