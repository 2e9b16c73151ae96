"""Tenant quotas: slots go round between tenants, a tenant over a limit waits and is told, and nothing is lost."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, cast

import pytest
from fakeredis import FakeAsyncRedis
from hypothesis import given
from hypothesis import strategies as st
from redis.asyncio import Redis

from bot.incidents.dispatch.dispatcher import Dispatcher, TurnLimits
from bot.incidents.dispatch.fair_semaphore import FairSemaphore
from bot.incidents.dispatch.inbox import Inbox
from bot.incidents.dispatch.lease import Leases
from bot.incidents.dispatch.quota_gate import QuotaGate
from bot.incidents.dispatch.sweeper import Sweeper, plan_timers
from bot.incidents.dispatch.wakeups import LocalWakeups, StreamWakeups
from bot.policy.quotas import (
    HOUR,
    LIMIT_DESCRIPTIONS,
    ExceededLimit,
    Quota,
    QuotaLimit,
    Quotas,
    QuotaUsage,
    WaitingTenant,
    find_exceeded_limit,
)
from bot.store.keys import RedisKeys
from bot.store.quotas import QuotaStore, QuotaWaitingList
from bot.tenants.cards.phrases import PHRASES
from bot.tenants.quota_notices import render_notice
from graph.report import Report
from graph.state import SIDE_KEY, TENANT_SIDE, InboxItem, IncidentState, Origin, TenantThread
from tests.support.clock import PATIENCE, T0, SetClock
from tests.support.fakes_desk import BoardOfList, TinyTurns, item
from tests.support.redis_server import RealServer

pytest_plugins = ("tests.support.fixtures_redis",)
pytestmark = pytest.mark.slow


def customer(tenant: str, ts: str) -> Origin:
    came = TenantThread(team="T", channel=f"C0{tenant.upper()}", thread_ts=ts, user="U1")
    return Origin(kind="slack", team="T", channel="C0OPS", user="U1", tenant=tenant, customer=came)


MISTAKE = "USER.CONFIG.NCCL_SOCKET_IFNAME_Wrong"  # the only cause that tenants repair themselves


class Office:
    """A dispatcher that serves tenants and records what they were told."""

    def __init__(
        self,
        redis: Redis,
        *,
        shares: Quotas | None = None,
        at_once: int = 32,
        turns: TinyTurns | None = None,
        board: BoardOfList | None = None,
    ) -> None:
        self.redis, self.clock, self.shares = redis, SetClock(), shares or Quotas()
        self.inbox, self.turns, self.board = Inbox(redis, self.clock), turns or TinyTurns(redis), board or BoardOfList()
        self.told: list[tuple[str, ExceededLimit]] = []
        self.waits = QuotaWaitingList(redis, self.clock)
        gate = QuotaGate(self.shares, QuotaStore(redis, self.clock), self.waits, self.inbox, self.clock, self._tell, MISTAKE.__eq__)
        leases = Leases(redis, self.clock, owner="me")
        self.desk = Dispatcher(
            self.inbox,
            leases,
            self.turns,
            self.board.observers,
            clock=self.clock,
            timers=plan_timers,
            limits=TurnLimits(at_once=at_once),
            gate=gate,
            weight=lambda tenant: self.shares.get_quota(tenant).turns,
        )

    async def _tell(self, origin: Origin, item: InboxItem, no: ExceededLimit, share: Quota) -> None:
        self.told.append((item.id, no))

    async def reports(self, tenant: str, n: int, count: int = 1) -> list[str]:
        """Open `count` incidents of a tenant, each in its own thread."""
        return [(await self._one(tenant, f"{tenant}.{k}")) for k in range(n, n + count)]

    async def _one(self, tenant: str, id_: str) -> str:
        return (await self.inbox.open_or_join(customer(tenant, id_), id_, lambda i: said_by_customer(i, id_))).incident

    async def ticket(self, tenant: str, id_: str) -> str:
        """Open an incident from a ticket of the tenant's own RackMedic."""
        sent = Origin(kind="slack", channel="C0OPS", tenant=tenant, ticket=f"{tenant}/{id_}")
        return (await self.inbox.open_or_join(sent, id_, lambda i: said_by_customer(i, id_))).incident

    async def go_on(self, **span: float) -> None:
        """Advance the clock and process what is due."""
        self.clock.go(**span)
        wakeups = LocalWakeups()
        await wakeups.start(self.desk.process_incident)
        await Sweeper(self.inbox, wakeups).sweep()
        await wakeups.wait_until_idle()


