"""After a turn: observers run whatever the others raise, those that failed are repeated alone, and an outage of Slack delays posts only."""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import timedelta
from functools import partial

import pytest
import structlog
from redis.asyncio import Redis

from bot.incidents.dispatch.closed_incidents import update_closed_incident
from bot.incidents.dispatch.dispatcher import REPORT_OBSERVER, Dispatcher, TurnLimits, TurnObserver
from bot.incidents.dispatch.lease import Leases
from bot.incidents.dispatch.metrics import IncidentMetricsStore, record_metrics
from bot.incidents.dispatch.sweeper import plan_timers
from bot.store.closed_incidents import ClosedIncidentIndex
from graph.closed_incidents import ClosedIncidentQuery
from graph.report import Report
from graph.state import InboxItem, InboxItemKind, IncidentState, Origin
from tests.bot.incidents.dispatch.test_dispatcher import Office as Desk
from tests.support.clock import T0
from tests.support.fakes_actions import CHANNEL, TEAM, Office, Site, Wall, well
from tests.support.fakes_desk import BoardOfList
from tests.support.fakes_graph import fact

pytest_plugins = ("tests.support.fixtures_redis",)
pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def logs() -> Iterator[list[structlog.typing.EventDict]]:
    with structlog.testing.capture_logs() as rows:
        yield rows


class Failing:
    """An observer that raises so many times, and one that never does."""

    def __init__(self, times: int) -> None:
        self.left, self.calls = times, list[str]()

    async def raise_error(self, incident: str, state: IncidentState, report: Report) -> None:
        self.calls.append("failing")
        if self.left:
            self.left -= 1
            raise ZeroDivisionError("a bug")

    async def do_work(self, incident: str, state: IncidentState, report: Report) -> None:
        self.calls.append("working")

    @property
    def observers(self) -> dict[str, TurnObserver]:
        return {"failing": self.raise_error, "working": self.do_work}


async def test_an_observer_that_raises_stops_no_other_and_is_repeated_alone(redis: Redis, logs: list[structlog.typing.EventDict]) -> None:
    desk = Desk(redis, observers=(failing := Failing(2)).observers)
    incident = await desk.mention("a")
    await desk.desk.process_incident(incident)
    assert (desk.board.posted, failing.calls) == (["a"], ["failing", "working"])
    assert len(await desk.inbox.list_waiting(incident)) == 1
    await desk.come_back(incident, 2)
    assert (desk.board.asked, failing.calls) == (["a"], ["failing", "working", "failing", "failing"])
    assert await desk.inbox.list_waiting(incident) == []
    assert [(row["observer"], row["item"]) for row in logs if row["event"] == "dispatcher.observer_failed"] == [("failing", "a")] * 2


async def test_an_observer_that_never_completes_does_not_block_the_incident(redis: Redis) -> None:
    desk = Desk(redis, observers=(failing := Failing(2)).observers, limits=TurnLimits(observes=2))
    incident = await desk.mention("a")
    await desk.inbox.enqueue(InboxItem(id="b", kind="reply", incident=incident, at=T0), "b")
    await desk.desk.process_incident(incident)
    await desk.come_back(incident, 2)
    assert desk.board.posted == ["a", "b"]
    assert failing.calls == ["failing", "working", "failing", "failing", "working"]
    assert "failing: ZeroDivisionError: a bug" in str(await desk.inbox.list_dead_letters())


async def test_a_report_that_waits_for_slack_is_not_given_up_because_another_observer_raises(redis: Redis) -> None:
    desk = Desk(redis, observers=Failing(20).observers, limits=TurnLimits(observes=2, posts=2))
    incident = await desk.mention("a")
    desk.board.early = 20
    await desk.desk.process_incident(incident)
    await desk.come_back(incident, 20)
    assert desk.board.posted == ["a"]
    assert await desk.inbox.list_dead_letters() == []


