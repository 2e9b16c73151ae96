"""The approval ledger, on a real redis-server and on fakeredis.

`tests.properties.mutants_ledger` runs some of these tests on a ledger with a bug, so those take only a `desk`.
"""

import ast
import asyncio
import copy
import dataclasses
import json
import pickle
from collections.abc import AsyncIterator
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest
from fakeredis import FakeAsyncRedis, FakeServer
from redis.asyncio import Redis
from redis.exceptions import ConnectionError as NoConnection

from tests.support.clock import SetClock
from tests.support.fakes_ledger import BOOT, KEY, OTHER_BOOT, PEOPLE, Desk, expire_due
from tools.execution.runner import start_action
from tools.ledger.claim import Claim
from tools.ledger.ledger import Ledger
from tools.ledger.record import ApprovalTerms
from tools.ledger.seal import Seal

pytest_plugins = ("tests.support.fixtures_redis",)
pytestmark = pytest.mark.slow

FAR = "4102444800000"
SECRET = "xoxb-123456789012-abcdefGHIJKL"
ROOT = Path(__file__).parents[2]


@pytest.fixture(params=["redis-server", "fakeredis"])
async def desk(request: pytest.FixtureRequest) -> AsyncIterator[Desk]:
    if request.param == "fakeredis":
        async with FakeAsyncRedis(server=FakeServer()) as fake:
            yield Desk(fake)
        return
    server = request.getfixturevalue("redis_server")
    async with Redis(unix_socket_path=str(server.socket)) as real:
        await real.flushall()
        yield Desk(real)


# -- deciding -----------------------------------------------------------------------------------------------------------


async def test_what_one_person_approves_runs_once_and_is_written_down(desk: Desk) -> None:
    card = await desk.ask()
    assert card.state == "pending"
    approved = await desk.click(card, "ANN")
    assert (approved.state, approved.approvals) == ("approved", 1)
    done = await desk.ran(approved)
    assert (done.state, done.exit_status) == ("done", 0)
    assert desk.host.effects == {card.digest: 1}
    assert [json.loads(line)["event"] for line in await desk.audit()] == ["propose", "vote_approve", "claim", "finish_done"]


async def test_the_audit_log_says_by_which_sets(desk: Desk) -> None:
    card = await desk.ask(sets=("leads",))
    assert card.terms.sets == ("leads",)
    [proposed] = [json.loads(line) for line in await desk.audit()]
    assert proposed["sets"] == ["leads"]


def test_terms_are_read_back_as_they_were_signed() -> None:
    plain = ApprovalTerms(PEOPLE, 1)
    more = ApprovalTerms(PEOPLE, 1, sets=("a",))
    assert ApprovalTerms.from_canonical_json(more.to_canonical_json()) == more
    assert ApprovalTerms.from_canonical_json(plain.to_canonical_json()) == plain


@pytest.mark.parametrize("removed", [{"delegated": [["T1:EVE", "T1:ANN"]]}, {"break_glass": "nobody answers"}])
async def test_a_signed_request_with_a_removed_field_is_never_decided(desk: Desk, removed: dict[str, Any]) -> None:
    card = await desk.ask()
    key = desk.key(f"apr:{card.approval}")
    row = {name.decode(): value.decode() for name, value in (await desk.redis.hgetall(key)).items()}
    request = json.dumps(json.loads(row["request"]) | removed, sort_keys=True, separators=(",", ":"))
    mac = Seal(KEY).sign_request(row["action"], request, int(row["proposed_at"]), int(row["decide_by"]))
    await desk.redis.hset(key, mapping={"request": request, "mac": mac})
    for voter in ("ANN", "EVE"):
        with pytest.raises(desk.refusals.TamperedRecord):
            await desk.click(card, voter)


async def test_two_people_who_click_at_once_approve_it_once(desk: Desk) -> None:
    card = await desk.ask()
    said = await asyncio.gather(desk.click(card, "ANN"), desk.click(card, "BOB"), return_exceptions=True)
    assert sum(isinstance(answer, desk.refusals.NotOpen) for answer in said) == 1
    assert (await desk.ledger.get_record(card.approval)).state == "approved"


async def test_four_workers_that_claim_at_once_get_one_claim(desk: Desk) -> None:
    card = await desk.approved()
    said = await asyncio.gather(*(desk.claim(card, f"w{i}", ledger=desk.replica()) for i in range(4)), return_exceptions=True)
    assert sum(not isinstance(answer, Exception) for answer in said) == 1
    assert all(isinstance(answer, desk.refusals.NotOpen) for answer in said if isinstance(answer, Exception))


async def test_forty_actions_decided_at_the_same_moment_are_all_decided(desk: Desk) -> None:
    cards = [await desk.ask(desk.action(f"gpu-{i:03}", incident=f"inc-{i}")) for i in range(40)]
    rows = await asyncio.gather(*(desk.click(card, ledger=desk.replica()) for card in cards))
    assert {row.state for row in rows} == {"approved"}
    assert (await desk.ledger.verify_audit(head for _, head in desk.heads)).good


async def test_a_quorum_of_two_takes_two_people(desk: Desk) -> None:
    card = await desk.ask(quorum=2)
    assert (await desk.click(card, "ANN")).state == "pending"
    with pytest.raises(desk.refusals.NotOpen):
        await desk.claim(card)
    assert (await desk.click(card, "BOB")).state == "approved"
    assert await desk.claim(card)


async def test_one_person_who_clicks_twice_is_one_person(desk: Desk) -> None:
    card = await desk.ask(quorum=2)
    await desk.click(card, "ANN")
    before = await desk.dump()
    with pytest.raises(desk.refusals.AlreadyVoted):
        await desk.click(card, "ANN")
    assert await desk.dump() == before


async def test_the_requester_may_not_approve(desk: Desk) -> None:
    card = await desk.ask(desk.action(requested_by="T1:ANN"))
    with pytest.raises(desk.refusals.OwnRequest):
        await desk.click(card, "ANN")
    assert (await desk.click(card, "BOB")).state == "approved"