def said_by_customer(incident: str, id_: str, kind: str = "mention") -> InboxItem:
    return item(incident, id_).model_copy(update={"kind": kind, "data": {SIDE_KEY: TENANT_SIDE}})


@pytest.fixture
def office(redis: Redis) -> Office:
    return Office(redis, shares=Quotas(tenants={"acme": Quota(mentions_per_hour=2), "small": Quota(incidents=1)}))


# -- one tenant's storm ---------------------------------------------------------------------------------------------


MANY = 1000  # connections: embedded Redis has no limit either, and a real one's pool waits instead
PLENTY = Quotas(every=Quota(mentions_per_hour=1000, incidents=1000))


@dataclass
class WatchedBoard(BoardOfList):
    """Sets an event when the awaited incident is reported."""

    waited_for: str = ""
    told: asyncio.Event = field(default_factory=asyncio.Event)

    async def publish_report(self, incident: str, state: IncidentState, report: Report) -> None:
        await super().publish_report(incident, state, report)
        if incident == self.waited_for:
            self.told.set()


class Storm:
    """Two hundred mentions of one tenant, then one of another."""

    def __init__(self, redis: Redis, turns: TinyTurns, at_once: int) -> None:
        self.board = WatchedBoard()
        self.office = Office(redis, shares=PLENTY, at_once=at_once, turns=turns, board=self.board)

    async def breaks(self, wake: Callable[[str], Awaitable[None]]) -> list[str]:
        """Return incidents in the order reported, up to the other tenant's."""
        flood = await self.office.reports("acme", 0, 200)
        [self.board.waited_for] = await self.office.reports("globex", 0)
        for incident in (*flood, self.board.waited_for):
            await wake(incident)
        async with asyncio.timeout(PATIENCE):
            await self.board.told.wait()
        await self.office.desk.drain(grace=0)
        return [incident for incident, _ in self.board.posts]


class StandingTurns(TinyTurns):
    """The first tenant's turns never end."""

    async def run_turn(self, item: InboxItem, origin: Origin | None) -> Report:
        if origin and origin.tenant == "acme":
            await asyncio.Event().wait()
        return await super().run_turn(item, origin)


@pytest.mark.parametrize("at_once", [1, 5])
async def test_after_two_hundred_mentions_of_one_the_other_waits_for_one_turn_at_most(at_once: int) -> None:
    async with FakeAsyncRedis(max_connections=MANY) as redis:
        storm = Storm(redis, TinyTurns(redis), at_once)
        told = await storm.breaks(storm.office.desk.schedule_incident)
        assert told.index(storm.board.waited_for) <= at_once


async def test_while_every_turn_of_one_takes_for_ever_the_others_begin_at_once() -> None:
    async with FakeAsyncRedis(max_connections=MANY) as redis:
        storm = Storm(redis, StandingTurns(redis), at_once=8)
        assert await storm.breaks(storm.office.desk.schedule_incident) == [storm.board.waited_for]


async def test_a_worker_that_is_woken_two_hundred_times_hears_the_next_customer_too(redis_server: RealServer, real_redis: Redis) -> None:
    storm, wakeups = Storm(real_redis, StandingTurns(real_redis), at_once=4), StreamWakeups(redis_server.url, at_once=4)
    await wakeups.start(storm.office.desk.schedule_incident)
    assert await storm.breaks(wakeups.wake) == [storm.board.waited_for]
    await wakeups.aclose()


async def served(parties: Sequence[str], weights: dict[str, int], places: int = 1) -> list[str]:
    """Return the order in which these waiting parties get their slots."""
    fair, order, first = FairSemaphore(places, lambda party: weights.get(party, 1)), list[str](), asyncio.Event()

    async def one(party: str) -> None:
        async with fair.hold_slot(party):
            order.append(party)
            await asyncio.sleep(0)

    async with fair.hold_slot("first"):
        tasks = [asyncio.create_task(one(party)) for party in parties]
        await asyncio.sleep(0)
        first.set()
    await asyncio.gather(*tasks)
    return order


async def test_places_go_round() -> None:
    assert await served(["a", "a", "a", "b", "b", "c"], {}) == ["a", "b", "c", "a", "b", "a"]


async def test_who_has_two_turns_comes_twice_as_often() -> None:
    order = await served(["a"] * 30 + ["b"] * 30, {"b": 2})
    assert order[:30].count("b") == 20