class House(Office):
    """One process with the observers that need no Slack, the board and the wall being Slack."""

    def __init__(self, redis: Redis, site: Site) -> None:
        super().__init__(redis, site, wall=Wall())
        self.board, self.metrics = BoardOfList(), IncidentMetricsStore(redis)
        self.index_of_closed = ClosedIncidentIndex(redis, lambda reader, other: "whole", timedelta(days=30))
        observers: dict[str, TurnObserver] = {
            "metrics": partial(record_metrics, self.metrics, self.clock),
            "history": partial(update_closed_incident, self.index_of_closed, self.clock),
            REPORT_OBSERVER: self.board.publish_report,
            "remediation": self.actions.schedule_after_turn,
        }
        leases = Leases(redis, self.clock, owner=self.worker)
        self.desk = Dispatcher(self.inbox, leases, self.turns, observers, clock=self.clock, timers=plan_timers)

    def set_slack_away(self, away: bool) -> None:
        self.board.broken, self.wall.away = (1000 if away else 0), away

    async def report(self, text: str, thread: str) -> str:
        origin = Origin(kind="slack", team=TEAM, channel=CHANNEL, thread_ts=thread, user="EVE")

        def make(incident: str) -> InboxItem:
            return InboxItem(id=thread, kind="mention", incident=incident, at=self.clock.now(), user="EVE", text=text)

        return (await self.inbox.open_or_join(origin, thread, make)).incident

    async def enqueue(self, incident: str, id_: str, kind: InboxItemKind) -> None:
        await self.inbox.enqueue(InboxItem(id=id_, kind=kind, incident=incident, at=self.clock.now(), user="EVE"), id_)

    async def pass_minutes(self, minutes: int) -> None:
        """Sweep once a minute, as a worker's sweepers do."""
        for _ in range(minutes):
            self.clock.go(minutes=1)
            for due in await self.inbox.collect_due(timedelta(seconds=15)):
                await self.desk.process_incident(due.incident)
            await self.actions.wake_due()
            for name in dict.fromkeys(self.woken):
                self.woken = [one for one in self.woken if one != name]
                await self.actions.handle_wakeup(name)

    async def find_closed(self, *hosts: str) -> Sequence[str]:
        query = ClosedIncidentQuery("inc-now", Origin(kind="slack"), hosts, hosts, (), ())
        return [row.incident for row in (await self.index_of_closed.find_incidents(query)).found]


async def test_while_slack_is_away_for_an_hour_only_posts_wait_and_come_once(redis: Redis) -> None:
    site = Site(facts=well("n1", "n2", "n3", "n4", "m1", "m2", "ctl"))
    house = House(redis, site)
    before = await house.report("job 4712 is slow on n2", "2.0")
    await house.pass_minutes(1)
    assert house.board.posted == ["2.0"]

    house.set_slack_away(True)
    site.sick(fact("n1", "smi", "gpu.throttle.applications_clocks", True, "gpu3"))
    incident = await house.report("job 4711 is slow on n1", "1.0")
    await house.enqueue(before, "over", "close")
    await house.pass_minutes(5)
    assert len(await house.pending(incident)) == 1, "it is proposed, and its card waits"
    await house.pass_minutes(55)
    assert (house.board.posted, house.wall.cards) == (["2.0"], [])
    metrics = [await house.metrics.load_metrics(one) for one in (incident, before)]
    assert [row and (row.outcome, row.closed) for row in metrics] == [("diagnosed", False), ("no_fault", True)]
    assert await house.find_closed("n2") == [before]

    house.set_slack_away(False)
    await house.pass_minutes(10)
    assert {"1.0", "2.0", "over"} <= set(house.board.posted)
    assert max(Counter(house.board.posted).values()) == 1
    [action] = await house.pending(incident)  # a card that nobody saw has expired by its clock, and it is proposed again
    assert house.wall.cards.count(action.approval) == 1
    assert max(Counter(house.wall.cards).values()) == 1
    assert site.effects == []
    assert await house.inbox.list_dead_letters() == []
    assert [await house.inbox.list_waiting(one) for one in (incident, before)] == [[], []]