async def test_who_asked_and_who_edited_are_both_kept_from_approving(desk: Desk) -> None:
    card = await desk.ask(desk.action(requested_by="T1:ANN,T1:BOB"))
    for who in ("ANN", "BOB"):
        with pytest.raises(desk.refusals.OwnRequest):
            await desk.click(card, who)
    assert (await desk.click(card, "CID")).state == "approved"


async def test_the_requester_may_reject(desk: Desk) -> None:
    card = await desk.ask(desk.action(requested_by="T1:ANN"))
    assert (await desk.click(card, "ANN", "deny")).state == "denied"


async def test_a_stranger_changes_nothing(desk: Desk) -> None:
    card = await desk.ask()
    before = await desk.dump()
    for verdict in ("approve", "deny"):
        with pytest.raises(desk.refusals.NotAnApprover):
            await desk.click(card, "MALLORY", verdict)
    assert await desk.dump() == before


async def test_the_same_user_id_of_another_workspace_is_a_stranger(desk: Desk) -> None:
    card = await desk.ask()
    with pytest.raises(desk.refusals.NotAnApprover):
        await desk.ledger.vote(card.approval, card.digest, "T2:ANN", "approve", "x")


async def test_an_empty_set_of_approvers_permits_no_vote(desk: Desk) -> None:
    card = await desk.ask(approvers=frozenset())
    with pytest.raises(desk.refusals.NotAnApprover):
        await desk.click(card, "ANN")
    with pytest.raises(desk.refusals.NotOpen):
        await desk.claim(card)


@pytest.mark.parametrize("wrong", [{"quorum": 0}, {"approvers": frozenset({"ANN"})}, {"decide_seconds": 0}, {"group_size": 0}])
async def test_a_requester_that_matches_no_person_or_every_person_is_refused(desk: Desk, wrong: dict[str, Any]) -> None:
    with pytest.raises(desk.refusals.BadTerms):
        await desk.ask(**wrong)
    assert await desk.dump() == {}


async def test_a_requester_without_a_team_is_refused(desk: Desk) -> None:
    with pytest.raises(desk.refusals.BadTerms, match="TEAM:USER"):
        await desk.ask(desk.action(requested_by="ANN"))


async def test_the_digest_of_an_older_card_approves_nothing(desk: Desk) -> None:
    card = await desk.ask()
    with pytest.raises(desk.refusals.WrongDigest):
        await desk.ledger.vote(card.approval, "0" * 64, "T1:ANN", "approve", "x")
    row = await desk.click(card)
    with pytest.raises(desk.refusals.WrongDigest):
        await desk.ledger.claim(row.approval, "0" * 64, "w", policy="policy-1", catalogue="catalogue-1", authorised=PEOPLE)


async def test_the_same_approval_id_with_another_action_is_refused(desk: Desk) -> None:
    action = desk.action()
    await desk.ask(action)
    assert (await desk.ask(action)).state == "pending"
    with pytest.raises(desk.refusals.WrongDigest):
        await desk.ask(dataclasses.replace(action, command=("rm",)))


async def test_a_replayed_click_changes_nothing(desk: Desk) -> None:
    card, other = await desk.ask(quorum=2), await desk.ask(desk.action("gpu-018"))
    await desk.click(card, "ANN", delivery="the same click")
    before = await desk.dump()
    for row in (card, other):
        with pytest.raises(desk.refusals.ReplayedClick):
            await desk.click(row, "BOB", delivery="the same click")
    assert await desk.dump() == before


async def test_a_denial_ends_it_for_good(desk: Desk) -> None:
    card = await desk.ask(quorum=2)
    denied = await desk.click(card, "ANN", "deny", reason="the job ends in an hour")
    assert (denied.state, denied.ended_by, denied.says) == ("denied", "T1:ANN", "the job ends in an hour")
    for verdict in ("approve", "deny"):
        with pytest.raises(desk.refusals.NotOpen, match="denied"):
            await desk.click(card, "BOB", verdict)
    with pytest.raises(desk.refusals.NotOpen):
        await desk.claim(card)


async def test_who_approved_may_think_better_of_it_while_others_decide(desk: Desk) -> None:
    card = await desk.ask(quorum=2)
    await desk.click(card, "ANN")
    assert (await desk.click(card, "ANN", "deny")).state == "denied"


async def test_a_vote_whose_voter_left_the_approvers_does_not_count_at_the_claim(desk: Desk) -> None:
    card = await desk.approved()
    with pytest.raises(desk.refusals.NoQuorum):
        await desk.claim(card, authorised=PEOPLE - {"T1:ANN"})
    with pytest.raises(desk.refusals.NoQuorum):
        await desk.claim(card, authorised=frozenset())


async def test_an_unknown_approval_is_not_found(desk: Desk) -> None:
    with pytest.raises(desk.refusals.NotFound):
        await desk.ledger.get_record("apr-000000000000")


# -- two clocks -----------------------------------------------------------------------------------------------------------


async def test_a_vote_after_the_time_to_decide_does_not_count(desk: Desk) -> None:
    card = await desk.ask(decide_seconds=900)
    desk.clock.go(seconds=901)
    with pytest.raises(desk.refusals.TooLate):
        await desk.click(card)
    assert (await desk.ledger.get_record(card.approval)).state == "pending"


async def test_a_claim_after_the_time_to_start_is_refused(desk: Desk) -> None:
    card = await desk.approved(start_seconds=300)
    desk.clock.go(seconds=301)
    with pytest.raises(desk.refusals.TooLate):
        await desk.claim(card)


async def test_in_the_last_moment_of_both_clocks_it_still_counts(desk: Desk) -> None:
    card = await desk.ask(decide_seconds=900, start_seconds=300)
    desk.clock.go(seconds=900)
    row = await desk.click(card)
    desk.clock.go(seconds=300)
    assert await desk.claim(row)


async def test_a_clock_that_goes_backwards_gives_no_time_back(desk: Desk) -> None:
    card = await desk.approved(start_seconds=300)
    desk.clock.go(seconds=301)
    await desk.ask(desk.action("gpu-018"))
    desk.clock.go(seconds=-120)
    with pytest.raises(desk.refusals.TooLate):
        await desk.claim(card)