async def test_a_cancelled_waiter_takes_no_slot() -> None:
    fair = FairSemaphore(1)

    async def one() -> None:
        async with fair.hold_slot("a"):
            pass

    async with fair.hold_slot("b"):
        waiting = asyncio.create_task(one())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
    given = asyncio.create_task(one())
    async with fair.hold_slot("b"):
        await asyncio.sleep(0)
        given.cancel()
    await asyncio.gather(given, return_exceptions=True)
    await one()


@given(st.lists(st.sampled_from("abc"), max_size=40), st.integers(1, 6))
async def test_all_parties_are_served_and_none_waits_for_two_turns_of_another(parties: list[str], places: int) -> None:
    order = await served(parties, {}, places)
    assert sorted(order) == sorted(parties)
    if places == 1:
        for party in set(parties):
            between = "".join(order).split(party)[: parties.count(party)]
            assert all(gap.count(other) <= 1 for gap in between for other in set("abc") - {party})


# -- over a limit -----------------------------------------------------------------------------------------------------


async def test_over_the_mentions_of_an_hour_a_message_waits_is_told_once_and_goes_on_by_itself(office: Office) -> None:
    incidents = await office.reports("acme", 0, 3)
    for incident in incidents:
        await office.desk.process_incident(incident)
        await office.desk.process_incident(incident)
    assert office.board.posted == ["acme.0", "acme.1"]
    assert set(office.told) == {("acme.2", ExceededLimit(QuotaLimit.MENTIONS, T0 + HOUR))}
    assert [one.id for one in await office.inbox.list_waiting(incidents[2])] == ["acme.2"]
    await office.go_on(minutes=59)
    assert office.board.posted == ["acme.0", "acme.1"]
    await office.go_on(minutes=2)
    assert office.board.posted == ["acme.0", "acme.1", "acme.2"]


async def test_another_customer_has_a_share_of_their_own(office: Office) -> None:
    for incident in [*await office.reports("acme", 0, 3), *await office.reports("globex", 0, 3)]:
        await office.desk.process_incident(incident)
    assert office.board.posted == ["acme.0", "acme.1", "globex.0", "globex.1", "globex.2"]


async def test_one_incident_more_begins_when_another_ends(office: Office) -> None:
    first, second = await office.reports("small", 0, 2)
    for incident in (first, second):
        await office.desk.process_incident(incident)
    assert office.board.posted == ["small.0"]
    assert office.told == [("small.1", ExceededLimit(QuotaLimit.INCIDENTS))]
    await office.inbox.enqueue(item(first, "close", "close"), "close")
    await office.desk.process_incident(first)
    await office.go_on(minutes=1)
    assert office.board.posted == ["small.0", "close", "small.1"]


async def test_who_asks_for_a_person_and_our_own_people_wait_for_no_limit(office: Office) -> None:
    incidents = await office.reports("acme", 0, 4)
    for incident in incidents:
        await office.desk.process_incident(incident)
    person = said_by_customer(incidents[2], "please", "hand_off")
    await office.inbox.enqueue(person, "please")
    await office.inbox.enqueue(item(incidents[3], "ours", "reply"), "ours")
    for incident in incidents:
        await office.desk.process_incident(incident)
    assert office.board.posted == ["acme.0", "acme.1", "acme.2", "please", "acme.3", "ours"]


async def test_tickets_of_a_customers_own_rackmedic_are_of_the_same_share(office: Office) -> None:
    tickets = [await office.ticket("acme", id_) for id_ in ("t1", "t2", "t3")]
    [other] = await office.reports("acme", 0)
    for incident in (*tickets[:2], other, tickets[2]):
        await office.desk.process_incident(incident)
    assert office.board.posted == ["t1", "t2"]
    assert [row.incidents for row in await office.waits.prune_waiting_tenants()] in ([(other, tickets[2])], [(tickets[2], other)])
    await office.go_on(minutes=61)
    assert sorted(office.board.posted) == ["acme.0", "t1", "t2", "t3"]


async def test_a_turn_that_was_cut_off_is_not_counted_again(office: Office) -> None:
    shares = QuotaStore(office.redis, office.clock)
    no = ExceededLimit(QuotaLimit.MENTIONS, T0 + HOUR)
    assert await shares.begin_item("acme", "inc-1", "one", lambda _: None) is None
    assert await shares.begin_item("acme", "inc-1", "one", lambda _: no) is None
    assert await shares.begin_item("acme", "inc-1", "two", lambda _: no) == no


