"""Rotating the ledger key supersedes pending cards; a new card is posted and its action runs."""

from collections.abc import AsyncIterator

import pytest
from fakeredis import FakeAsyncRedis
from redis.asyncio import Redis

from tests.support.fakes_actions import BOB, KEY, Office, Plan, Site, die, hung, well
from tests.support.fakes_graph import fact
from tools.fact import Fact
from tools.ledger.record import OldKey, Refused
from tools.ledger.states import State

NEW = b"the key that came after the first"
HOSTS = ("n1", "n2", "n3", "n4", "m1", "m2", "ctl")


@pytest.fixture
async def store() -> AsyncIterator[Redis]:
    async with FakeAsyncRedis() as redis:
        yield redis


def after_the_change(office: Office) -> Office:
    """Return a process restarted with the new key."""
    office.clock.go(seconds=60)
    return Office(office.redis, office.site, people=office.people, wall=office.wall, evidence=office.evidence, worker="w2", keys=(NEW, KEY))


async def test_what_waited_is_asked_anew_and_what_was_approved_must_be_approved_again(store: Redis) -> None:
    site = Site(facts=well(*HOSTS))
    site.sick(hung("n1"))
    office = Office(store, site)
    incident = await office.mention()
    (first,) = await office.pending(incident)
    restarted = after_the_change(office)
    assert await restarted.ledger.rotate_key("terminal:root@here") == (first.approval,)
    with pytest.raises(Refused):
        await restarted.click(first)
    await restarted.settle(incident)
    (anew,) = await restarted.pending(incident)
    assert (anew.action.remedy, anew.action.target) == (first.action.remedy, first.action.target)
    assert anew.approval != first.approval
    assert (await restarted.approve(incident, anew.action.remedy)).state is State.DONE
    assert sum(site.counts().values()) == 1
    assert (await restarted.ledger.verify_audit()).good


async def test_an_action_superseded_from_the_terminal_is_requested_again_within_a_minute(store: Redis) -> None:
    site = Site(facts=well(*HOSTS))
    site.sick(hung("n1"))
    office = Office(store, site)
    incident = await office.mention()
    (first,) = await office.pending(incident)
    assert await office.ledger.rewind_clock("terminal:root@here") == (first.approval,)
    office.clock.go(minutes=1)
    office.woken.clear()
    await office.actions.wake_due()
    while office.woken:
        await office.actions.handle_wakeup(office.woken.pop(0))
        await office.turns_of(incident)
    await office.actions.reconcile_incident(incident)
    (anew,) = await office.pending(incident)
    assert (anew.action.remedy, anew.approval == first.approval) == (first.action.remedy, False)


async def test_a_new_key_ends_what_was_agreed_and_leaves_what_runs_and_what_is_over(store: Redis) -> None:
    site = Site(facts=well(*HOSTS))
    office = Office(store, site)
    site.sick(slow("n3"))
    site.fails["reset_clocks"] = 1
    over = (await office.approve(await office.mention("n3 is slow", thread="1.0"), "reset_clocks")).approval
    site.fails.clear()
    site.facts = well(*HOSTS)
    site.sick(slow("m2"))
    (runs,) = await office.pending(await office.mention("m2 is slow", thread="2.0"))
    await office.click(runs)
    site.at = Plan("start:after")
    await die(office.actions.run_action(runs.approval))
    site.facts = well(*HOSTS)
    site.sick(slow("n1"))
    (agreed,) = await office.pending(await office.mention("n1 is slow", thread="3.0"))
    await office.ledger.stop(BOB, "looking at the racks")
    await office.click(agreed)
    ledger = after_the_change(office).ledger
    ended = await ledger.rotate_key("terminal:root@here")
    assert agreed.approval in ended
    assert {(await ledger.get_record(name)).state for name in ended} == {State.SUPERSEDED}
    assert runs.approval in (await ledger.get_key_status()).running
    assert (await ledger.get_record(runs.approval)).state is State.EXECUTING
    assert (await ledger.get_record(over)).state is State.FAILED
    with pytest.raises(OldKey):
        await ledger.vote(runs.approval, runs.digest, BOB, "approve", "late")
    assert (await ledger.verify_audit()).good


def slow(host: str) -> Fact:
    return fact(host, "smi", "gpu.throttle.applications_clocks", True, "gpu3")