async def test_a_machine_whose_clock_is_slow_decides_by_the_clock_of_the_others(desk: Desk) -> None:
    slow = desk.replica(SetClock(desk.clock.at))
    card = await desk.ask(decide_seconds=120)
    desk.clock.go(seconds=121)
    await desk.ask(desk.action("gpu-018"))
    with pytest.raises(desk.refusals.TooLate):
        await desk.click(card, ledger=slow)
    assert (await desk.ask(desk.action("gpu-019"))).proposed_at == desk.clock.at


async def test_a_machine_whose_clock_is_hopeless_is_told_so_and_a_human_can_rewind(desk: Desk) -> None:
    card, hasty = await desk.ask(), desk.replica(SetClock(desk.clock.at.replace(year=2099)))
    await hasty.propose(desk.action("gpu-018"), desk.terms())
    with pytest.raises(desk.refusals.ClockSkew, match="2099"):
        await desk.click(card)
    await desk.ledger.stop("T1:ANN", "a kill switch works on any machine")
    await desk.ledger.resume("T1:ANN")
    await desk.ledger.rewind_clock("T1:ANN")
    assert (await desk.ledger.get_record(card.approval)).state == "superseded"
    assert (await desk.approved()).state == "approved"
    assert (await desk.ledger.verify_audit()).good


async def test_rewinding_the_clock_skips_forged_records(desk: Desk) -> None:
    forged, card = await desk.ask(), await desk.ask(desk.action("gpu-018"))
    await desk.redis.hset(desk.key("apr", forged.approval), "mac", "0" * 64)
    await desk.ledger.rewind_clock("T1:ANN")
    assert (await desk.ledger.get_record(card.approval)).state == "superseded"


async def test_an_undecided_or_unstarted_action_expires_and_is_due_until_then(desk: Desk) -> None:
    waiting, approved = await desk.ask(), await desk.approved(desk.action("gpu-018"))
    assert await expire_due(desk.ledger) == []
    desk.clock.go(seconds=301)
    assert [row.approval for row in await expire_due(desk.ledger)] == [approved.approval]
    desk.clock.go(seconds=600)
    assert [row.approval for row in await expire_due(desk.ledger)] == [waiting.approval]
    assert await desk.ledger.list_due() == []
    with pytest.raises(desk.refusals.NotOpen, match="expired"):
        await desk.click(waiting)


async def test_nothing_expires_before_its_time(desk: Desk) -> None:
    card = await desk.ask()
    assert (await desk.ledger.end_action(card.approval, desk.states.Transition.EXPIRE, "x", "x")).state == "pending"


# -- expiry, revocation, supersession --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("event", ["revoke", "supersede"])
@pytest.mark.parametrize("approve", [True, False])
async def test_what_is_revoked_or_superseded_never_runs(desk: Desk, event: str, approve: bool) -> None:
    card = await desk.approved() if approve else await desk.ask()
    ended = await desk.ledger.end_action(card.approval, desk.states.Transition(event), "T1:BOB", "not now")
    assert (ended.state, ended.ended_by, ended.says) == (f"{event}d", "T1:BOB", "not now")
    for attempt in (
        desk.click(card, "CID"),
        desk.claim(card),
        desk.ledger.end_action(card.approval, desk.states.Transition.REVOKE, "x", "x"),
    ):
        with pytest.raises(desk.refusals.NotOpen):
            await attempt


async def test_what_runs_cannot_be_revoked(desk: Desk) -> None:
    card = await desk.approved()
    await desk.claim(card)
    with pytest.raises(desk.refusals.NotOpen, match="executing"):
        await desk.ledger.end_action(card.approval, desk.states.Transition.REVOKE, "T1:BOB", "stop it")


async def test_no_ending_leads_to_an_approval(desk: Desk) -> None:
    card = await desk.ask()
    for event in ("approve", "claim", "done"):
        with pytest.raises(ValueError, match="does not end"):
            await desk.ledger.end_action(card.approval, desk.states.Transition(event), "x", "x")


@pytest.mark.parametrize("changed", [{"policy": "policy-2"}, {"catalogue": "catalogue-2"}])
async def test_an_approval_under_an_older_policy_or_catalogue_is_superseded(desk: Desk, changed: dict[str, str]) -> None:
    card = await desk.approved()
    with pytest.raises(desk.refusals.VersionChanged):
        await desk.claim(card, **changed)
    assert (await desk.ledger.get_record(card.approval)).state == "superseded"


# -- brakes ---------------------------------------------------------------------------------------------------------------


async def test_the_kill_switch_lets_nothing_start_and_shows_what_runs(desk: Desk) -> None:
    running, waiting = await desk.approved(), await desk.approved(desk.action("gpu-018"))
    held = await desk.claim(running)
    await desk.replica().stop("T1:BOB", "power work in row 7")
    with pytest.raises(desk.refusals.KillSwitchOn, match="power work in row 7"):
        await desk.claim(waiting)
    status = await desk.ledger.get_brake_status()
    assert (status.stopped, status.executing) == ("T1:BOB: power work in row 7", (running.approval,))
    assert (status.stopped_by, status.why) == ("T1:BOB", "power work in row 7")
    assert (await desk.perform(held)).state == "done"
    await desk.ledger.resume("T1:BOB")
    assert await desk.claim(waiting)


async def test_two_incidents_on_one_host_take_turns(desk: Desk) -> None:
    first, second = await desk.approved(), await desk.approved(desk.action(incident="inc-2"))
    held = await desk.claim(first)
    with pytest.raises(desk.refusals.TargetBusy, match=first.approval):
        await desk.claim(second)
    await desk.perform(held)
    assert (await desk.ran(second)).state == "done"


async def test_a_set_of_hosts_is_held_whole(desk: Desk) -> None:
    pair, single = await desk.approved(desk.action("gpu-001,gpu-002")), await desk.approved(desk.action("gpu-002"))
    held = await desk.claim(pair)
    with pytest.raises(desk.refusals.TargetBusy):
        await desk.claim(single)
    await desk.ledger.finish(held, "done")
    assert await desk.claim(single)


