"""The ledger's key is changed while a fix waits for people: its card is superseded, a new one is put up, and that one runs."""

from collections.abc import AsyncIterator

import pytest
from fakeredis import FakeAsyncRedis
from redis.asyncio import Redis

from tests.stores.kept import Kept
from tests.support.fakes_actions import BOB, KEY, Office, Site, hung, well
from tools.ledger.record import OldKey, Refused
from tools.ledger.states import State

NEW = b"the key that came after the first"
HOSTS = ("n1", "n2", "n3", "n4", "m1", "m2", "ctl")


@pytest.fixture
async def store() -> AsyncIterator[Redis]:
    async with FakeAsyncRedis() as redis:
        yield redis


def after_the_change(office: Office) -> Office:
    """A process that was restarted with the new key."""
    office.clock.go(seconds=60)
    return Office(office.redis, office.site, people=office.people, wall=office.wall, evidence=office.evidence, worker="w2", keys=(NEW, KEY))


async def test_what_waited_is_asked_anew_and_what_was_approved_must_be_approved_again(store: Redis) -> None:
    site = Site(facts=well(*HOSTS))
    site.sick(hung("n1"))
    office = Office(store, site)
    incident = await office.mention()
    (first,) = await office.pending(incident)
    restarted = after_the_change(office)
    assert await restarted.ledger.rotate("terminal:root@here") == (first.approval,)
    with pytest.raises(Refused):
        await restarted.click(first)
    await restarted.settle(incident)
    (anew,) = await restarted.pending(incident)
    assert (anew.action.remedy, anew.action.target) == (first.action.remedy, first.action.target)
    assert anew.approval != first.approval
    assert (await restarted.approve(incident, anew.action.remedy)).state is State.DONE
    assert sum(site.counts().values()) == 1
    assert (await restarted.ledger.verify()).good


async def test_what_a_terminal_ended_and_told_nobody_is_asked_anew_within_a_minute(store: Redis) -> None:
    site = Site(facts=well(*HOSTS))
    site.sick(hung("n1"))
    office = Office(store, site)
    incident = await office.mention()
    (first,) = await office.pending(incident)
    assert await office.ledger.rewind_clock("terminal:root@here") == (first.approval,)
    office.clock.go(minutes=1)
    office.woken.clear()
    await office.actions.sweep()
    while office.woken:
        await office.actions.advance(office.woken.pop(0))
        await office.turns_of(incident)
    await office.actions.propose_due(incident)
    (anew,) = await office.pending(incident)
    assert (anew.action.remedy, anew.approval == first.approval) == (first.action.remedy, False)


async def test_a_store_of_before_goes_on_under_a_new_key(store: Redis, tmp_path: object) -> None:
    kept = Kept("2026-11-21.json.xz")
    office = await kept.office(store, tmp_path)  # type: ignore[arg-type]  # pytest's folder
    restarted = after_the_change(office)
    ledger = restarted.ledger
    agreed, runs, over = (kept.cast[name] for name in ("approved action", "executing action", "failed"))
    ended = await ledger.rotate("terminal:root@here")
    assert agreed in ended
    assert {(await ledger.record(name)).state for name in ended} == {State.SUPERSEDED}
    assert runs in (await ledger.keys()).running
    assert (await ledger.record(runs)).state is State.EXECUTING
    assert (await ledger.record(over)).state is State.FAILED
    with pytest.raises(OldKey):
        await ledger.vote(runs, (await ledger.record(runs)).digest, BOB, "approve", "late")
    assert (await ledger.verify()).good
