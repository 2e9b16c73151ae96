"""A scheduled second look survives a restart, runs once, and is cancelled by `stop`."""

from dataclasses import replace
from datetime import timedelta

import pytest
from redis.asyncio import Redis

from bot.incidents.dispatch.inbox import DueEntry
from graph.checkpoints.checkpoint import RedisSaver
from graph.context import IncidentTimeouts
from graph.incident.incident_graph import IncidentTurns
from graph.state import FULL_RECHECK
from tests.bot.incidents.test_turns import HOSTS, INCIDENT, Office
from tests.support.fakes_graph import FakeFleet, World, fact, healthy, instead, item

pytest_plugins = ("tests.support.fixtures_redis",)
pytestmark = pytest.mark.slow
FIVE = timedelta(minutes=5)


class Watching(Office):
    """A dispatcher whose incidents are looked at again."""

    def __init__(self, redis: Redis, world: World, *, owner: str = "me") -> None:
        super().__init__(redis, world, owner=owner)
        self.world = world
        self.desk._turns = IncidentTurns(
            RedisSaver(redis), replace(world.ports(), peek=self.inbox.list_waiting, waits=IncidentTimeouts(look_again=FIVE))
        )

    async def passes(self, span: timedelta) -> list[str]:
        """Advance the clock, process due timers and return why they were due."""
        self.clock.at += span
        self.world.clock.at = self.clock.at
        due: list[DueEntry] = await self.inbox.collect_due(timedelta(seconds=1))
        for entry in due:
            await self.inbox.fire_timer(entry)
        await self.desk.process_incident(INCIDENT)
        return [entry.why for entry in due]


async def test_another_process_makes_it_after_a_restart_and_only_once(redis: Redis) -> None:
    world = World(FakeFleet(healthy(*HOSTS)))
    before = Watching(redis, world)
    await before.say(item("job 4711 looks odd on n[1-4]"))
    assert before.board.posts[-1][1].look_again
    world.fleet = FakeFleet(instead(healthy(*HOSTS), fact("n2", "dmesg", "kernel.xid", 79, "gpu3")))
    after = Watching(redis, world, owner="next")
    assert await after.passes(FIVE - timedelta(seconds=1)) == []
    assert await after.passes(timedelta(seconds=1)) == [FULL_RECHECK]
    assert [report.outcome for _, report in after.board.posts] == ["diagnosed"]
    assert await after.passes(2 * FIVE) == []


async def test_stop_takes_it_back(redis: Redis) -> None:
    office = Watching(redis, World(FakeFleet(healthy(*HOSTS))))
    await office.say(item("job 4711 looks odd on n[1-4]"))
    await office.say(item("stop", "stop"))
    assert FULL_RECHECK not in await office.passes(FIVE)


async def test_a_new_report_puts_it_off(redis: Redis) -> None:
    office = Watching(redis, World(FakeFleet(healthy(*HOSTS))))
    await office.say(item("job 4711 looks odd on n[1-4]"))
    await office.passes(timedelta(minutes=3))
    await office.say(item("n[1-2]", "recheck"))
    assert await office.passes(timedelta(minutes=3)) == []
    assert await office.passes(timedelta(minutes=2)) == [FULL_RECHECK]