async def test_an_unknown_action_keeps_its_target_until_a_human_says_what_happened(desk: Desk) -> None:
    first, second = await desk.approved(), await desk.approved()
    doubt = await desk.ledger.finish(await desk.claim(first), "unknown", says="the host does not answer")
    assert (doubt.state, doubt.get_due_time()) == ("unknown", None)
    assert (await desk.ledger.get_brake_status()).unknown == (first.approval,)
    with pytest.raises(desk.refusals.TargetBusy):
        await desk.claim(second)
    settled = await desk.ledger.reconcile(first.approval, "T1:BOB", False, "looked at the console: it never ran")
    assert (settled.state, settled.ended_by) == ("failed", "T1:BOB")
    assert await desk.claim(second)
    with pytest.raises(desk.refusals.NotOpen):
        await desk.claim(first)


async def test_only_what_is_unknown_can_be_reconciled(desk: Desk) -> None:
    card = await desk.approved()
    with pytest.raises(desk.refusals.NotOpen):
        await desk.ledger.reconcile(card.approval, "T1:BOB", True, "x")
    assert (await desk.ran(card)).state == "done"
    with pytest.raises(desk.refusals.NotOpen):
        await desk.ledger.reconcile(card.approval, "T1:BOB", False, "x")


async def test_one_incident_changes_so_many_hosts_and_no_more(desk: Desk) -> None:
    for i in range(4):
        await desk.ran(await desk.approved(desk.action(f"gpu-{i}")))
    fifth = await desk.approved(desk.action("gpu-9"))
    with pytest.raises(desk.refusals.BlastRadius):
        await desk.claim(fifth)
    again = await desk.approved(desk.action("gpu-0"))
    assert await desk.claim(again), "a host that it changed already is not one more"
    desk.clock.go(seconds=3601)
    assert await desk.claim(await desk.approved(desk.action("gpu-9")))


async def test_only_a_share_of_a_group_is_under_change_at_once(desk: Desk) -> None:
    cards = [await desk.approved(desk.action(f"gpu-{i}", incident=f"inc-{i}"), group_size=50) for i in range(3)]
    held = [await desk.claim(card) for card in cards[:2]]
    with pytest.raises(desk.refusals.FleetLimit):
        await desk.claim(cards[2])
    await desk.perform(held[0])
    assert await desk.claim(cards[2])


async def test_another_group_has_its_own_share(desk: Desk) -> None:
    ours = await desk.approved(group_size=10)
    await desk.claim(ours)
    theirs = await desk.approved(desk.action("b-1", incident="inc-2"), group="b200", group_size=10)
    assert await desk.claim(theirs)


async def test_the_breaker_stays_open_until_a_human_resets_it(desk: Desk) -> None:
    for i in range(3):
        await desk.ran(await desk.approved(desk.action(f"gpu-{i}", incident=f"inc-{i}"), group_size=10))
    with pytest.raises(desk.refusals.BreakerOpen):
        await desk.claim(await desk.approved(desk.action("gpu-8", incident="inc-8"), group_size=10))
    desk.clock.go(hours=5)
    late = await desk.approved(desk.action("gpu-9", incident="inc-9"), group_size=10)
    with pytest.raises(desk.refusals.BreakerOpen):
        await desk.claim(late)
    assert (await desk.ledger.get_brake_status()).breakers == ("h100",)
    await desk.ledger.reset_breaker("h100", "T1:BOB")
    assert await desk.claim(late)


async def test_a_reset_breaker_counts_from_nothing(desk: Desk) -> None:
    for i in range(3):
        await desk.ran(await desk.approved(desk.action(f"gpu-{i}", incident=f"inc-{i}"), group_size=10))
    await desk.ledger.reset_breaker("h100", "T1:BOB")
    assert await desk.claim(await desk.approved(desk.action("gpu-8", incident="inc-8"), group_size=10))


async def test_what_only_looks_holds_its_hosts_but_uses_up_no_blast_radius(desk: Desk) -> None:
    rack = ",".join(f"gpu-{i:03}" for i in range(16))
    look = await desk.approved(desk.action(rack, remedy="run_check"), changes=False)
    held = await desk.claim(look)
    with pytest.raises(desk.refusals.TargetBusy):
        await desk.claim(await desk.approved(desk.action("gpu-003")))
    await desk.ledger.finish(held, "done")
    assert await desk.claim(await desk.approved(desk.action("gpu-003")))


@pytest.mark.parametrize("words", ["edited by T1:BOB: apr-0123456789ab", "", "apr-0123456789ab"])
async def test_what_replaced_an_action_is_a_field_and_not_read_from_words(desk: Desk, words: str) -> None:
    old, new = await desk.ask(), await desk.ask()
    ended = await desk.ledger.end_action(old.approval, desk.states.Transition.SUPERSEDE, "T1:BOB", words, replaced_by=new.approval)
    assert (ended.replaced_by, ended.covered_by) == (new.approval, "")
    assert (await desk.audit())[-1].count(new.approval) == 1


@pytest.mark.parametrize("who", ["T1:apr-0123456789ab", "apr-0123456789abc", "rackmedic"])
async def test_a_persons_name_is_never_taken_for_an_action(desk: Desk, who: str) -> None:
    ended = await desk.ledger.end_action((await desk.ask()).approval, desk.states.Transition.SUPERSEDE, who, "edited by somebody: apr-0123")
    assert (ended.replaced_by, ended.covered_by) == ("", "")


@pytest.mark.parametrize("value", ["", "T1:ANN: a rack"])
async def test_status_shows_every_kill_switch_that_a_claim_obeys(desk: Desk, value: str) -> None:
    card = await desk.approved()
    await desk.redis.hset(desk.key("brakes"), "stop", value)
    assert (await desk.ledger.get_brake_status()).stopped_by == "unknown"
    assert "kill switch is on" in await desk.ledger.explain_held_back(card)
    with pytest.raises(desk.refusals.KillSwitchOn):
        await desk.claim(card)
    await desk.redis.hdel(desk.key("brakes"), "stop")
    assert (await desk.ledger.get_brake_status()).stopped == ""