async def test_two_processes_do_not_both_give_the_last_place(redis: Redis) -> None:
    clock, share = SetClock(), Quota(mentions_per_hour=5)
    processes = [QuotaStore(redis, clock) for _ in range(4)]

    async def one(n: int) -> bool:
        return (
            await processes[n % 4].begin_item(
                "acme", f"inc-{n}", f"item-{n}", lambda used: find_exceeded_limit(share, used, clock.now(), opens=False)
            )
            is None
        )

    assert sum(await asyncio.gather(*(one(n) for n in range(20)))) == 5


async def test_what_is_kept_of_shares_goes_by_itself(office: Office) -> None:
    shares = QuotaStore(office.redis, office.clock)
    await shares.begin_item("acme", "inc-1", "one", lambda _: None)
    found: Any = await office.redis.keys("rm:share:*")
    keys = [key.decode() for key in found]
    assert len(keys) == 2
    assert all([await office.redis.ttl(key) > 0 for key in keys])


# -- what operators see ------------------------------------------------------------------------------------


async def test_what_waits_is_one_row_a_customer_until_it_begins(office: Office) -> None:
    acme = await office.reports("acme", 0, 2)
    for incident in acme:
        await office.desk.process_incident(incident)
    assert await office.waits.prune_waiting_tenants() == []
    storm = await office.reports("acme", 2, 30)
    first, other = await office.reports("small", 0, 2)
    for incident in (*storm, first, other, *storm):
        await office.desk.process_incident(incident)
    office.clock.go(minutes=5)
    await office.desk.process_incident(storm[0])
    acme_waits, small_waits = await office.waits.prune_waiting_tenants()
    assert acme_waits == WaitingTenant("acme", acme_waits.incidents, T0, ExceededLimit(QuotaLimit.MENTIONS, T0 + HOUR), frozenset(storm))
    assert sorted(acme_waits.incidents) == sorted(storm)
    assert small_waits == WaitingTenant("small", (other,), T0, ExceededLimit(QuotaLimit.INCIDENTS), frozenset({other}))
    await office.go_on(minutes=61)
    assert [(row.tenant, len(row.incidents)) for row in await office.waits.prune_waiting_tenants()] == [("acme", 28), ("small", 1)]


async def test_what_waits_in_an_incident_that_was_begun_is_not_new(office: Office) -> None:
    [incident] = await office.reports("acme", 0)
    await office.desk.process_incident(incident)
    for id_ in ("more", "and more"):
        await office.inbox.enqueue(said_by_customer(incident, id_, "reply"), id_)
        await office.desk.process_incident(incident)
    [row] = await office.waits.prune_waiting_tenants()
    assert (row.incidents, row.new) == ((incident,), frozenset())


async def test_what_is_let_in_begins_at_once_and_is_the_only_one(office: Office) -> None:
    incidents = await office.reports("acme", 0, 5)
    for incident in incidents:
        await office.desk.process_incident(incident)
    assert await office.waits.let_in_incident("acme", incidents[3])
    for incident in incidents:
        await office.desk.process_incident(incident)
    assert office.board.posted == ["acme.0", "acme.1", "acme.3"]
    assert not await office.waits.let_in_incident("acme", incidents[3]), "it has begun"
    assert not await office.waits.let_in_incident("globex", incidents[4]), "it is not theirs"
    await office.inbox.enqueue(said_by_customer(incidents[3], "more", "reply"), "more")
    await office.desk.process_incident(incidents[3])
    assert office.board.posted == ["acme.0", "acme.1", "acme.3"], "what is said later has its own turn"


async def test_what_lost_all_that_it_waited_with_is_forgotten(office: Office) -> None:
    incidents = await office.reports("acme", 0, 3)
    for incident in incidents:
        await office.desk.process_incident(incident)
    await office.redis.delete(RedisKeys().incident_key(incidents[2], "inbox"))
    assert await office.waits.prune_waiting_tenants() == []
    assert await office.redis.zcard(RedisKeys().waits) == 0


# -- the quota decision -----------------------------------------------------------------------------------------------------

SHARE = Quota(incidents=2, mentions_per_hour=3)


