"""Every Redis key is built in `bot.store.keys` and listed in its table."""

import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
from fakeredis import FakeAsyncRedis
from redis.asyncio import Redis

from bot.incidents.dispatch.dispatcher import Dispatcher
from bot.incidents.dispatch.inbox import Inbox
from bot.incidents.dispatch.lease import Leases
from bot.incidents.dispatch.sweeper import plan_timers
from bot.slack.posted_messages import PostedCards
from bot.store.gpu_reservations import RedisGpuReservations
from bot.store.keys import DIRECT_MESSAGE_KEYS, KEY_TABLE, LEDGER_KEY_PREFIX, THREAD_KEY_PREFIX, RedisKeys
from bot.store.model_costs import RedisSpendStore
from graph.checkpoints.checkpoint import RedisSaver
from graph.model.reasoner import ModelSpend
from tests.support.clock import SetClock
from tests.support.fakes_actions import Office, Site, hung, well
from tests.support.fakes_bot import slack_side
from tests.support.fakes_desk import BoardOfList, TinyTurns, item, origin
from tools.ledger.reader import LedgerReader


@pytest.fixture
async def redis() -> AsyncIterator[Redis]:
    async with FakeAsyncRedis() as redis:
        yield redis


async def keys_of(redis: Redis) -> list[str]:
    found: Any = await redis.keys("*")
    return [key.decode() for key in found]


def rows_of(key: str) -> list[str]:
    """Return the table's rows that match this key, most specific first."""
    forms = [row.form for row in KEY_TABLE if re.fullmatch(re.escape(row.form).replace(r"\*", "[^{}]+?"), key)]
    return sorted(forms, key=len, reverse=True)


async def test_what_an_incident_and_its_repair_leave_in_redis_stands_in_the_table(redis: Redis) -> None:
    site = Site(facts=well("n1", "n2", "n3", "n4", "m1", "m2", "ctl"))
    site.sick(hung("n1"))
    office = Office(redis, site)
    incident = await office.mention()
    await office.approve(incident, "drain_node")
    await office.index.record_shown_news("apr-1", "card", "shown")
    await RedisSpendStore(redis).add_spend(incident, ModelSpend(1, 1, 1, 0.1))
    keys = await keys_of(redis)
    assert {"rm:actions:due", f"rm:incident:{{{incident}}}:spent"} <= set(keys)
    assert [key for key in keys if not rows_of(key)] == []


async def test_what_the_desk_and_its_neighbours_hold_while_they_work_stands_in_the_table(redis: Redis) -> None:
    clock, seen = SetClock(), set[str]()

    async def look(point: str) -> None:
        seen.update(await keys_of(redis))

    inbox, cards = Inbox(redis, clock), PostedCards(redis)
    desk = Dispatcher(inbox, Leases(redis, clock), TinyTurns(redis, look), BoardOfList().observers, clock=clock, timers=plan_timers)
    incident = (await inbox.open_or_join(origin(), "a", lambda i: item(i, "a"))).incident
    await RedisGpuReservations(redis).reserve_host("n1", 60)
    await cards.set(incident, "living", "1.0")
    async with cards.hold_lock(incident, "living"):
        await look("alone")
    await desk.process_incident(incident)
    await look("end")
    assert {
        RedisKeys().lease_key(incident),
        RedisKeys().gpu_reservation_key("n1"),
        RedisKeys().card_lock_key(incident, "living"),
        RedisKeys().incident_key(incident, "timers"),
    } <= seen
    assert [key for key in seen if not rows_of(key)] == []


async def test_what_a_direct_message_leaves_in_redis_stands_in_the_table_and_goes_by_itself() -> None:
    async with slack_side() as bot:
        channel = bot.slack.dm("olga").id
        await bot.slack.say("olga", channel, "help")
        await bot.settled()
        keys = [key for key in await keys_of(bot.redis) if key.startswith("rm:direct:")]
        assert [key for key in keys if not rows_of(key)] == []
        assert [key for key in keys if await bot.redis.ttl(key) == -1] == [DIRECT_MESSAGE_KEYS.fence]
        assert len(keys) == 7


def test_the_rooms_below_spell_their_keys_as_the_table_says() -> None:
    redis = FakeAsyncRedis()
    assert RedisSaver(redis)._prefix == THREAD_KEY_PREFIX
    assert LedgerReader(redis, b"0" * 32, SetClock())._prefix == LEDGER_KEY_PREFIX
    assert rows_of(f"{THREAD_KEY_PREFIX}:{{inc-1}}:index")
    assert rows_of(f"{LEDGER_KEY_PREFIX}apr:1")