async def test_a_reboot_supersedes_the_reset_that_it_covers(desk: Desk) -> None:
    reset, elsewhere = await desk.approved(), await desk.approved(desk.action("gpu-018"))
    reboot = await desk.approved(desk.action(remedy="reboot"), covers=("gpu_reset",))
    await desk.claim(reboot)
    ended = await desk.ledger.get_record(reset.approval)
    assert (ended.state, ended.ended_by, ended.covered_by) == ("superseded", reboot.approval, reboot.approval)
    assert (await desk.ledger.get_record(elsewhere.approval)).state == "approved"
    assert reset.approval not in await desk.ledger.list_due()


async def test_a_reboot_of_one_host_does_not_supersede_work_on_two(desk: Desk) -> None:
    pair = await desk.approved(desk.action("gpu-017,gpu-018"))
    await desk.claim(await desk.approved(desk.action(remedy="reboot"), covers=("gpu_reset",)))
    assert (await desk.ledger.get_record(pair.approval)).state == "approved"


async def test_of_a_reset_and_a_reboot_claimed_at_once_one_runs(desk: Desk) -> None:
    reset = await desk.approved()
    reboot = await desk.approved(desk.action(remedy="reboot"), covers=("gpu_reset",))
    said = await asyncio.gather(desk.claim(reset, "w1"), desk.claim(reboot, "w2", ledger=desk.replica()), return_exceptions=True)
    assert sum(not isinstance(answer, Exception) for answer in said) == 1


async def test_on_a_store_that_forgets_nothing_runs(desk: Desk) -> None:
    card = await desk.approved()

    async def asked() -> str:
        return "appendfsync is everysec: set it to always"

    for distrust in ("nothing survives exit", asked):
        with pytest.raises(desk.refusals.NonDurableStore, match=r"everysec|survives"):
            await desk.claim(card, ledger=desk.replica(distrust=distrust))
    assert (await desk.ledger.get_record(card.approval)).state == "approved"


# -- leases -----------------------------------------------------------------------------------------------------------


async def test_a_holder_that_beats_is_not_adopted(desk: Desk) -> None:
    card = await desk.approved()
    held = await desk.claim(card)
    for _ in range(5):
        desk.clock.go(seconds=20)
        await desk.ledger.send_heartbeat(held)
        assert await desk.ledger.adopt(card.approval, "w2") is None
    assert await desk.ledger.list_due() == []


async def test_whoever_adopts_a_silent_holders_action_may_only_find_out(desk: Desk) -> None:
    card = await desk.approved()
    held = await desk.claim(card)
    desk.clock.go(seconds=31)
    assert await desk.ledger.list_due() == [card.approval]
    adopted = await desk.ledger.adopt(card.approval, "w2")
    assert adopted is not None
    assert (adopted.may_start, adopted.token > held.token) == (False, True)
    with pytest.raises(PermissionError):
        await start_action(adopted, desk.host)
    assert (await desk.perform(adopted)).state == "failed"
    assert desk.host.effects == {}


async def test_a_stale_worker_that_wakes_up_starts_nothing_and_writes_nothing(desk: Desk) -> None:
    card = await desk.approved()
    stale = await desk.claim(card)
    desk.clock.go(seconds=31)
    adopted = await desk.ledger.adopt(card.approval, "w2")
    with pytest.raises(desk.refusals.LostClaim):
        await desk.ledger.send_heartbeat(stale)
    await desk.perform(adopted)
    for state in ("done", "unknown"):
        with pytest.raises(desk.refusals.LostClaim):
            await desk.ledger.finish(stale, state)
    with pytest.raises(desk.refusals.LostClaim):
        await desk.perform(stale)
    assert desk.host.effects == {}, "the host buried the digest when the adopter asked"


async def test_an_effect_that_outlived_its_worker_is_found_and_not_repeated(desk: Desk) -> None:
    card = await desk.approved()
    held = await desk.claim(card)
    await start_action(held, desk.host)
    desk.clock.go(seconds=31)
    done = await desk.perform(await desk.ledger.adopt(card.approval, "w2"))
    assert (done.state, desk.host.effects[card.digest]) == ("done", 1)


async def test_nothing_is_adopted_that_does_not_run(desk: Desk) -> None:
    card = await desk.approved()
    with pytest.raises(desk.refusals.NotOpen):
        await desk.ledger.adopt(card.approval, "w2")
    await desk.ran(card)
    desk.clock.go(seconds=31)
    with pytest.raises(desk.refusals.NotOpen):
        await desk.ledger.adopt(card.approval, "w2")


async def test_a_precondition_that_changed_after_the_approval_is_refused_and_not_retried(desk: Desk) -> None:
    card = await desk.approved()
    desk.host.idle = False
    row = await desk.ran(card)
    assert (row.state, "no process uses this GPU" in row.says) == ("failed", True)
    desk.host.idle = True
    with pytest.raises(desk.refusals.NotOpen):
        await desk.claim(card)
    assert desk.host.effects == {}


async def test_a_host_that_booted_since_the_approval_is_left_alone(desk: Desk) -> None:
    card = await desk.approved(desk.action(boot_id=BOOT))
    desk.host.boot_id = OTHER_BOOT
    assert (await desk.ran(card)).state == "failed"
    assert desk.host.effects == {}


async def test_what_the_proof_found_is_kept_with_the_action(desk: Desk) -> None:
    card = await desk.approved()
    with pytest.raises(desk.refusals.NotOpen):
        await desk.ledger.record_outcome(card.approval, "passes_now")
    await desk.ran(card)
    assert (await desk.ledger.record_outcome(card.approval, "passes_now")).outcome == "passes_now"
    assert (await desk.ledger.record_outcome(card.approval, "recurred")).outcome == "recurred"


async def test_an_incident_knows_its_actions_in_order(desk: Desk) -> None:
    first = await desk.ask()
    desk.clock.go(seconds=1)
    second = await desk.ask(desk.action("gpu-018"))
    await desk.ask(desk.action(incident="inc-2"))
    assert [row.approval for row in await desk.ledger.list_incident_records("inc-1")] == [first.approval, second.approval]


