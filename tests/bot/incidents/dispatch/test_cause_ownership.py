"""Incidents that share a cause: one owns its remediation, the others point to it, and continue when it is released."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from fakeredis import FakeAsyncRedis
from redis.asyncio import Redis

from bot.incidents.cards import diagnosis
from bot.incidents.dispatch.cause_ownership import CauseOwnership
from bot.incidents.dispatch.dispatcher import Dispatcher
from bot.incidents.dispatch.fingerprint import IncidentFingerprint
from bot.incidents.dispatch.inbox import Inbox
from bot.incidents.dispatch.lease import Leases
from bot.incidents.dispatch.lua_scripts import CAUSE_RELEASED
from bot.incidents.dispatch.sweeper import AUTO_CLOSE, plan_timers
from graph.incident_view import IncidentView
from graph.report import CauseOwnedElsewhere, Report
from tests.support.clock import T0, SetClock
from tests.support.fakes_actions import SLOW, TAXONOMY, Office, Site, hung, well
from tests.support.fakes_desk import BoardOfList, item, origin
from tests.support.fakes_graph import NO_SM, fact
from tests.support.fakes_graph import TAXONOMY as COMMON
from tools.fact import Fact

pytest_plugins = ("tests.support.fixtures_redis",)
pytestmark = pytest.mark.slow
HOSTS = ("n1", "n2", "n3", "n4", "m1", "m2", "ctl")
SOON = timedelta(seconds=60)
FIX = "reset_clocks"


@pytest.fixture
async def store() -> AsyncIterator[Redis]:
    async with FakeAsyncRedis() as redis:
        yield redis


def slow(host: str, device: str = "gpu3", *, is_so: bool = True) -> Fact:
    return fact(host, "smi", "gpu.throttle.applications_clocks", is_so, device)


class House(Office):
    """One process whose turns end as under the dispatcher, and whose timers fire."""

    def __init__(self, redis: Redis, site: Site, **more: Any) -> None:
        super().__init__(redis, site, **more)
        self.board = BoardOfList()
        self.desk = Dispatcher(
            self.inbox, Leases(redis, self.clock, owner=self.worker), self.turns, self.board.observers, clock=self.clock, timers=plan_timers
        )

    async def turns_of(self, incident: str) -> list[Report]:
        await self.desk.process_incident(incident)
        return []

    async def last(self, incident: str) -> Report:
        report = IncidentView(await self.turns.load_state(incident)).report
        assert report
        return report

    async def sweep(self) -> list[str]:
        """Fire the timers for released causes that are due; return their incidents."""
        due = [row for row in await self.inbox.collect_due(SOON) if row.why == CAUSE_RELEASED]
        fired = [row.incident for row in due if await self.inbox.fire_timer(row)]
        for incident in fired:
            await self.settle(incident)
        return fired


def house(store: Redis, *sick: Fact, **more: Any) -> House:
    site = Site(facts=well(*HOSTS))
    site.sick(*sick)
    return House(store, site, **more)


async def test_of_two_incidents_with_one_cause_the_first_keeps_the_cards_and_the_other_points_to_it(store: Redis) -> None:
    office = house(store, slow("n1"))
    first = await office.mention("n1 is slow")
    second = await office.mention("everything is slow", thread="2.0")
    assert [row.action.remedy for row in await office.pending(first)] == [FIX]
    assert await office.ledger.list_incident_records(second) == []
    assert await office.ladders(second) == []
    report = await office.last(second)
    assert [cause.label for cause in report.root_causes] == [SLOW]
    assert report.shared == (CauseOwnedElsewhere(label=SLOW, incident=first, hosts=("n1",)),)
    assert (report.next_step, report.actions, report.by_hand) == ("", (), ())
    assert (await office.last(first)).shared == ()
    assert len(office.wall.cards) == 1


async def test_another_fault_of_the_same_kind_is_not_the_same_cause(store: Redis) -> None:
    office = house(store, slow("n1"))
    first = await office.mention("n1 is slow")
    office.site.sick(slow("n1", is_so=False), slow("n2"))
    second = await office.mention("n2 is slow", thread="2.0")
    office.site.sick(slow("n2", is_so=False), slow("n1"), slow("n1", "gpu5"))
    third = await office.mention("n1 again", thread="3.0")
    for incident in (first, second, third):
        assert (await office.last(incident)).shared == ()
        assert [row["label"] for row in await office.ladders(incident)] == [SLOW]


async def test_what_only_one_of_them_found_it_mends_itself(store: Redis) -> None:
    office = house(store, slow("n1"))
    first = await office.mention("n1 is slow")
    office.site.sick(slow("n2"))
    second = await office.mention("n2 is slow too", thread="2.0")
    assert (await office.last(second)).shared == (CauseOwnedElsewhere(label=SLOW, incident=first, hosts=("n1",)),)
    assert [row["target"] for row in await office.ladders(second)] == ["n2"]
    assert [row.action.target for row in await office.pending(second)] == ["n2"]


async def test_when_the_keeper_closes_the_other_looks_again_and_goes_on_by_itself(store: Redis) -> None:
    office = house(store, slow("n1"))
    first = await office.mention("n1 is slow")
    second = await office.mention("everything is slow", thread="2.0")
    assert await office.sweep() == []
    await office.say(first, "close", data={"label": SLOW, "root_cause": "not our problem"})
    assert await office.pending(first) == []
    assert await office.sweep() == [second]
    assert [row.action.remedy for row in await office.pending(second)] == [FIX]
    told = await office.last(second)
    assert told.shared == ()
    assert told.changed
    assert first not in told.changed
    assert await office.sweep() == []


async def test_when_the_keeper_finds_it_no_more_the_other_looks_again(store: Redis) -> None:
    office = house(store, slow("n1"))
    first = await office.mention("n1 is slow")
    second = await office.mention("everything is slow", thread="2.0")
    office.site.sick(slow("n1", is_so=False))
    await office.say(first, "recheck")
    assert await office.sweep() == [second]
    told = await office.last(second)
    assert told.outcome == "no_fault"
    assert told.changed
    office.site.sick(slow("n1"))
    await office.say(second, "recheck")
    assert [row.action.remedy for row in await office.pending(second)] == [FIX]


async def test_a_keeper_that_cannot_look_keeps_it(store: Redis) -> None:
    office = house(store, slow("n1"))
    first = await office.mention("n1 is slow")
    second = await office.mention("everything is slow", thread="2.0")
    office.site.silent = {"n1"}
    await office.say(first, "recheck")
    assert await office.sweep() == []
    office.site.silent = set()
    await office.say(second, "recheck")
    assert (await office.last(second)).shared == (CauseOwnedElsewhere(label=SLOW, incident=first, hosts=("n1",)),)


@pytest.mark.parametrize("kind", ["hand_off", "take"])
async def test_a_keeper_that_people_took_over_is_still_pointed_to(store: Redis, kind: str) -> None:
    office = house(store, slow("n1"))
    first = await office.mention("n1 is slow")
    second = await office.mention("everything is slow", thread="2.0")
    await office.say(first, kind)
    assert await office.sweep() == []
    await office.say(second, "recheck")
    assert (await office.last(second)).shared[0].incident == first
    assert await office.pending(second) == []


async def test_a_rejected_remediation_is_not_proposed_again_after_a_release(store: Redis) -> None:
    office = house(store, slow("n1"), slow("n2"))
    first = await office.mention("n1 is slow and n2 is slow")
    office.site.sick(hung("n3"))
    second = await office.mention("n3 hangs", thread="2.0")
    (card,) = [row for row in await office.pending(second) if row.action.target == "n3"]
    await office.click(card, verdict="deny", reason="it runs until noon")
    await office.settle(second)
    await office.say(first, "close", data={"label": SLOW, "root_cause": "x"})
    assert await office.sweep() == [second]
    assert {row.action.target for row in await office.pending(second)} == {"n1", "n2"}


async def test_what_an_incident_waits_for_elsewhere_does_not_end_by_silence(store: Redis) -> None:
    office = house(store, slow("n1"))
    await office.mention("n1 is slow")
    second = await office.mention("everything is slow", thread="2.0")
    state = await office.turns.load_state(second)
    assert AUTO_CLOSE not in plan_timers(state, await office.last(second), item(second), T0)


async def test_what_was_only_seen_beside_a_question_is_pointed_to_where_it_is_worked_on(store: Redis) -> None:
    office = house(store, slow("n1"))
    first = await office.mention("n1 is slow")
    second = await office.mention("is n2 healthy?", thread="2.0")
    report = await office.last(second)
    assert (report.also_seen, report.actions) == ((SLOW,), ())
    assert report.shared == (CauseOwnedElsewhere(label=SLOW, incident=first, hosts=("n1",), waits=False),)
    shown = str(diagnosis.render_diagnosis(second, report).blocks)
    assert "another thread" in shown
    assert "`recheck" not in shown, "its fix is decided there"
    assert AUTO_CLOSE in plan_timers(await office.turns.load_state(second), report, item(second), T0)


async def test_a_cause_seen_beside_a_question_is_not_owned(store: Redis) -> None:
    office = house(store, slow("n1"))
    asked = await office.mention("is n2 healthy?")
    assert "`recheck n1`" in str(diagnosis.render_diagnosis(asked, await office.last(asked)).blocks)
    later = await office.mention("n1 is slow", thread="2.0")
    assert (await office.last(later)).shared == ()
    assert [row.action.remedy for row in await office.pending(later)] == [FIX]
    await office.say(later, "close", data={"label": SLOW, "root_cause": "x"})
    assert await office.sweep() == []


async def test_a_storm_of_reports_of_one_cause_calls_approvers_once(store: Redis) -> None:
    office = house(store, slow("n1"))
    incidents = [await office.mention(f"everything is slow, {n} people say", thread=f"{n}.0") for n in range(1, 8)]
    assert len(office.wall.cards) == 1
    await office.approve(incidents[0], FIX)
    assert office.site.counts() == {FIX: 1}
    assert [await office.ledger.list_incident_records(incident) for incident in incidents[1:]] == [[]] * 6


async def test_a_cause_without_a_host_is_handed_to_people_once(store: Redis) -> None:
    gone = replace(COMMON.get_leaf(NO_SM), remedies=("escalate_fabric",))
    away = [fact(host, "ibstat", "ib.sm_lid", 0, "mlx5_0") for host in HOSTS]
    office = house(store, *away, taxonomy=replace(TAXONOMY, leaves={**TAXONOMY.leaves, NO_SM: gone}))
    first, second = [await office.mention(f"{host} has no network", thread=f"{n}.0") for n, host in enumerate(("n1", "n3"), 1)]
    reports = [await office.last(incident) for incident in (first, second)]
    assert [[cause.label for cause in report.root_causes] for report in reports] == [[NO_SM], [NO_SM]]
    assert [bool(report.by_hand) for report in reports] == [True, False]
    assert reports[1].shared == (CauseOwnedElsewhere(label=NO_SM, incident=first),)


async def test_what_is_left_to_people_is_said_as_long_as_the_fault_is_there(store: Redis) -> None:
    office = house(store, fact("n1", "smi", "gpu.remap.failure", True, "gpu3"), slow("n2"))
    incident = await office.mention("n1 and n2 are odd")
    (said,) = (await office.last(incident)).by_hand
    assert said == "Broken on n1: open a replacement case with the vendor."
    await office.approve(incident, "drain_node")
    assert (await office.last(incident)).by_hand == (said,)
    await office.say(incident, "recheck")
    assert (await office.last(incident)).by_hand == (said,)


# In Redis


async def opened(redis: Redis, *names: str) -> tuple[Inbox, CauseOwnership, list[str]]:
    clock = SetClock()
    inbox = Inbox(redis, clock)
    got: list[str] = []
    for n, name in enumerate(names, 1):
        joined = await inbox.open_or_join(origin(f"{n}.0"), name, partial(item, id_=name))
        got.append(joined.incident)
    return inbox, CauseOwnership(redis, clock), got


async def close(redis: Redis, inbox: Inbox, incident: str, name: str) -> None:
    lease = await Leases(redis, SetClock()).acquire(incident)
    assert lease
    await inbox.finish_item(incident, lease.token, name, "closed", {}, keep=timedelta(days=1))


async def test_of_many_that_conclude_at_once_one_keeps_each_cause(redis: Redis) -> None:
    _, causes, names = await opened(redis, *"abcdefgh")
    got = await asyncio.gather(*(causes.claim_causes(name, ("X n1", "Y n2")) for name in names))
    (keeper,) = {other for kept in got for other in kept.values()}
    assert sorted(bool(kept) for kept in got) == [False] + [True] * 7
    assert got[names.index(keeper)] == {}
    assert await causes.claim_causes(keeper, ("X n1", "Y n2")) == {}
    assert await causes.claim_causes(names[0], ()) == {}


async def beside(redis: Redis) -> tuple[Inbox, CauseOwnership, str, str]:
    """Open two incidents of one host; people of the second may not read the first."""
    clock = SetClock()
    inbox = Inbox(redis, clock)
    a = await inbox.open_or_join(origin("1.0"), "a", lambda i: item(i, "a"), fingerprint=IncidentFingerprint(("n1",)))
    b = await inbox.open_or_join(origin("2.0"), "b", lambda i: item(i, "b"), fingerprint=IncidentFingerprint(("n1",)))
    assert b.beside == (a.incident,)
    return inbox, CauseOwnership(redis, clock), a.incident, b.incident


async def test_the_second_thread_leaves_to_the_first_what_that_is_still_looking_for(redis: Redis) -> None:
    inbox, causes, a, b = await beside(redis)
    assert await causes.claim_causes(b, ("X n1", "Y n1")) == {"X n1": a, "Y n1": a}
    assert await causes.claim_causes(a, ("X n1",)) == {}
    assert [row.incident for row in await inbox.collect_due(SOON) if row.why == CAUSE_RELEASED] == [b]
    assert await causes.claim_causes(b, ("X n1", "Y n1")) == {"X n1": a}
    await causes.claim_causes(a, ())
    assert await causes.claim_causes(b, ("X n1", "Y n1")) == {}


async def test_the_second_thread_goes_on_where_the_first_has_looked_and_found_nothing(redis: Redis) -> None:
    _, causes, a, b = await beside(redis)
    await causes.claim_causes(a, ())
    assert await causes.claim_causes(b, ("X n1",)) == {}
    assert await causes.claim_causes(a, ("X n1",)) == {"X n1": b}


async def test_the_second_thread_goes_on_where_the_first_ends_before_it_has_found_anything(redis: Redis) -> None:
    inbox, causes, a, b = await beside(redis)
    await causes.claim_causes(b, ("X n1",))
    await close(redis, inbox, a, "a")
    assert [row.incident for row in await inbox.collect_due(SOON) if row.why == CAUSE_RELEASED] == [b]
    assert await causes.claim_causes(b, ("X n1",)) == {}


async def test_letting_go_wakes_those_who_found_it_too_and_the_next_keeps_it(redis: Redis) -> None:
    inbox, causes, (a, b, c) = await opened(redis, "a", "b", "c")
    for name in (a, b, c):
        await causes.claim_causes(name, ("X n1",))
    await causes.claim_causes(b, ("X n1", "Z n3"))
    await causes.claim_causes(c, ())
    assert [row for row in await inbox.collect_due(SOON) if row.why == CAUSE_RELEASED] == []
    await causes.claim_causes(c, ("X n1",))
    await causes.claim_causes(a, ())
    due = [row for row in await inbox.collect_due(SOON) if row.why == CAUSE_RELEASED]
    assert sorted(row.incident for row in due) == sorted((b, c))
    assert await causes.claim_causes(c, ("X n1",)) == {"X n1": b}
    assert [await inbox.fire_timer(row) for row in due] == [True, True]
    woken = (await inbox.list_waiting(b))[-1]
    assert (woken.kind, woken.user, woken.data) == ("recheck", "", {"why": CAUSE_RELEASED})


async def test_a_turn_under_way_does_not_swallow_the_wake_up(redis: Redis) -> None:
    inbox, causes, (a, b) = await opened(redis, "a", "b")
    lease = await Leases(redis, SetClock()).acquire(b)
    assert lease
    for name in (a, b):
        await causes.claim_causes(name, ("X n1",))
    await causes.claim_causes(a, ())
    await inbox.finish_item(b, lease.token, "b", "open", {}, keep=timedelta(days=1))
    assert [row.incident for row in await inbox.collect_due(SOON) if row.why == CAUSE_RELEASED] == [b]


async def test_what_is_closed_keeps_nothing_is_woken_no_more_and_leaves_nothing(redis: Redis) -> None:
    inbox, causes, (a, b) = await opened(redis, "a", "b")
    for name in (a, b):
        await causes.claim_causes(name, ("X n1",))
    await causes.claim_causes(a, ())
    await close(redis, inbox, b, "b")
    assert [row for row in await inbox.collect_due(SOON) if row.why == CAUSE_RELEASED] == []
    assert [key async for key in redis.scan_iter(match="rm:*cause*")] == []
    assert await causes.claim_causes(a, ("X n1",)) == {}
    await close(redis, inbox, a, "a")
    assert [key async for key in redis.scan_iter(match="rm:*cause*")] == []


async def test_after_stop_the_other_is_not_woken_and_gets_its_card_on_request(store: Redis) -> None:
    office = house(store, slow("n1"))
    first = await office.mention("n1 is slow")
    second = await office.mention("everything is slow", thread="2.0")
    await office.say(first, "stop")
    assert await office.sweep() == []
    assert await office.pending(second) == []
    await office.say(second, "recheck")
    assert (await office.last(second)).shared == ()
    assert [row.action.remedy for row in await office.pending(second)] == [FIX]


async def test_after_stop_a_new_report_gets_its_own_card(store: Redis) -> None:
    office = house(store, slow("n1"))
    first = await office.mention("n1 is slow")
    await office.say(first, "stop")
    assert await office.pending(first) == []
    assert IncidentView(await office.turns.load_state(first)).is_stopped
    second = await office.mention("n1 is slow", thread="2.0")
    assert (await office.last(second)).shared == ()
    assert [row.action.remedy for row in await office.pending(second)] == [FIX]


@pytest.mark.parametrize("kind", ["mention", "reply", "recheck"])
async def test_after_stop_a_report_in_the_same_thread_is_a_new_look_with_its_card(store: Redis, kind: Any) -> None:
    office = house(store, slow("n1"))
    incident = await office.mention("n1 is slow")
    await office.say(incident, "stop")
    await office.say(incident, kind, text="n1 is slow again")
    assert not IncidentView(await office.turns.load_state(incident)).is_stopped
    assert [row.action.remedy for row in await office.pending(incident)] == [FIX]


async def test_a_stopped_incident_stays_stopped_while_people_only_ask(store: Redis) -> None:
    office = house(store, slow("n1"))
    incident = await office.mention("n1 is slow")
    await office.say(incident, "stop")
    await office.say(incident, "status")
    assert IncidentView(await office.turns.load_state(incident)).is_stopped
    assert await office.pending(incident) == []


async def test_what_a_silent_incident_found_is_kept_by_the_next_report(store: Redis) -> None:
    office = house(store, slow("n1"))
    first = await office.mention("n1 is slow")
    await office.inbox.release_causes(first)
    second = await office.mention("everything is slow", thread="2.0")
    assert (await office.last(second)).shared == ()
