"""Old signed rows put back into Redis restore no right and undo no brake.

`tests.properties.mutants_ledger` runs some of these tests, so those take only a `desk`.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

import pytest
from fakeredis import FakeAsyncRedis, FakeServer

from tests.support.fakes_ledger import Desk, expire_due
from tools.ledger.logged_states import get_states_after

LOG = {b"rm:ledger:audit", b"rm:ledger:head", b"rm:ledger:clock"}
Step = Callable[[Desk, Any], Awaitable[object]]


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    async with FakeAsyncRedis(server=FakeServer()) as fake:
        yield Desk(fake)


async def _kept(desk: Desk) -> Mapping[bytes, bytes]:
    return {key: await desk.redis.dump(key) for key in await desk.redis.keys("*") if key not in LOG}


async def _put_back(desk: Desk, kept: Mapping[bytes, bytes]) -> None:
    """Restore everything except the audit log."""
    for key in await desk.redis.keys("*"):
        if key not in LOG:
            await desk.redis.delete(key)
    for key, value in kept.items():
        await desk.redis.restore(key, 0, value)


async def _deny(desk: Desk, card: Any) -> None:
    await desk.click(card, "CID", "deny")


async def _end(desk: Desk, card: Any, event: str) -> None:
    await desk.ledger.end_action(card.approval, desk.states.Transition(event), "T1:CID", "no more")


async def _expire(desk: Desk, card: Any) -> None:
    desk.clock.go(seconds=1000)
    await expire_due(desk.ledger)


async def _cover(desk: Desk, _card: Any) -> None:
    """Start a reboot of the same host."""
    await desk.perform(await desk.claim(await desk.approved(desk.action(remedy="reboot"), covers=("gpu_reset",))))


async def _doubt(desk: Desk, card: Any) -> None:
    await desk.ledger.finish(await desk.claim(card), "unknown")


async def _settle(desk: Desk, card: Any) -> None:
    await _doubt(desk, card)
    await desk.ledger.reconcile(card.approval, "T1:BOB", True, "it ran")


async def _fail(desk: Desk, card: Any) -> None:
    await desk.ledger.finish(await desk.claim(card), "failed")


STARTED: Mapping[str, Step] = {
    "done": lambda desk, card: desk.ran(card),
    "failed": _fail,
    "executing": lambda desk, card: desk.claim(card),
    "unknown": _doubt,
    "reconciled": _settle,
}
ENDED: Mapping[str, Step] = {
    "revoked": lambda desk, card: _end(desk, card, "revoke"),
    "superseded": lambda desk, card: _end(desk, card, "supersede"),
    "expired": _expire,
    "covered": _cover,
}
TABLE: tuple[tuple[str, str, Step], ...] = (
    *(("approved", name, step) for name, step in {**STARTED, **ENDED}.items()),
    *(("half", name, step) for name, step in {**ENDED, "denied": _deny}.items()),
    *(("pending", name, step) for name, step in {**ENDED, "denied": _deny}.items()),
)


@pytest.mark.parametrize(("was", "became", "step"), TABLE, ids=[f"{was}-{became}" for was, became, _ in TABLE])
@pytest.mark.parametrize("fresh", [False, True], ids=["same process", "another process"])
async def test_a_row_of_before_is_no_right_any_more(desk: Desk, was: str, became: str, step: Step, fresh: bool) -> None:
    card = await desk.ask(quorum=2 if was == "half" else 1)
    if was != "pending":
        card = await desk.click(card, "ANN")
    kept = await _kept(desk)
    await step(desk, card)
    ran = dict(desk.host.effects)
    await _put_back(desk, kept)
    ledger = desk.replica() if fresh else desk.ledger
    assert (await ledger.get_record(card.approval)).state == ("approved" if was == "approved" else "pending"), (
        "genuine, signature by signature"
    )
    refused = (desk.refusals.TamperedRecord, desk.refusals.TooLate)
    if was != "approved":
        with pytest.raises(refused):
            await desk.click(card, "BOB", ledger=ledger)
    with pytest.raises((*refused, desk.refusals.NotOpen)):
        await desk.claim(card, ledger=ledger)
    assert desk.host.effects == ran
    assert (await ledger.verify_audit()).good


async def test_an_approval_put_back_is_not_claimed(desk: Desk) -> None:
    card = await desk.approved()
    kept = await _kept(desk)
    await _end(desk, card, "revoke")
    await _put_back(desk, kept)
    with pytest.raises(desk.refusals.TamperedRecord):
        await desk.claim(card)


async def test_a_card_put_back_takes_no_vote(desk: Desk) -> None:
    card = await desk.ask()
    kept = await _kept(desk)
    await _deny(desk, card)
    await _put_back(desk, kept)
    with pytest.raises(desk.refusals.TamperedRecord):
        await desk.click(card)


async def test_votes_of_before_count_for_no_card_put_up_anew(desk: Desk) -> None:
    card = await desk.click(await desk.ask(quorum=2), "ANN")
    desk.clock.go(seconds=10)
    await desk.redis.delete(desk.key("apr", card.approval))
    with suppress(desk.refusals.TamperedRecord):
        await desk.ledger.propose(card.action, desk.terms(quorum=2))
    with pytest.raises(desk.refusals.TamperedRecord):
        await desk.click(card, "BOB")


async def test_a_kill_switch_released_in_redis_is_pulled_again(desk: Desk) -> None:
    card = await desk.approved()
    await desk.ledger.stop("T1:BOB", "a rack")
    await desk.redis.delete(desk.key("brakes"))
    with pytest.raises(desk.refusals.KillSwitchOn):
        await desk.claim(card)
    assert await desk.ledger.has_altered_brakes()
    assert (await desk.ledger.get_brake_status()).stopped_by == "rackmedic", "and everybody sees it"
    with pytest.raises(desk.refusals.KillSwitchOn):
        await desk.claim(card, ledger=desk.replica())
    await desk.ledger.resume("T1:BOB")
    assert not await desk.ledger.has_altered_brakes()
    assert (await desk.ran(card)).state == "done"
    assert (await desk.ledger.verify_audit()).good


async def test_a_breaker_closed_in_redis_stops_everything(desk: Desk) -> None:
    for number in range(3):
        await desk.ran(await desk.approved(desk.action(f"gpu-{number}", incident=f"inc-{number}"), group_size=1))
    with pytest.raises(desk.refusals.BreakerOpen):
        await desk.claim(await desk.approved(desk.action("gpu-7", incident="inc-7"), group_size=1))
    await desk.redis.delete(desk.key("brakes"), desk.key("window", "h100"))
    with pytest.raises(desk.refusals.KillSwitchOn):
        await desk.claim(await desk.approved(desk.action("gpu-8", incident="inc-8"), group_size=1))
    await desk.ledger.reset_breaker("h100", "T1:BOB")
    assert await desk.ledger.has_altered_brakes(), "only who resumes has looked"


async def test_a_lock_removed_in_redis_still_holds(desk: Desk) -> None:
    first, second = await desk.approved(), await desk.approved()
    await _doubt(desk, first)
    await desk.redis.delete(desk.key("target", "gpu-017"), desk.key("busy", "h100"))
    with pytest.raises(desk.refusals.TargetBusy):
        await desk.claim(second)
    await desk.redis.delete(desk.key("held"))
    with pytest.raises(desk.refusals.KillSwitchOn):
        await desk.claim(second)


@pytest.mark.parametrize("brake", ["stop", "breaker:h100"])
async def test_a_brake_pulled_in_redis_holds_too(desk: Desk, brake: str) -> None:
    card = await desk.approved()
    await desk.redis.hset(desk.key("brakes"), brake, "whoever")
    with pytest.raises((desk.refusals.KillSwitchOn, desk.refusals.BreakerOpen)):
        await desk.claim(card)


async def test_the_log_is_read_back_as_far_as_needed_and_then_followed(desk: Desk) -> None:
    old = await desk.ask()
    for number in range(250):
        await desk.ledger.record_continuation("inc-1", f"wave-{number}", [], "T1:BOB")
    assert (await desk.click(old, ledger=desk.replica())).state == "approved"
    assert (await desk.ran(old)).state == "done"


async def test_an_entry_taken_out_of_the_log_confirms_nothing(desk: Desk) -> None:
    card, other = await desk.approved(), await desk.ask(desk.action("gpu-020"))
    kept = await _kept(desk)
    await _end(desk, card, "revoke")
    revoked = await desk.redis.lindex(desk.key("audit"), -1)
    await desk.click(other)
    await desk.ask(desk.action("gpu-021"))
    await desk.redis.lrem(desk.key("audit"), 1, revoked)
    await _put_back(desk, kept)
    with pytest.raises(desk.refusals.Refused):
        await desk.claim(card, ledger=desk.replica())


def test_every_entry_that_changes_an_action_says_its_state() -> None:
    assert get_states_after('{"event":"claim","approval":"apr-1","supersedes":["apr-2"]}') == {"apr-1": "executing", "apr-2": "superseded"}
    assert get_states_after('{"event":"vote_approve","approval":"apr-1","becomes":"approved"}') == {"apr-1": "approved"}
    assert get_states_after('{"event":"outcome","approval":"apr-1","outcome":"cured"}') == {}
    assert get_states_after("torn") == {}
