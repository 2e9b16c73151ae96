"""Rotating the ledger key: old rows stay readable, pending ones are requested again, running ones end, and any crash is
resumable.
"""

import asyncio
import json
from typing import Any

import pytest

from tests.support.clock import SetClock
from tests.support.fakes_ledger import KEY, Desk
from tests.tools.test_ledger import desk
from tools.execution.runner import start_action
from tools.ledger import audit
from tools.ledger.seal import Seal, compute_key_id

__all__ = ["desk"]
NEW, NEWEST = b"the key that came after the first", b"and the one that came after that"
pytest_plugins = ("tests.support.fixtures_redis",)


def with_new(desk: Desk, **more: Any) -> Any:
    """Return a process with the new key, beside the first one."""
    return desk.replica(**{"key": NEW, "older_keys": (KEY,), **more})


async def events(desk: Desk) -> list[str]:
    return [json.loads(line)["event"] for line in await desk.audit()]


async def test_what_is_over_stays_readable_and_the_chain_whole(desk: Desk) -> None:
    done = await desk.ran(await desk.approved())
    ledger = with_new(desk)
    assert await ledger.rotate_key("T1:ANN") == ()
    assert (await ledger.get_record(done.approval)).state == "done"
    report = await ledger.verify_audit(head for _, head in desk.heads)
    assert report.good
    assert (await events(desk))[-1] == "key_changed"


async def test_what_was_approved_under_an_earlier_key_must_be_approved_again(desk: Desk) -> None:
    waits, agreed = await desk.ask(), await desk.approved()
    ledger = with_new(desk)
    assert set(await ledger.rotate_key("T1:ANN")) == {waits.approval, agreed.approval}
    for card in (waits, agreed):
        assert (await ledger.get_record(card.approval)).state == "superseded"
    with pytest.raises(desk.refusals.OldKey, match="proposed again"):
        await desk.claim(agreed, ledger=ledger)
    anew = await ledger.propose(desk.action(), desk.terms(), single=True)
    approved = await desk.click(anew, ledger=ledger)
    ended = await desk.perform(await desk.claim(approved, ledger=ledger), ledger)
    assert (ended.state, ended.old_key) == ("done", False)
    assert sum(desk.host.effects.values()) == 1


async def test_what_runs_ends_under_the_key_that_it_began_with_and_is_not_run_again(desk: Desk) -> None:
    claim = await desk.claim(await desk.approved())
    await start_action(claim, desk.host)
    ledger = with_new(desk)
    assert await ledger.rotate_key("T1:ANN") == ()
    assert (await ledger.get_key_status()).running == (claim.action.approval,)
    desk.clock.go(seconds=31)
    adopted = await ledger.adopt(claim.action.approval, "w9")
    assert not adopted.may_start
    assert (await desk.perform(adopted, ledger)).state == "done"
    assert desk.host.effects == {claim.action.digest: 1}
    assert (await ledger.verify_audit()).good


async def test_a_process_that_was_not_restarted_refuses_and_says_what_to_do(desk: Desk) -> None:
    agreed = await desk.approved()
    ledger = with_new(desk)
    await ledger.rotate_key("T1:ANN")
    fresh = await ledger.propose(desk.action("gpu-018"), desk.terms())
    before = await desk.dump()
    with pytest.raises(desk.refusals.TamperedRecord, match="still has the old one"):
        await desk.ask()
    with pytest.raises(desk.refusals.NotOpen):
        await desk.claim(agreed)
    with pytest.raises(desk.refusals.TamperedRecord, match=f"signed with the key {compute_key_id(NEW)}, which this process does not have"):
        await desk.click(fresh)
    assert await desk.dump() == before


async def test_before_the_rotation_a_process_with_the_new_key_decides_nothing(desk: Desk) -> None:
    agreed = await desk.approved()
    ledger = with_new(desk)
    with pytest.raises(desk.refusals.KeyChanging, match="rackmedic ledger rotate"):
        await ledger.propose(desk.action(), desk.terms())
    with pytest.raises(desk.refusals.OldKey):
        await desk.claim(agreed, ledger=ledger)
    assert (await desk.ran(agreed)).state == "done"