# -- another writer in Redis ------------------------------------------------------------------------------------


async def test_a_state_set_by_hand_approves_nothing(desk: Desk) -> None:
    card = await desk.ask()
    await desk.redis.hset(desk.key("apr", card.approval), "state", "approved")
    with pytest.raises(desk.refusals.TamperedRecord):
        await desk.claim(card)
    await desk.redis.hset(desk.key("apr", card.approval), "start_by", FAR)
    with pytest.raises(desk.refusals.TamperedRecord):
        await desk.claim(card)


async def test_a_start_clock_moved_by_hand_is_noticed(desk: Desk) -> None:
    card = await desk.approved()
    await desk.redis.hset(desk.key("apr", card.approval), "start_by", FAR)
    with pytest.raises(desk.refusals.TamperedRecord):
        await desk.claim(card)


async def test_a_vote_added_by_hand_is_noticed(desk: Desk) -> None:
    card = await desk.ask(quorum=2)
    await desk.click(card, "ANN")
    votes = desk.key("votes", card.approval)
    genuine = (await desk.redis.hgetall(votes))[b"T1:ANN"]
    await desk.redis.hset(votes, "T1:BOB", genuine)
    with pytest.raises(desk.refusals.TamperedRecord):
        await desk.click(card, "CID")
    await desk.redis.hset(votes, "T1:BOB", genuine.replace(b"T1:ANN", b"T1:BOB"))
    with pytest.raises(desk.refusals.TamperedRecord):
        await desk.click(card, "CID")


async def test_a_vote_for_another_action_is_not_a_vote_for_this_one(desk: Desk) -> None:
    harmless, harmful = await desk.approved(), await desk.ask(desk.action("gpu-018"), quorum=2)
    row = await desk.redis.hgetall(desk.key("votes", harmless.approval))
    await desk.redis.hset(desk.key("votes", harmful.approval), mapping=row)
    assert (await desk.click(harmful, "BOB")).state == "pending"


async def test_an_action_swapped_by_hand_is_noticed(desk: Desk) -> None:
    card = await desk.approved()
    worse = dataclasses.replace(card.action, command=("rm", "-rf", "/"))
    await desk.redis.hset(desk.key("apr", card.approval), mapping={"action": worse.to_canonical_json(), "digest": worse.digest})
    for digest in (card.digest, worse.digest):
        with pytest.raises(desk.refusals.TamperedRecord):
            await desk.ledger.claim(card.approval, digest, "w", policy="policy-1", catalogue="catalogue-1", authorised=PEOPLE)


async def test_a_quorum_lowered_by_hand_is_noticed(desk: Desk) -> None:
    card = await desk.ask(quorum=2)
    lower = card.terms.to_canonical_json().replace('"quorum":2', '"quorum":1')
    await desk.redis.hset(desk.key("apr", card.approval), "request", lower)
    with pytest.raises(desk.refusals.TamperedRecord):
        await desk.click(card)


@pytest.mark.parametrize("field", ["mac", "action", "request", "digest", "decide_by", "proposed_at", "state", "approved"])
async def test_a_record_with_any_field_gone_or_garbled_is_tampered(desk: Desk, field: str) -> None:
    card = await desk.approved()
    key = desk.key("apr", card.approval)
    kept = (await desk.redis.hgetall(key))[field.encode()]
    for garbled in (b"", b"{}", b"9", kept + b" "):
        await desk.redis.hset(key, field, garbled)
        with pytest.raises(desk.refusals.TamperedRecord):
            await desk.claim(card)
    await desk.redis.hdel(key, field)
    with pytest.raises(desk.refusals.TamperedRecord):
        await desk.claim(card)


async def test_an_action_that_ran_and_is_set_back_by_hand_is_not_claimed_again(desk: Desk) -> None:
    card = await desk.approved()
    await desk.ran(card)
    await desk.redis.hset(desk.key("apr", card.approval), "state", "approved")
    with pytest.raises(desk.refusals.TamperedRecord):
        await desk.claim(card)


async def test_a_denial_undone_by_hand_does_not_let_it_run(desk: Desk) -> None:
    card = await desk.ask(quorum=1)
    await desk.click(card, "BOB", "deny")
    await desk.redis.hset(desk.key("apr", card.approval), "state", "pending")
    with suppress(desk.refusals.TamperedRecord):
        await desk.click(card, "ANN")
    with pytest.raises(desk.refusals.Refused):
        await desk.claim(card)


async def test_a_record_signed_with_another_key_is_tampered(desk: Desk) -> None:
    card = await desk.ask()
    with pytest.raises(desk.refusals.TamperedRecord):
        await desk.replica(key=b"somebody else's key").get_record(card.approval)


async def test_a_redis_that_went_back_in_time_stops_everything_until_a_human_looked(desk: Desk) -> None:
    card = await desk.approved()
    backup = {key: (await desk.redis.dump(key), await desk.redis.type(key)) for key in await desk.redis.keys("*")}
    await desk.ran(card)
    await desk.redis.flushall()
    for key, (value, _) in backup.items():
        await desk.redis.restore(key, 0, value)
    with pytest.raises(desk.refusals.KillSwitchOn, match="went back in time"):
        await desk.claim(card)
    with pytest.raises(desk.refusals.KillSwitchOn):
        await desk.claim(card, ledger=desk.replica())
    newcomer = desk.replica()
    await newcomer.resume("T1:BOB")
    again = await desk.claim(card, ledger=newcomer)
    assert (await desk.perform(again, newcomer)).state == "done"
    assert desk.host.effects[card.digest] == 1, "what is left is caught by the host's own record"


async def test_a_redis_that_lost_everything_stops_what_comes_next(desk: Desk) -> None:
    held = await desk.claim(await desk.approved())
    await desk.redis.flushall()
    with pytest.raises(desk.refusals.LostClaim):
        await desk.ledger.send_heartbeat(held)
    with pytest.raises(desk.refusals.KillSwitchOn):
        await desk.claim(await desk.approved())