@pytest.mark.parametrize(
    ("used", "opens", "expected"),
    [
        (QuotaUsage(), True, None),
        (QuotaUsage(incidents=2), True, ExceededLimit(QuotaLimit.INCIDENTS)),
        (QuotaUsage(incidents=2), False, None),
        (QuotaUsage(mentions=[T0 - HOUR, T0, T0]), False, None),
        (QuotaUsage(mentions=[T0 - 0.5 * HOUR, T0, T0]), False, ExceededLimit(QuotaLimit.MENTIONS, T0 + 0.5 * HOUR)),
        (QuotaUsage(mentions=[T0 - 0.5 * HOUR, T0 - 0.25 * HOUR, T0, T0]), False, ExceededLimit(QuotaLimit.MENTIONS, T0 + 0.75 * HOUR)),
        (QuotaUsage(incidents=2, mentions=[T0] * 3), True, ExceededLimit(QuotaLimit.MENTIONS, T0 + HOUR)),
    ],
)
def test_the_limit_that_stands_against_it(used: QuotaUsage, opens: bool, expected: ExceededLimit | None) -> None:
    assert find_exceeded_limit(SHARE, used, T0, opens=opens) == expected


@given(st.lists(st.integers(-4000, 0), max_size=30))
def test_a_tenant_who_returns_at_the_stated_time_is_admitted(seconds: list[int]) -> None:
    used = QuotaUsage(mentions=[T0 + timedelta(seconds=at) for at in seconds])
    no = find_exceeded_limit(SHARE, used, T0, opens=False)
    if no is not None and no.until is not None:
        assert no.until > T0
        assert find_exceeded_limit(SHARE, used, no.until, opens=False) is None


def test_each_limit_has_its_words_in_each_language_and_each_field_its_meaning() -> None:
    assert set(LIMIT_DESCRIPTIONS) == set(Quota.model_fields)
    until: datetime = T0
    for limit in QuotaLimit:
        said = {language: render_notice(ExceededLimit(limit, until), Quota(), language) for language in PHRASES["received"]}
        assert len(set(said.values())) == len(said)
        assert all("{" not in text for text in said.values())
        assert limit is QuotaLimit.INCIDENTS or all("03:10 UTC" in text for text in said.values())


# -- answered incidents do not count ----------------------------------------------------------------------------------


class AnsweredTurns(TinyTurns):
    """Every turn ends with these rows."""

    rows: dict[str, Any] = {}  # noqa: RUF012  # set by each test on its own instance

    async def load_state(self, incident: str) -> IncidentState:
        told: Any = {**await super().load_state(incident), **self.rows}
        return cast(IncidentState, told)


def report_of(*labels: str, outcome: str = "diagnosed") -> dict[str, Any]:
    return {"report": {"item": "i", "outcome": outcome, "root_causes": [{"label": label} for label in labels]}}


WITHDRAWN = {"silence": {"withdrawn": True}}
REPAIRED_NEXT = {"ladders": [{"id": "l", "label": "GPU.X", "target": "gpu-001"}]}


@pytest.mark.parametrize(
    ("rows", "begins"),
    [
        (report_of(MISTAKE), True),
        (report_of(outcome="no_fault"), True),
        (report_of("GPU.X") | WITHDRAWN, True),
        (report_of(MISTAKE, "GPU.X"), False),
        (report_of(MISTAKE) | REPAIRED_NEXT, False),
        (report_of(outcome="abstained"), False),
        (report_of(outcome="diagnosed"), False),
    ],
)
async def test_what_is_answered_takes_no_place_of_theirs(redis: Redis, rows: dict[str, Any], begins: bool) -> None:
    turns = AnsweredTurns(redis)
    turns.rows = rows
    office = Office(redis, turns=turns)
    await office.reports("acme", 0, 10)
    await office.go_on(seconds=1)
    assert len(office.board.posted) == 10
    await office.reports("acme", 10)
    await office.go_on(seconds=1)
    assert ("acme.10" in office.board.posted) is begins
    assert office.told == ([] if begins else [("acme.10", ExceededLimit(QuotaLimit.INCIDENTS))])


async def test_what_was_answered_counts_again_while_they_want_a_look_in_it(redis: Redis) -> None:
    turns = AnsweredTurns(redis)
    turns.rows = report_of(MISTAKE)
    office = Office(redis, shares=Quotas(every=Quota(incidents=1)), turns=turns)
    [first] = await office.reports("acme", 0)
    await office.go_on(seconds=1)
    turns.rows = report_of("GPU.X")
    await office.inbox.enqueue(said_by_customer(first, "again", "recheck"), "again")
    await office.go_on(seconds=1)
    await office.reports("acme", 1)
    await office.go_on(seconds=1)
    assert office.board.posted == ["acme.0", "again"]