async def test_the_kill_switch_works_in_old_processes_and_the_chain_stays_intact(desk: Desk) -> None:
    ledger = with_new(desk)
    await desk.ask()
    await ledger.rotate_key("T1:ANN")
    await desk.ledger.stop("T1:BOB", "fire")
    assert (await ledger.get_brake_status()).stopped_by == "T1:BOB"
    assert (await ledger.verify_audit()).good
    await ledger.rotate_key("T1:ANN")
    await ledger.resume("T1:BOB")
    assert (await ledger.verify_audit()).good


async def test_what_an_earlier_key_signs_after_a_later_one_breaks_the_chain(desk: Desk) -> None:
    await desk.ask()
    ledger = with_new(desk)
    await ledger.rotate_key("T1:ANN")
    assert (await ledger.verify_audit()).good
    row = (await desk.redis.lindex(desk.key("audit"), -1)).decode()
    line = audit.build_entry("vote_approve", "apr-000000000000", "T1:ANN", ledger._clock.now().isoformat())
    head = Seal(KEY).sign("audit", row.partition(" ")[0], line)
    await desk.redis.rpush(desk.key("audit"), f"{head} {line}")
    await desk.redis.set(desk.key("head"), head)
    assert not (await ledger.verify_audit()).good


async def test_the_key_is_changed_once_by_however_many_and_again_later(desk: Desk) -> None:
    await desk.ask()
    await asyncio.gather(*(with_new(desk).rotate_key("T1:ANN") for _ in range(4)))
    assert (await events(desk)).count("key_changed") == 1
    ledger = with_new(desk, key=NEWEST, older_keys=(NEW, KEY))
    card = await with_new(desk).propose(desk.action(), desk.terms())
    assert await ledger.rotate_key("T1:ANN") == (card.approval,)
    assert (await ledger.verify_audit()).good
    assert (await ledger.get_key_status()).newest == compute_key_id(NEWEST)


class Dies(Exception):
    """The process is gone."""


class Mortal:
    """A journal whose process dies before or after its n-th write."""

    def __init__(self, journal: Any, writes: int, after: bool) -> None:
        self._journal, self._left, self._after = journal, writes, after

    async def read_head(self, *args: Any, **more: Any) -> Any:
        return await self._journal.read_head(*args, **more)

    async def run_script(self, *args: Any) -> str:
        self._left -= 1
        if self._left == 0 and not self._after:
            raise Dies
        word = await self._journal.run_script(*args)
        if self._left == 0:
            raise Dies
        return str(word)


@pytest.mark.parametrize("writes", [1, 2, 3, 4])
@pytest.mark.parametrize("after", [False, True])
async def test_a_rotation_that_dies_is_completed_by_the_next(desk: Desk, writes: int, after: bool) -> None:
    cards = [await desk.approved(desk.action(f"gpu-{n}")) for n in range(3)]
    dying = with_new(desk)
    dying._journal = Mortal(dying._journal, writes, after)
    with pytest.raises(Dies):
        await dying.rotate_key("T1:ANN")
    ledger = with_new(desk)
    for card in cards:
        with pytest.raises((desk.refusals.OldKey, desk.refusals.NotOpen)):
            await desk.claim(card, ledger=ledger)
    await ledger.rotate_key("T1:BOB")
    assert {(await ledger.get_record(card.approval)).state for card in cards} == {"superseded"}
    assert (await events(desk)).count("key_changed") == 1
    assert (await ledger.verify_audit(head for _, head in desk.heads)).good
    assert not (await ledger.get_key_status()).changing


async def test_the_clock_goes_on_where_it_was(desk: Desk) -> None:
    """Rotation by a machine with a slow clock extends no deadline."""
    await desk.ask()
    slow = SetClock(desk.clock.at)
    slow.go(seconds=-300)
    ledger = with_new(desk, clock=slow)
    await ledger.rotate_key("T1:ANN")
    card = await ledger.propose(desk.action(), desk.terms())
    assert card.proposed_at >= desk.clock.at


def test_a_keys_id_tells_nothing_of_it_and_two_keys_have_two() -> None:
    assert len({compute_key_id(KEY), compute_key_id(NEW), compute_key_id(NEWEST)}) == 3
    assert compute_key_id(KEY) not in KEY.hex()


def test_one_key_signs_as_it_always_did() -> None:
    assert "." not in Seal(KEY).sign("request", "as before")
    assert Seal(NEW, (KEY,)).find_signer(Seal(KEY).sign("request", "as before"), "request", "as before") == compute_key_id(KEY)
