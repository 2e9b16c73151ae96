"""The Redis reader returns the same incident state as LangGraph, wherever a turn was interrupted."""

from dataclasses import replace

import pytest
from redis.asyncio import Redis

from bot.tasks import to_coroutine
from graph.checkpoints.checkpoint import RedisSaver
from graph.checkpoints.checkpoint_reader import NotPlainJson, parse_plain_value
from graph.incident.incident_graph import IncidentTurns
from graph.state_reader import IncidentStateReader
from kb.guides.guide import Guide, GuideStep
from tests.support.dying_saver import DyingSaver
from tests.support.fakes_graph import FakeFleet, Killed, World, fact, healthy, instead, item

pytest_plugins = ("tests.support.fixtures_redis",)
SICK = instead(healthy("n1", "n2"), fact("n2", "dmesg", "kernel.xid", 79, "gpu3"), fact("n2", "lspci", "pcie.rev_ff", True, "gpu3"))
INCIDENT = "inc-1"


async def both(redis: Redis) -> tuple[object, object]:
    """Return the state read without the graph, and through it."""
    through = IncidentTurns(RedisSaver(redis), World(FakeFleet(SICK)).ports())
    return await IncidentStateReader(redis).load_state(INCIDENT), await through.load_state(INCIDENT)


async def test_an_incident_without_stored_state_is_unknown(redis: Redis) -> None:
    assert await both(redis) == ({}, {})


async def test_a_turn_that_died_anywhere_is_read_as_the_graph_reads_it(redis: Redis) -> None:
    seen = []
    for after in range(20):
        await redis.flushall()
        saver = DyingSaver(redis, after)
        turns = IncidentTurns(saver, World(FakeFleet(SICK)).ports())
        try:
            await turns.run_turn(item("job 4711 died on n[1-2]"), None)
        except Killed:
            read, through = await both(redis)
            assert read == through, after
            seen.append(read)
        if not saver.died:
            break
    assert len(seen) > 5
    read, through = await both(redis)
    assert read == through
    assert through["report"]["root_causes"]  # type: ignore[index]


async def test_a_turn_after_another_and_one_given_up_are_read_the_same(redis: Redis) -> None:
    turns = IncidentTurns(RedisSaver(redis), World(FakeFleet(SICK)).ports())
    await turns.run_turn(item("job 4711 died on n[1-2]"), None)
    dying = IncidentTurns(DyingSaver(redis, 2), World(FakeFleet(SICK)).ports())
    again = item("and now n2 again", "reply")
    with pytest.raises(Killed):
        await dying.run_turn(again, None)
    assert (await both(redis))[0] == (await both(redis))[1]
    await turns.abandon_turn(again)
    assert (await both(redis))[0] == (await both(redis))[1]
    await turns.prune_thread(INCIDENT, None)
    assert (await both(redis))[0] == (await both(redis))[1]


async def test_no_text_of_a_site_is_stored_with_its_secret(redis: Redis) -> None:
    """A guide reaches the report in this process; only the stored form is tested."""
    secret = "tk-9fQ2xAyu71b"
    guide = Guide("site_own", f"Look with password={secret}", (GuideStep("a", ask=f"the password of the BMC is {secret}"),))
    turns = IncidentTurns(RedisSaver(redis), replace(World(FakeFleet(healthy("n1", "n2"))).ports(), guides={guide.id: guide}))
    told = await turns.run_turn(item("run guide site_own on n[1-2]"), None)
    assert told.guide is not None
    assert secret not in str(await kept_in(redis))
    state = await IncidentStateReader(redis).load_state(INCIDENT)
    assert state["report"]["guide"]["title"] == "Look with password=[redacted]"


async def kept_in(redis: Redis) -> list[bytes]:
    """Return every value of every hash."""
    return [
        value
        for key in await redis.keys("*")
        if await redis.type(key) == b"hash"
        for value in (await to_coroutine(redis.hgetall(key))).values()
    ]


@pytest.mark.parametrize("raw", [b"pickle\0\x80\x04N.", b"json\0{}", b"msgpack\0\xd4\x05x"])
def test_what_is_not_plain_is_not_rebuilt(raw: bytes) -> None:
    with pytest.raises(NotPlainJson):
        parse_plain_value(raw)