class Cut:
    """A Redis that loses one answer after the script ran; the client sends the script again, as redis-py does."""

    def __init__(self, redis: Redis) -> None:
        self._redis, self.cut = redis, False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._redis, name)

    def register_script(self, text: str) -> Any:
        script = self._redis.register_script(text)

        async def run(keys: list[str], args: list[Any]) -> Any:
            if self.cut:
                self.cut = False
                await script(keys=keys, args=args)
            return await script(keys=keys, args=args)

        return run


async def test_a_script_whose_answer_was_lost_and_that_is_sent_again_counts_once(desk: Desk) -> None:
    cut: Any = Cut(desk.redis)
    ledger = Ledger(cut, b"a key that only these tests know", desk.clock)
    card = await desk.ask()
    cut.cut = True
    assert (await desk.click(card, ledger=ledger)).state == "approved"
    cut.cut = True
    held = await desk.claim(card, ledger=ledger)
    assert held.may_start
    cut.cut = True
    assert (await ledger.finish(held, "done")).state == "done"
    assert len(await desk.audit()) == 4


class Dead:
    """A Redis that does not answer."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    def register_script(self, text: str) -> Any:
        return self._redis.register_script(text)

    def __getattr__(self, name: str) -> Any:
        async def fails(*_: Any, **__: Any) -> Any:
            raise NoConnection("Error 111 connecting to 10.0.0.9:6379")

        return DeadPipeline() if name == "pipeline" else fails


class DeadPipeline:
    """A pipeline that accepts commands and loses them."""

    def __call__(self, **_: Any) -> "DeadPipeline":
        return self

    async def execute(self, **_: Any) -> None:
        raise NoConnection("Error 111 connecting to 10.0.0.9:6379")

    def __getattr__(self, name: str) -> Any:
        return lambda *_: self


async def test_a_redis_that_does_not_answer_is_a_refusal_and_no_stack_trace(desk: Desk) -> None:
    card = await desk.ask()
    unreachable: Any = Dead(desk.redis)
    dead = Ledger(unreachable, b"a key that only these tests know", desk.clock)
    attempts = [
        desk.click(card, ledger=dead),
        desk.claim(card, ledger=dead),
        dead.get_brake_status(),
        dead.verify_audit(),
        dead.list_due(),
        dead.list_incident_records("x"),
    ]
    for attempt in [*attempts, dead.propose(desk.action(), desk.terms()), dead.stop("T1:ANN", "x")]:
        with pytest.raises(desk.refusals.StoreDown):
            await attempt


# -- the audit log --------------------------------------------------------------------------------------------------------


async def some_history(desk: Desk) -> Any:
    await desk.ran(await desk.approved())
    await desk.click(await desk.ask(desk.action("gpu-018")), "BOB", "deny")
    return desk.key("audit"), desk.key("head")


async def test_an_untouched_audit_log_verifies(desk: Desk) -> None:
    await some_history(desk)
    report = await desk.ledger.verify_audit(head for _, head in desk.heads)
    assert (report.good, report.entries, report.head) == (True, 6, desk.heads[-1][1])
    assert desk.heads == [(i, head) for i, (_, head) in enumerate(desk.heads, 1)]


async def test_an_altered_entry_is_found_where_it_is(desk: Desk) -> None:
    log, _ = await some_history(desk)
    row = (await desk.redis.lindex(log, 2)).replace(b'"by":"w1"', b'"by":"w9"')
    await desk.redis.lset(log, 2, row)
    report = await desk.ledger.verify_audit()
    assert (report.good, report.broken_at) == (False, 2)


async def test_a_removed_entry_is_found(desk: Desk) -> None:
    log, _ = await some_history(desk)
    await desk.redis.lrem(log, 1, await desk.redis.lindex(log, 1))
    assert (await desk.ledger.verify_audit()).broken_at == 1


async def test_entries_in_another_order_are_found(desk: Desk) -> None:
    log, _ = await some_history(desk)
    first, second = await desk.redis.lindex(log, 0), await desk.redis.lindex(log, 1)
    await desk.redis.lset(log, 0, second)
    await desk.redis.lset(log, 1, first)
    assert (await desk.ledger.verify_audit()).broken_at == 0


async def test_a_cut_end_shows_against_the_stored_head_and_against_a_posted_one(desk: Desk) -> None:
    log, head = await some_history(desk)
    await desk.redis.rpop(log)
    assert not (await desk.ledger.verify_audit()).intact
    await desk.redis.set(head, desk.heads[-2][1])
    report = await desk.ledger.verify_audit([desk.heads[-1][1], desk.heads[-2][1]])
    assert (report.intact, report.good, report.missing_heads) == (True, False, (desk.heads[-1][1],))


async def test_an_entry_added_without_the_key_is_found(desk: Desk) -> None:
    log, _ = await some_history(desk)
    await desk.redis.rpush(log, "f" * 64 + ' {"event":"vote_approve","by":"T1:ANN"}')
    assert (await desk.ledger.verify_audit()).broken_at == 6


async def test_the_audit_line_stands_before_the_effect(desk: Desk) -> None:
    card = await desk.approved()
    held = await desk.claim(card)
    line = json.loads((await desk.audit())[-1])
    assert (line["event"], line["digest"], line["approval"]) == ("claim", card.digest, card.approval)
    assert desk.host.effects == {}
    await desk.perform(held)


async def test_who_lets_the_next_wave_go_and_what_somebody_else_returned_is_audited(desk: Desk) -> None:
    await desk.ledger.record_continuation("inc-1", "GPU.BUS.Fell_Off", ["gpu-018", "gpu-017"], "T1:BOB")
    await desk.ledger.record_seen_in_service("inc-1", "gpu-019", "idle")
    first, second = [json.loads(line) for line in (await desk.audit())[-2:]]
    assert (first["event"], first["by"], first["after"]) == ("wave_let_go", "T1:BOB", ["gpu-017", "gpu-018"])
    assert (second["event"], second["by"], second["target"]) == ("held_node_in_service", "rackmedic", "gpu-019")
    assert (await desk.ledger.verify_audit()).good


async def test_no_secret_and_no_output_reaches_the_audit_log_or_a_record(desk: Desk) -> None:
    first, second = await desk.approved(), await desk.ask(desk.action("gpu-018"))
    row = await desk.ledger.finish(await desk.claim(first), "unknown", output=f"token={SECRET}", says=f"login {SECRET} failed")
    assert len(row.output) == 64
    await desk.ledger.reconcile(first.approval, "T1:BOB", True, f"used {SECRET}")
    await desk.click(second, "BOB", "deny", reason=f"password=hunter2 {SECRET}")
    await desk.ledger.end_action((await desk.ask()).approval, desk.states.Transition.REVOKE, "T1:BOB", SECRET)
    await desk.ledger.stop("T1:BOB", SECRET)
    everything = repr([await desk.audit(), await desk.dump()])
    assert SECRET not in everything
    assert "hunter2" not in everything


# -- claims ---------------------------------------------------------------------------------------------------------------


async def test_only_the_ledger_creates_claims(desk: Desk) -> None:
    held = await desk.claim(await desk.approved())
    with pytest.raises(TypeError):
        Claim(desk.action(), 1, "w", True, object())
    with pytest.raises((TypeError, ValueError)):
        dataclasses.replace(held, may_start=True)
    with pytest.raises(dataclasses.FrozenInstanceError):
        held.may_start = True
    for copying in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError):
            copying(held)


def test_only_the_ledger_names_the_function_that_issues_claims() -> None:
    users = set()
    for path in (p for room in ("bot", "graph", "tools", "kb", "deploy") for p in (ROOT / room).rglob("*.py")):
        tree = ast.parse(path.read_text())
        imported = {
            name.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and node.module == "tools.ledger.claim"
            for name in node.names
        }
        reached = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        if (imported & {"issue_claim", "_MINT"}) or "_MINT" in reached:
            users.add(path.relative_to(ROOT).as_posix())
    assert users == {"tools/ledger/ledger.py"}


def test_a_short_key_is_refused() -> None:
    with pytest.raises(ValueError, match="16 bytes"):
        Desk(FakeAsyncRedis(server=FakeServer())).replica(key=b"short")


# -- garbage from another writer ---------------------------------------------------------------------------------

ABSURD = ("abc", "-99999", "1e400", "nan", "inf", "", " 1", "1_0", "١٢", "9" * 14, "9" * 5000, "0x10", "\0", "1.5")


@pytest.mark.parametrize("value", ABSURD)
async def test_a_number_that_is_none_refuses_and_never_breaks(desk: Desk, value: str) -> None:
    card = await desk.approved()
    for field in ("decide_by", "start_by", "proposed_at", "token", "beat_until", "exit_status", "outcome", "state"):
        key, kept = desk.key("apr", card.approval), await desk.redis.hget(desk.key("apr", card.approval), field)
        await desk.redis.hset(key, field, value)
        with pytest.raises(desk.refusals.Refused) if value or field in ("decide_by", "start_by", "proposed_at", "state") else nullcontext():
            await desk.ledger.get_record(card.approval)
        await (desk.redis.hset(key, field, kept) if kept is not None else desk.redis.hdel(key, field))
    assert await desk.claim(card)


@pytest.mark.parametrize("value", [value for value in ABSURD if value])
async def test_a_clock_that_is_none_refuses_and_the_brakes_still_work(desk: Desk, value: str) -> None:
    card = await desk.approved()
    await desk.redis.set(desk.key("clock"), value)
    with pytest.raises(desk.refusals.TamperedRecord):
        await desk.claim(card)
    await desk.ledger.stop("T1:BOB", "somebody writes into Redis")
    with pytest.raises(desk.refusals.KillSwitchOn):
        await desk.claim(card)


async def test_a_clock_that_was_set_to_zero_gives_a_slow_replica_no_time_back(desk: Desk) -> None:
    card = await desk.approved()
    slow = desk.replica(SetClock(desk.clock.at))
    desk.clock.go(seconds=301)
    await desk.ask(desk.action("gpu-019"))  # the ledger records the later time
    await desk.redis.set(desk.key("clock"), "0")
    with pytest.raises(desk.refusals.TooLate):
        await desk.claim(card, ledger=slow)


async def test_the_newest_entry_cannot_be_set_back_with_the_clock(desk: Desk) -> None:
    card = await desk.approved()
    slow = desk.replica(SetClock(desk.clock.at))
    earlier = desk.clock.at.isoformat().encode()
    desk.clock.go(seconds=301)
    await desk.ask(desk.action("gpu-019"))
    newest = await desk.redis.lindex(desk.key("audit"), -1)
    await desk.redis.lset(desk.key("audit"), -1, newest.replace(desk.clock.at.isoformat().encode(), earlier))
    await desk.redis.set(desk.key("clock"), "0")
    with pytest.raises(desk.refusals.TamperedRecord, match="newest entry of the audit log is not signed with our key"):
        await desk.claim(card, ledger=slow)
    await desk.ledger.stop("T1:BOB", "somebody writes into Redis")
    assert (await desk.ledger.get_brake_status()).stopped


@pytest.mark.parametrize("name", ["clock", "audit", "head", "brakes", "due", "held", "target:gpu-017", "blast:inc-1", "busy:h100"])
async def test_a_key_of_another_kind_refuses_and_never_breaks(desk: Desk, name: str) -> None:
    card = await desk.approved()
    await desk.redis.delete(desk.key(name))
    await (desk.redis.set if name in ("audit", "brakes", "due", "held", "blast:inc-1", "busy:h100") else desk.redis.rpush)(
        desk.key(name), "abc"
    )
    for attempt in (desk.claim(card), desk.ledger.get_brake_status(), desk.ledger.list_due(), desk.ledger.get_brake_usage("inc-1", "h100")):
        with suppress(desk.refusals.Refused):
            await attempt


@pytest.mark.parametrize("score", ["inf", "-inf", "1e300", "-5"])
async def test_a_moment_that_is_none_in_a_brake_is_refused(desk: Desk, score: str) -> None:
    await desk.redis.zadd(desk.key("blast", "inc-1"), {"gpu-001": float(score)})
    with pytest.raises(desk.refusals.TamperedRecord):
        await desk.ledger.get_brake_usage("inc-1", "h100")
