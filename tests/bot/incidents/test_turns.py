"""The dispatcher with the real incident graph and saver: turns end, resume, stop and are abandoned."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
import structlog
from redis.asyncio import Redis

from bot.incidents.dispatch.dispatcher import Dispatcher, return_item_unchanged
from bot.incidents.dispatch.inbox import Inbox
from bot.incidents.dispatch.lease import Leases
from bot.incidents.dispatch.sweeper import plan_timers
from bot.store.keys import RedisKeys
from bot.store.model_costs import RedisSpendStore
from graph.checkpoints.checkpoint import RedisSaver
from graph.incident.incident_graph import IncidentTurns
from graph.model.reasoner import ModelSpend
from graph.state import InboxItem
from tests.support.clock import SetClock
from tests.support.fakes_desk import BoardOfList
from tests.support.fakes_graph import FakeFleet, World, fact, healthy, instead, item
from tools.fleet.answers import AnswerCallback, CheckRequest, FleetAnswers

pytest_plugins = ("tests.support.fixtures_redis",)
HOSTS = ("n1", "n2", "n3", "n4")
INCIDENT = "inc-1"


@pytest.fixture(autouse=True)
def logs() -> Iterator[list[structlog.typing.EventDict]]:
    """Capture tracebacks of intended bugs instead of printing them."""
    with structlog.testing.capture_logs() as rows:
        yield rows


def sick() -> list[Any]:
    return instead(healthy(*HOSTS), fact("n2", "dmesg", "kernel.xid", 79, "gpu3"), fact("n2", "lspci", "pcie.rev_ff", True, "gpu3"))


class Office:
    """A dispatcher over the real graph in a small world."""

    def __init__(
        self, redis: Redis, world: World, *, owner: str = "me", fetch: Callable[[InboxItem], Awaitable[InboxItem]] = return_item_unchanged
    ) -> None:
        self.clock = SetClock(world.clock.at)
        self.inbox = Inbox(redis, self.clock)
        ports = replace(world.ports(), peek=self.inbox.list_waiting)
        self.turns = IncidentTurns(RedisSaver(redis), ports)
        self.board = BoardOfList()
        leases = Leases(redis, self.clock, owner=owner)

        async def no_pause(seconds: float) -> None:
            await asyncio.sleep(0)

        self.desk = Dispatcher(
            self.inbox, leases, self.turns, self.board.observers, clock=self.clock, timers=plan_timers, fetch=fetch, pause=no_pause
        )

    async def say(self, *said: InboxItem) -> None:
        for one in said:
            await self.inbox.enqueue(one, one.id)
        await self.desk.process_incident(INCIDENT)


async def test_a_mention_becomes_a_diagnosis_and_a_why_is_answered_from_the_stored_state(redis: Redis) -> None:
    office = Office(redis, World(FakeFleet(sick())))
    await office.say(item("job 4711 died on n[1-4]"), item("why?", "why"))
    assert [posted.outcome for _, posted in office.board.posts] == ["diagnosed", "diagnosed"]
    assert office.board.posts[0][1].root_causes[0].devices == ("n2/gpu3",)
    assert "n2" in office.board.posts[1][1].reply
    state = await office.turns.load_state(INCIDENT)
    assert state["done_items"] == ["mention-1", "why-1"]


async def test_an_ordinary_incident_is_small_at_rest(real_redis: Redis) -> None:
    office = Office(real_redis, World(FakeFleet(sick())))
    await office.say(item("job 4711 died on n[1-4]"))
    size = sum([await real_redis.memory_usage(key, samples=0) or 0 async for key in real_redis.scan_iter(match="rm:thread:*")])
    assert size <= 8 * 1024


class PluggedOut(FakeFleet):
    """A fleet whose first run stops the process."""

    def __init__(self, facts: list[Any]) -> None:
        super().__init__(facts)
        self.reached = asyncio.Event()

    async def run_checks(
        self, incident: str, asks: Sequence[CheckRequest], seen: AnswerCallback | None = None, *, fresh: bool = False
    ) -> FleetAnswers:
        if not self.reached.is_set():
            self.reached.set()
            await asyncio.Event().wait()
        return await super().run_checks(incident, asks, seen, fresh=fresh)


async def test_a_turn_cut_off_while_looking_is_completed_by_the_next_process(redis: Redis) -> None:
    world = World(PluggedOut(sick()))
    office = Office(redis, world)
    assert isinstance(world.fleet, PluggedOut)
    saying = asyncio.create_task(office.say(item("job 4711 died on n[1-4]")))
    await world.fleet.reached.wait()
    await office.desk.drain(grace=0.0)
    await asyncio.gather(saying, return_exceptions=True)
    state = await office.turns.load_state(INCIDENT)
    assert state["brief"]["hosts"]
    assert "report" not in state

    after = Office(redis, world, owner="next")
    await after.say(item("and it was fine yesterday", "reply"))
    assert after.board.posted == ["mention-1", "reply-1"]
    assert after.board.posts[0][1].root_causes[0].devices == ("n2/gpu3",)


async def test_a_broken_turn_is_given_up_and_the_next_item_gets_its_own(redis: Redis) -> None:
    class Broken(FakeFleet):
        async def run_checks(
            self, incident: str, asks: Sequence[CheckRequest], seen: AnswerCallback | None = None, *, fresh: bool = False
        ) -> FleetAnswers:
            if len(self.fresh) < 3:
                self.fresh.append(fresh)
                raise ZeroDivisionError("a bug")
            return await super().run_checks(incident, asks, seen, fresh=fresh)

    office = Office(redis, World(Broken(sick())))
    await office.say(item("job 4711 died on n[1-4]"))
    await office.desk.process_incident(INCIDENT)
    await office.desk.process_incident(INCIDENT)
    assert office.board.posts[0][1].headline.startswith("Internal error")
    await office.say(item("job 4711 died on n[1-4]", id="again"))
    assert office.board.posts[1][1].root_causes[0].devices == ("n2/gpu3",)
    assert (await office.turns.load_state(INCIDENT))["done_items"] == ["again"]


async def test_a_closed_incident_gets_a_lifetime(redis: Redis) -> None:
    office = Office(redis, World(FakeFleet(sick())))
    await office.say(item("job 4711 died on n[1-4]"), item("", "close", data={"root_cause": "cable"}))
    assert await redis.ttl(f"rm:thread:{{{INCIDENT}}}:checkpoints") > 0
    assert await office.inbox.get_lifecycle(INCIDENT) == "closed"


async def test_what_an_item_points_to_is_fetched_before_its_turn(redis: Redis) -> None:
    async def fetch(given: InboxItem) -> InboxItem:
        return given.model_copy(update={"text": "job 4711 died on n[1-4]"})

    office = Office(redis, World(FakeFleet(sick())), fetch=fetch)
    await office.say(item("see above"))
    assert office.board.posts[0][1].root_causes[0].devices == ("n2/gpu3",)


async def test_spending_is_kept_as_long_as_the_incident(real_redis: Redis) -> None:
    office = Office(real_redis, World(FakeFleet(sick())))
    await office.say(item("job 4711 died on n[1-4]"))
    await RedisSpendStore(real_redis).add_spend(INCIDENT, ModelSpend(1, 10, 1, 0.01))
    key = RedisKeys().incident_key(INCIDENT, "spent")
    assert await real_redis.ttl(key) == -1
    await office.say(item("", "close", data={"root_cause": "cable"}))
    assert await real_redis.ttl(key) > 0
    await office.say(item("it is back", "reply"))
    assert await real_redis.ttl(key) == -1


@pytest.mark.parametrize("kind", ["reply"])
async def test_a_reply_to_an_unknown_incident_is_a_turn_of_its_own(redis: Redis, kind: Any) -> None:
    office = Office(redis, World(FakeFleet(sick())))
    await office.say(item("n[1-4] slow", kind))
    assert len(office.board.posts) == 1
