"""The dispatcher: one turn and report per item, poison items, Slack and Redis outages, draining and resuming."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from datetime import timedelta
from typing import Any

import pytest
import structlog
from redis.asyncio import Redis
from redis.exceptions import ConnectionError as RedisGone

from bot.incidents.dispatch.dispatcher import Dispatcher, TurnLimits, TurnObserver
from bot.incidents.dispatch.inbox import Inbox
from bot.incidents.dispatch.lease import Leases
from bot.incidents.dispatch.sweeper import AUTO_CLOSE, Sweeper, plan_timers
from bot.incidents.dispatch.wakeups import LocalWakeups, StreamWakeups
from bot.store.keys import WAKEUP_STREAM_KEY, RedisKeys
from bot.tasks import cancel_tasks
from graph.incident_view import serialize_remediations
from graph.report import Report
from graph.state import REMINDER_DUE, IncidentState, Remediation
from tests.support.clock import PATIENCE, T0, SetClock
from tests.support.fakes_desk import BoardOfList, Point, TinyTurns, item, origin, straight_on
from tests.support.redis_server import RealServer

pytest_plugins = ("tests.support.fixtures_redis",)
pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def logs() -> Iterator[list[structlog.typing.EventDict]]:
    """Capture tracebacks of intended bugs instead of printing them."""
    with structlog.testing.capture_logs() as rows:
        yield rows


async def no_pause(seconds: float) -> None:
    await asyncio.sleep(0)


class Office:
    """A dispatcher with its surroundings on one Redis."""

    def __init__(
        self,
        redis: Redis,
        at: Point = straight_on,
        *,
        owner: str = "me",
        limits: TurnLimits | None = None,
        turns: TinyTurns | None = None,
        observers: Mapping[str, TurnObserver] | None = None,
    ) -> None:
        self.redis = redis
        self.clock = SetClock()
        self.inbox = Inbox(redis, self.clock)
        self.leases = Leases(redis, self.clock, owner=owner)
        self.turns = turns or TinyTurns(redis, at)
        self.board = BoardOfList()
        self.desk = Dispatcher(
            self.inbox,
            self.leases,
            self.turns,
            {**self.board.observers, **(observers or {})},
            clock=self.clock,
            timers=plan_timers,
            progress=self.board.publish_progress,
            limits=limits,
            pause=no_pause,
        )

    async def mention(self, id_: str = "T.C.1", thread: str = "1.0") -> str:
        return (await self.inbox.open_or_join(origin(thread), id_, lambda i: item(i, id_))).incident

    async def visits(self, incident: str) -> list[str]:
        state: Any = await self.turns.load_state(incident)
        return list(state.get("visits", []))

    async def come_back(self, incident: str, times: int = 1) -> None:
        """Let time pass until postponed work is due, and process it."""
        for _ in range(times):
            self.clock.go(minutes=10)
            await self.desk.process_incident(incident)


@pytest.fixture
def office(redis: Redis) -> Office:
    return Office(redis)


def turn_of(id_: str) -> list[str]:
    return [f"{id_}/{node}" for node in ("summarise", "plan", "execute", "reflect", "conclude")]


async def test_each_item_gets_one_turn_in_order_and_leaves(office: Office) -> None:
    incident = await office.mention("a")
    await office.inbox.enqueue(item(incident, "b", "reply"), "b")
    await office.desk.process_incident(incident)
    assert await office.visits(incident) == turn_of("a") + turn_of("b")
    assert office.board.posted == ["a", "b"]
    assert await office.inbox.list_waiting(incident) == []
    assert await office.redis.exists(RedisKeys().lease_key(incident)) == 0


async def test_asking_many_times_at_once_changes_nothing(office: Office) -> None:
    incident = await office.mention("a")
    await asyncio.gather(*(office.desk.process_incident(incident) for _ in range(5)))
    assert await office.visits(incident) == turn_of("a")
    assert office.board.asked == ["a"]


async def test_two_processes_on_one_redis_share_the_work(redis: Redis) -> None:
    offices = [Office(redis, owner="one"), Office(redis, owner="two")]
    incidents = [await offices[0].mention(f"m{n}", f"{n}.0") for n in range(6)]
    await asyncio.gather(*(office.desk.process_incident(incident) for incident in incidents for office in offices))
    posted = [id_ for office in offices for id_ in office.board.asked]
    assert sorted(posted) == [f"m{n}" for n in range(6)]
    assert [await offices[0].visits(incident) for incident in incidents] == [turn_of(f"m{n}") for n in range(6)]


async def test_an_item_that_comes_while_the_last_one_ends_is_not_left_lying(redis: Redis) -> None:
    office: Office

    async def late(point: str) -> None:
        if point == "conclude:end":
            [head, *_] = await office.inbox.list_waiting(incident)
            if head.id == "a":
                await office.inbox.enqueue(item(incident, "b", "reply"), "b")

    office = Office(redis, late)
    incident = await office.mention("a")
    await office.desk.process_incident(incident)
    assert office.board.posted == ["a", "b"]


async def test_a_turn_cut_off_is_continued_where_it_was(redis: Redis) -> None:
    reached = asyncio.Event()

    async def hang(point: str) -> None:
        if point == "execute:begin" and not reached.is_set():
            reached.set()
            await asyncio.Event().wait()

    office = Office(redis, hang)
    incident = await office.mention("a")
    running = asyncio.create_task(office.desk.process_incident(incident))
    await reached.wait()
    await office.desk.drain(grace=0.0)
    await asyncio.gather(running, return_exceptions=True)
    assert len(await office.inbox.list_waiting(incident)) == 1

    after = Office(redis, owner="next")
    await after.desk.process_incident(incident)
    assert await after.visits(incident) == turn_of("a")
    assert after.board.posted == ["a"]


async def test_draining_stops_at_the_next_step_and_gives_the_incident_back(redis: Redis) -> None:
    office: Office
    drained: list[asyncio.Task[None]] = []

    async def stop_in_plan(point: str) -> None:
        if point == "plan:begin":
            drained.append(asyncio.create_task(office.desk.drain()))
            await asyncio.sleep(0)

    office = Office(redis, stop_in_plan)
    incident = await office.mention("a")
    await office.desk.process_incident(incident)
    await drained[0]
    assert await office.visits(incident) == ["a/summarise", "a/plan"]
    assert await redis.exists(RedisKeys().lease_key(incident)) == 0
    await office.desk.process_incident(incident)  # a draining dispatcher starts nothing
    assert await office.visits(incident) == ["a/summarise", "a/plan"]

    after = Office(redis, owner="next")
    wakeups = await started(after)
    await Sweeper(after.inbox, wakeups).sweep()
    await after.desk.process_incident(incident)
    await wakeups.wait_until_idle()  # a task that the sweeper woke may be running
    assert await after.visits(incident) == turn_of("a")
    assert (await after.inbox.begin_attempt(incident, "zzz"))[1].begun == 1


async def test_a_turn_that_raises_is_tried_three_times_then_told_and_set_aside_and_the_desk_goes_on(redis: Redis) -> None:
    async def bug(point: str) -> None:
        if point == "plan:begin":
            [head, *_] = await office.inbox.list_waiting(incident, 1)
            if head.id == "poison":
                raise ZeroDivisionError("a bug")

    office = Office(redis, bug)
    incident = await office.mention("poison")
    await office.inbox.enqueue(item(incident, "fine", "reply"), "fine")
    await office.desk.process_incident(incident)
    assert office.board.asked == []
    assert [news.stage for news in office.board.news] == ["error"]
    await office.come_back(incident, 2)
    assert office.board.posted == ["poison", "fine"]
    assert office.board.posts[0][1].headline.startswith("Internal error")
    assert [visit for visit in await office.visits(incident) if visit.startswith("fine")] == turn_of("fine")
    [letter] = [json.loads(raw) for raw in await office.inbox.list_dead_letters()]
    assert (letter["item"]["id"], letter["why"]) == ("poison", "ZeroDivisionError: a bug")


async def everything(redis: Redis) -> str:
    """Return all hashes and lists of the store as one text."""
    client: Any = redis
    names = [(name, await client.type(name)) for name in await client.keys()]
    rows = [
        await (client.hgetall(name) if kind == b"hash" else client.lrange(name, 0, -1))
        for name, kind in names
        if kind in (b"hash", b"list")
    ]
    return str(rows)


async def test_what_a_bug_quotes_is_set_aside_without_its_secrets(redis: Redis) -> None:
    async def bug(point: str) -> None:
        if point == "plan:begin":
            raise ValueError("cannot read 'login with password=tk-9fQ2xAyu71b'")

    office = Office(redis, bug)
    await office.come_back(await office.mention("poison"), 3)
    [letter] = [json.loads(raw) for raw in await office.inbox.list_dead_letters()]
    assert letter["why"].startswith("ValueError: cannot read 'login with password=")
    kept = await everything(redis)
    assert kept.count("cannot read") >= 2, "LangGraph keeps it beside the letter"
    assert "tk-9fQ2xAyu71b" not in kept


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (
            {"event": "done", "approval": "apr-1", "remedy": "gpu_reset", "ran": True},
            "gpu_reset ran (apr-1), and its card says how it ended",
        ),
        ({"event": "denied", "approval": "apr-1", "remedy": "gpu_reset", "ran": False}, "apr-1 (gpu_reset) is over without having run"),
        ({"event": "unknown", "approval": "apr-1", "remedy": "reboot", "ran": True}, "Unknown whether reboot ran (apr-1)"),
        ({"event": "back", "ladder": "l1"}, "It was news about a fix in progress"),
    ],
)
async def test_a_broken_result_of_an_action_says_what_is_known_of_the_action(redis: Redis, data: dict[str, object], says: str) -> None:
    async def bug(point: str) -> None:
        if point == "plan:begin":
            raise ZeroDivisionError("a bug")

    office = Office(redis, bug)
    incident = await office.mention("a")
    await office.come_back(incident, 3)
    result = item(incident, "result", "action_result").model_copy(update={"data": data})
    await office.inbox.enqueue(result, "result")
    await office.come_back(incident, 3)
    [mention, broken] = [report for _, report in office.board.posts]
    assert "A message changes nothing on any host" in mention.reply
    assert says in broken.reply
    assert "othing was changed" not in broken.reply + mention.reply


async def test_an_item_that_kills_the_process_each_time_is_set_aside_too(redis: Redis) -> None:
    office = Office(redis, limits=TurnLimits(crashes=3))
    incident = await office.mention("deadly")
    for _ in range(3):
        await office.inbox.begin_attempt(incident, "deadly")  # what a killed process leaves behind
    await office.desk.process_incident(incident)
    assert office.board.posts[0][1].outcome == "abstained"
    assert await office.visits(incident) == []
    assert len(await office.inbox.list_dead_letters()) == 1


async def test_kills_while_a_report_waits_for_slack_are_not_taken_for_kills_by_its_turn(redis: Redis) -> None:
    office = Office(redis, limits=TurnLimits(crashes=3, cuts=5))
    incident = await office.mention("a")
    await office.inbox.begin_attempt(incident, "a")
    lease = await office.leases.acquire(incident)
    assert lease is not None
    await office.inbox.begin_observing(incident, lease.token, "a")  # its turn was complete
    await lease.release(again_at=office.clock.now())
    for _ in range(4):
        await office.inbox.begin_attempt(incident, "a")
    await office.desk.process_incident(incident)
    assert office.board.posted == ["a"]
    assert await office.inbox.list_dead_letters() == []


async def test_a_report_that_kills_the_process_each_time_is_set_aside_too(redis: Redis) -> None:
    office = Office(redis, limits=TurnLimits(crashes=3, cuts=5))
    incident = await office.mention("deadly")
    lease = await office.leases.acquire(incident)
    assert lease is not None
    await office.inbox.begin_observing(incident, lease.token, "deadly")
    await lease.release(again_at=office.clock.now())
    for _ in range(5):
        await office.inbox.begin_attempt(incident, "deadly")
    await office.desk.process_incident(incident)
    assert office.board.posts[0][1].outcome == "abstained"
    assert "cut off 6 times" in str(await office.inbox.list_dead_letters())


async def test_a_report_that_cannot_be_posted_keeps_its_item_and_the_turn_is_not_run_again(office: Office) -> None:
    incident = await office.mention("a")
    office.board.broken = 2
    await office.desk.process_incident(incident)
    assert len(await office.inbox.list_waiting(incident)) == 1
    await office.come_back(incident, 2)
    assert office.board.asked == ["a", "a", "a"]
    assert office.board.posted == ["a"]
    assert await office.visits(incident) == turn_of("a")


async def test_a_report_that_can_never_be_posted_does_not_block_the_incident(redis: Redis) -> None:
    office = Office(redis, limits=TurnLimits(posts=2))
    incident = await office.mention("a")
    await office.inbox.enqueue(item(incident, "b", "reply"), "b")
    office.board.broken = 2
    await office.desk.process_incident(incident)
    await office.come_back(incident, 2)
    assert office.board.posted == ["b"]
    assert len(await office.inbox.list_dead_letters()) == 1


async def test_a_report_that_is_only_too_early_waits_however_often(redis: Redis) -> None:
    office = Office(redis, limits=TurnLimits(posts=2, crashes=3))
    incident = await office.mention("a")
    office.board.early = 20
    await office.desk.process_incident(incident)
    await office.come_back(incident, 20)
    assert office.board.posted == ["a"]
    assert await office.inbox.list_dead_letters() == []
    assert await office.visits(incident) == turn_of("a")


async def test_a_stale_worker_neither_finishes_nor_posts(redis: Redis) -> None:
    async def robbed(point: str) -> None:
        if point == "execute:begin":
            await redis.set(RedisKeys().lease_key(incident), "99:somebody")

    office = Office(redis, robbed)
    incident = await office.mention("a")
    await office.desk.process_incident(incident)
    assert office.board.asked == []
    assert len(await office.inbox.list_waiting(incident)) == 1
    assert await redis.get(RedisKeys().lease_key(incident)) == b"99:somebody"
    assert await office.inbox.list_dead_letters() == []


async def test_an_incident_of_a_dead_process_is_found_by_the_sweeper(redis: Redis) -> None:
    dead, alive = Office(redis, owner="dead"), Office(redis, owner="alive")
    incident = await dead.mention("a")
    await dead.leases.acquire(incident)
    await alive.inbox.collect_due(timedelta(seconds=1))
    wakeups = await started(alive)
    sweeper = Sweeper(alive.inbox, wakeups)
    assert await sweeper.sweep() == 0
    await redis.delete(RedisKeys().lease_key(incident))  # its lease expired
    alive.clock.go(seconds=31)
    assert await sweeper.sweep() == 1
    await wakeups.wait_until_idle()
    assert alive.board.posted == ["a"]


async def test_a_timer_becomes_a_turn(office: Office) -> None:
    incident = await office.mention("a")
    await office.desk.process_incident(incident)
    wakeups = await started(office)
    sweeper = Sweeper(office.inbox, wakeups)
    assert await sweeper.sweep() == 0
    office.clock.go(days=3, seconds=1)
    assert await sweeper.sweep() == 1
    await wakeups.wait_until_idle()
    assert len(office.board.posted) == 2
    assert office.board.posted[1].startswith(f"timer:{incident}:{AUTO_CLOSE}:")


class Holding(TinyTurns):
    """Turns of an incident that holds n1 until a test releases it."""

    drained = True

    async def load_state(self, incident: str) -> IncidentState:
        row = Remediation(id="l1", label="GPU.EXECUTION.Hung", target="n1", drained=self.drained)
        return {**await super().load_state(incident), "ladders": serialize_remediations([row])}


async def test_a_closed_incident_is_not_forgotten_while_we_hold_a_node_of_it(redis: Redis) -> None:
    office = Office(redis, turns=(turns := Holding(redis)))
    incident = await office.mention("a")
    for name, drained in (("b", True), ("c", False)):
        turns.drained = drained
        await office.inbox.enqueue(item(incident, name, "close"), name)
        await office.desk.process_incident(incident)
        lives = [await redis.ttl(key) for key in (f"rm:thread:{{{incident}}}:checkpoints", RedisKeys().incident_key(incident))]
        assert all(seconds == -1 if drained else seconds > 0 for seconds in lives), lives
        assert await office.inbox.list_drained_incidents() == ([incident] if drained else [])


async def test_a_closed_incident_expires_with_its_conversation_and_a_reply_brings_both_back(office: Office) -> None:
    incident = await office.mention("a")
    await office.inbox.enqueue(item(incident, "b", "close"), "b")
    await office.desk.process_incident(incident)
    thread = f"rm:thread:{{{incident}}}:checkpoints"
    assert await office.redis.ttl(thread) > 0
    assert await office.inbox.get_lifecycle(incident) == "closed"
    assert await office.inbox.collect_due(timedelta(seconds=1)) == []
    await office.inbox.enqueue(item(incident, "c", "reply"), "c")
    await office.desk.process_incident(incident)
    assert await office.redis.ttl(thread) == -1
    assert office.board.posted == ["a", "b", "c"]


async def test_a_finished_turn_leaves_one_checkpoint(office: Office) -> None:
    incident = await office.mention("a")
    await office.desk.process_incident(incident)
    assert await office.redis.hlen(f"rm:thread:{{{incident}}}:checkpoints") == 1


async def test_redis_away_in_the_middle_of_a_turn_is_waited_out(redis: Redis) -> None:
    outages = 2

    async def away(point: str) -> None:
        nonlocal outages
        if point == "reflect:begin" and outages:
            outages -= 1
            raise RedisGone("connection refused")

    office = Office(redis, away)
    incident = await office.mention("a")
    await office.desk.process_incident(incident)
    assert office.board.posted == ["a"]
    assert await office.visits(incident) == turn_of("a")
    assert await office.inbox.list_dead_letters() == []


async def test_an_outage_longer_than_our_patience_ends_in_the_sweepers_hands(redis: Redis) -> None:
    outages = 5

    async def away(point: str) -> None:
        nonlocal outages
        if point == "plan:begin" and outages:
            outages -= 1
            raise RedisGone("connection refused")

    office = Office(redis, away)
    incident = await office.mention("a")
    await office.desk.process_incident(incident)
    assert office.board.asked == []
    wakeups = await started(office)
    office.clock.go(minutes=2)
    await Sweeper(office.inbox, wakeups).sweep()
    await wakeups.wait_until_idle()
    assert office.board.posted == ["a"]


async def test_one_bad_entry_does_not_stop_the_sweeper(redis: Redis) -> None:
    office = Office(redis)
    bad, good = await office.mention("a", "1.0"), await office.mention("b", "2.0")
    woken: list[str] = []

    class Picky(LocalWakeups):
        async def wake(self, incident: str) -> None:
            if incident == bad:
                raise ZeroDivisionError("a bug")
            woken.append(incident)

    rounds = 0

    async def some_rounds(seconds: float) -> None:
        nonlocal rounds
        rounds += 1
        office.clock.go(minutes=2)
        if rounds == 2:
            raise asyncio.CancelledError

    sweeper = Sweeper(office.inbox, Picky(), pause=some_rounds)
    with pytest.raises(asyncio.CancelledError):
        await sweeper.run()
    assert woken == [good, good]


async def test_the_question_is_asked_again_once_and_a_quiet_incident_ends() -> None:
    report = Report(item="a", outcome="diagnosed", questions=("Which job?",))
    first = plan_timers({"lifecycle": "waiting"}, report, item("inc-1"), T0)
    assert set(first) == {REMINDER_DUE, AUTO_CLOSE}
    assert set(plan_timers({"lifecycle": "waiting"}, report, item("inc-1", kind="timer"), T0)) == {AUTO_CLOSE}
    assert plan_timers({"lifecycle": "closed"}, report, item("inc-1"), T0) == {}
    assert plan_timers({"lifecycle": "handed_off"}, report, item("inc-1"), T0) == {}


async def started(office: Office) -> LocalWakeups:
    wakeups = LocalWakeups()
    await wakeups.start(office.desk.process_incident)
    return wakeups


@pytest.fixture
async def streams(redis_server: RealServer, real_redis: Redis) -> AsyncIterator[tuple[StreamWakeups, list[tuple[str, str]]]]:
    woken: list[tuple[str, str]] = []
    all_awake = asyncio.Event()

    def receiver(name: str) -> Callable[[str], Awaitable[None]]:
        async def advance(incident: str) -> None:
            woken.append((name, incident))
            if len(woken) == 20:
                all_awake.set()

        return advance

    front = StreamWakeups(redis_server.url, receive=False)
    workers = [StreamWakeups(redis_server.url, name=name) for name in ("one", "two")]
    await front.start(no_advance)
    for each, name in zip(workers, ("one", "two"), strict=True):
        await each.start(receiver(name))
    for n in range(20):
        await front.wake(f"inc-{n}")
    async with asyncio.timeout(PATIENCE):
        await all_awake.wait()
    yield front, woken
    for each in (front, *workers):
        await each.aclose()


async def no_advance(incident: str) -> None:
    raise AssertionError("a front end receives nothing")


async def test_wake_ups_travel_between_processes_and_each_is_received_once(
    streams: tuple[StreamWakeups, list[tuple[str, str]]],
) -> None:
    _, woken = streams
    assert sorted(incident for _, incident in woken) == sorted(f"inc-{n}" for n in range(20))


async def test_a_wake_up_to_a_redis_that_is_away_is_lost_quietly(durable_server: RealServer) -> None:
    wakeups = StreamWakeups(durable_server.url, receive=False)
    await wakeups.start(no_advance)
    durable_server.kill()
    await wakeups.wake("inc-1")
    await wakeups.aclose()


async def test_a_receiver_outlives_redis(durable_server: RealServer) -> None:
    woken: asyncio.Queue[str] = asyncio.Queue()
    wakeups = StreamWakeups(durable_server.url)
    await wakeups.start(woken.put)
    durable_server.kill()
    durable_server.start()
    async with Redis.from_url(durable_server.url) as redis:
        await redis.flushall()  # including the stream's consumer group
    async with asyncio.timeout(PATIENCE):
        await wakeups.wake("inc-1")
        while woken.empty():
            _, late = await asyncio.wait({asyncio.create_task(woken.get())}, timeout=0.2)
            if not late:
                break
            await cancel_tasks(*late)
            await wakeups.wake("inc-1")
    await wakeups.aclose()


async def test_a_wake_up_whose_receiver_died_before_acknowledging_it_goes_to_another(redis_server: RealServer, real_redis: Redis) -> None:
    front, woken = StreamWakeups(redis_server.url, receive=False), asyncio.Queue[str]()
    await front.start(no_advance)
    await front.wake("inc-1")
    rows: Any = await real_redis.xreadgroup("workers", "dead", {WAKEUP_STREAM_KEY: ">"})
    [[_, [(taken, _)]]] = rows
    await real_redis.xclaim(WAKEUP_STREAM_KEY, "workers", "dead", 0, [taken], idle=60_000)  # a minute ago
    other = StreamWakeups(redis_server.url, name="other")
    await other.start(woken.put)
    await front.wake("inc-2")
    async with asyncio.timeout(PATIENCE):
        assert {await woken.get(), await woken.get()} == {"inc-1", "inc-2"}
    for each in (other, front):
        await each.aclose()
    pending: Any = await real_redis.xpending(WAKEUP_STREAM_KEY, "workers")
    assert pending["pending"] == 0
