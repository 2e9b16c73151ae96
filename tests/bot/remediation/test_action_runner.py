"""From diagnosis to verified remediation with approvals: steps, clicks, expiry, crashes, two processes, parallel
remediations.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from fakeredis import FakeAsyncRedis
from redis.asyncio import Redis

from bot.incidents.dispatch.wakeups import LocalWakeups
from bot.policy.approvals import STALLED_JOB_CONDITION, build_terms, can_still_be_decided, compute_policy_hash, get_quorum
from bot.policy.channels import NotAllowed
from bot.remediation.action_edits import build_edited_step
from bot.remediation.action_index import ActionIndex
from bot.remediation.action_runner import get_reminder_time
from bot.remediation.action_runtime import ActionWorker
from bot.remediation.approval_decisions import CannotPropose, HostRecordContradiction
from bot.remediation.proposer import is_job_stalled
from tests.support.clock import T0, SetClock
from tests.support.fakes_actions import ANN, BDF, BOB, CID, TAXONOMY, Office, Plan, Site, die, hung, well
from tests.support.fakes_graph import SLOW_LINK, Killed, fact
from tests.support.fakes_graph import TAXONOMY as EVERYDAY
from tests.support.fakes_ledger import action
from tests.support.inventories import inventory
from tools.action import Action, Condition
from tools.execution.drain_status import SLURM_DRAINED
from tools.fact import Fact
from tools.inventory.inventory import ChannelRow
from tools.ledger.brakes import Brakes
from tools.ledger.record import ActionRecord
from tools.ledger.refusals import AlreadyVoted, NotAnApprover, NotOpen, OwnRequest, ReplayedClick, WrongDigest
from tools.ledger.states import State
from tools.remedies.remedy import BadArgument

pytest_plugins = ("tests.support.fixtures_redis",)
pytestmark = pytest.mark.slow
HOSTS = ("n1", "n2", "n3", "n4", "m1", "m2", "ctl")
WITH_LINKS = replace(TAXONOMY, leaves={**TAXONOMY.leaves, SLOW_LINK: EVERYDAY.get_leaf(SLOW_LINK)})


@pytest.fixture
async def store() -> AsyncIterator[Redis]:
    async with FakeAsyncRedis() as redis:
        yield redis


def site(*sick: Fact, **more: Any) -> Site:
    made = Site(facts=well(*HOSTS), **more)
    made.sick(*(sick or (hung("n1"),)))
    return made


def slow(host: str = "n1", device: str = "gpu3") -> Fact:
    return fact(host, "smi", "gpu.throttle.applications_clocks", True, device)


def down(host: str = "n1") -> Fact:
    return fact(host, "sysd", "service.state", "failed", "nvidia-fabricmanager")


def again(office: Office, worker: str = "w2", **more: Any) -> Office:
    """Return another process on the same Redis and world, a minute later."""
    office.clock.go(seconds=60)
    return Office(office.redis, office.site, people=office.people, wall=office.wall, evidence=office.evidence, worker=worker, **more)


async def remedies(office: Office, incident: str) -> list[tuple[str, str, str]]:
    return [(row.action.remedy, row.state.value, row.outcome) for row in await office.ledger.list_incident_records(incident)]


async def one_ladder(office: Office, incident: str) -> dict[str, Any]:
    (ladder,) = await office.ladders(incident)
    return ladder


# The remediation, step by step


async def test_drain_reset_prove_resume_and_proved_again(redis: Redis) -> None:
    office = Office(redis, site())
    incident = await office.mention()
    for remedy in ("drain_node", "gpu_reset", "resume_node"):
        row = await office.approve(incident, remedy)
        assert (row.state, row.outcome) == (State.DONE, "passes_now")
    state = await office.turns.load_state(incident)
    assert (state["lifecycle"], state["report"]["reply"]) == ("watching", "Hung on n1: passes now; re-check at 05:10 UTC")
    assert [(host, remedy) for host, remedy, _ in office.site.effects] == [
        ("ctl", "drain_node"),
        ("n1", "gpu_reset"),
        ("ctl", "resume_node"),
    ]
    assert office.site.slurm == {"n1": "idle"}
    office.clock.go(hours=2, minutes=1)
    await office.settle(incident)
    assert (await one_ladder(office, incident))["outcome"] == "cured"
    assert (await office.turns.load_state(incident))["lifecycle"] == "watching"
    office.clock.go(hours=1, minutes=15)
    await office.settle(incident)
    state = await office.turns.load_state(incident)
    assert (state["lifecycle"], state["report"]["reply"].split(":")[0]) == ("closed", "Closed automatically")
    assert await office.index.claim_due(timedelta(seconds=1)) == []


async def test_every_card_is_shown_once_and_every_end_told_once(store: Redis) -> None:
    office = Office(store, site())
    incident = await office.mention()
    row = await office.approve(incident, "drain_node")
    for _ in range(3):
        await office.actions.run_action(row.approval)
    assert [what for what, approval in office.wall.news if approval == row.approval] == [
        "card",
        "changed executing",
        "changed done",
        "outcome passes_now",
    ]


async def test_a_node_that_is_still_busy_is_waited_for(store: Redis) -> None:
    office = Office(store, site(busy={"n1"}))
    incident = await office.mention()
    await office.approve(incident, "drain_node")
    assert (await one_ladder(office, incident))["waiting_for"] == "idle"
    assert await office.pending(incident) == []
    assert (await office.turns.load_state(incident))["lifecycle"] == "waiting"
    office.site.slurm["n1"] = "drained"
    await office.settle(incident)
    assert [row.action.remedy for row in await office.pending(incident)] == ["gpu_reset"]


@pytest.mark.parametrize(("mended", "ends"), [(True, "withdrawn"), (False, "ticket")])
async def test_a_node_that_others_returned_is_waited_for_no_more(store: Redis, mended: bool, ends: str) -> None:
    office = Office(store, site(hung("n1"), fact("n1", "dmesg", "host.boot_id", "boot-of-n1-0"), busy={"n1"}))
    incident = await office.mention()
    await office.approve(incident, "drain_node")
    office.site.slurm["n1"] = "allocated"
    office.site.reasons.pop("n1")
    if mended:
        office.site.boots["n1"] = "boot-of-n1-1"
    await office.settle(incident)
    ladder = await one_ladder(office, incident)
    assert (ladder["outcome"], ladder.get("drained", False)) == (ends, False)
    assert ladder["says"].startswith("a person returned n1 to service, and the fault ")
    assert office.site.counts() == {"drain_node": 1}


async def test_a_stuck_job_is_cancelled_by_its_own_approval_when_the_node_stays_busy(store: Redis) -> None:
    holder = replace(fact("n1", "procs", "proc.gpu_memory", 40_000, "gpu3"), attrs={"pid": 7, "job": "4711"})
    idle_gpus = [fact("n1", "smi", "gpu.util", 0, device) for device in BDF]
    office = Office(store, site(hung("n1"), holder, *idle_gpus, busy={"n1"}, jobs={"4711": "RUNNING"}, job_hosts={"4711": ("n1",)}))
    incident = await office.mention("job 4711 hangs on n1, NCCL timeout")
    await office.approve(incident, "drain_node")
    assert await office.pending(incident) == []
    office.clock.go(minutes=11)
    await office.settle(incident)
    (cancel,) = await office.pending(incident)
    assert (cancel.action.remedy, cancel.action.args, cancel.terms.quorum) == ("cancel_job", {"job": "4711"}, 1)
    assert STALLED_JOB_CONDITION.says in {condition.says for condition in cancel.action.conditions}
    await office.approve(incident, "cancel_job")
    assert [row.action.remedy for row in await office.pending(incident)] == ["gpu_reset"]


@pytest.mark.parametrize("decided", [True, False])
async def test_a_job_that_ends_by_itself_needs_no_cancelling(store: Redis, decided: bool) -> None:
    holder = replace(fact("n1", "procs", "proc.gpu_memory", 40_000, "gpu3"), attrs={"pid": 7, "job": "4711"})
    office = Office(store, site(hung("n1"), holder, busy={"n1"}, jobs={"4711": "RUNNING"}))
    incident = await office.mention("job 4711 hangs on n1, NCCL timeout")
    await office.approve(incident, "drain_node")
    office.clock.go(minutes=11)
    await office.settle(incident)
    (cancel,) = await office.pending(incident)
    assert cancel.action.remedy == "cancel_job"
    office.site.jobs.clear()
    office.site.slurm["n1"] = "drained"
    if decided:
        for who in (ANN, BOB):
            await office.click(cancel, who)
    else:
        office.clock.go(minutes=16)
    await office.settle(incident)
    assert [row.action.remedy for row in await office.pending(incident)] == ["gpu_reset"]
    assert "cancel_job" not in office.site.counts()


async def test_what_does_not_help_is_followed_by_the_heavier_rung_and_then_by_people(store: Redis) -> None:
    office = Office(store, site())
    incident = await office.mention()
    await office.approve(incident, "drain_node")
    office.site.at = lambda point: office.site.sick(hung("n1", minutes=120)) if point == "look" else None
    reset = await office.approve(incident, "gpu_reset")
    assert reset.outcome == "unchanged"
    (reboot,) = await office.pending(incident)
    assert (reboot.action.remedy, reboot.terms.quorum) == ("reboot", 1)  # drained and without jobs
    assert SLURM_DRAINED.says in {condition.says for condition in reboot.action.conditions}
    await office.approve(incident, "reboot")
    ladder, state = await one_ladder(office, incident), await office.turns.load_state(incident)
    assert (ladder["outcome"], state["lifecycle"]) == ("ticket", "handed_off")
    assert "n1: drained by RackMedic since 2026-05-20 03:10 UTC, approved by ANN" in state["ticket"]["summary"]
    assert office.site.counts() == {"drain_node": 1, "gpu_reset": 1, "reboot": 1}  # and never resumed


async def test_a_relapse_begins_again_with_the_next_plan(store: Redis) -> None:
    office = Office(store, site())
    incident = await office.mention()
    for remedy in ("drain_node", "gpu_reset", "resume_node"):
        await office.approve(incident, remedy)
    office.site.sick(hung("n1", minutes=100))
    office.clock.go(hours=2, minutes=1)
    await office.settle(incident)
    assert [row.get("outcome", "") for row in await office.ladders(incident)] == ["recurred", ""]
    assert ("gpu_reset", "done", "recurred") in await remedies(office, incident)
    assert [row.action.remedy for row in await office.pending(incident)] == ["drain_node"]
    await office.approve(incident, "drain_node")
    assert [row.action.remedy for row in await office.pending(incident)] == ["reboot"]


async def test_a_second_proof_that_cannot_look_is_tried_later(store: Redis) -> None:
    office = Office(store, site(slow()))
    incident = await office.mention()
    await office.approve(incident, "reset_clocks")
    office.site.silent.add("n1")
    office.clock.go(hours=2, minutes=1)
    await office.settle(incident)
    assert (await one_ladder(office, incident))["waiting_for"] == "proof"
    office.site.silent.clear()
    await office.settle(incident)
    assert (await one_ladder(office, incident))["outcome"] == "cured"


async def test_a_recheck_does_not_find_the_old_lines_again(store: Redis) -> None:
    office = Office(store, site())
    incident = await office.mention()
    for remedy in ("drain_node", "gpu_reset", "resume_node"):
        await office.approve(incident, remedy)
    await office.say(incident, "recheck", text="look again")
    state = await office.turns.load_state(incident)
    assert state["report"]["outcome"] == "no_fault", state["report"]["headline"]
    assert len(state["ladders"]) == 1
    assert await office.pending(incident) == []


async def test_a_process_is_ended_only_as_the_one_that_was_seen(store: Redis) -> None:
    orphan = replace(fact("n1", "procs", "proc.orphan", 40_000, "gpu3"), attrs={"pid": 4242, "why": "its parent is gone"})
    office = Office(store, site(orphan, ticks={"4242": "777"}))
    incident = await office.mention()
    (row,) = await office.pending(incident)
    assert (row.action.args, row.terms.quorum) == ({"pid": "4242", "ticks": "777", "signal": "TERM"}, 2)
    await office.click(row, ANN)
    await office.settle(incident)
    assert office.site.effects == []
    await office.click(row, BOB)
    await office.settle(incident)
    assert office.site.effects == [("n1", "kill_gpu_process", ("4242", "777", "TERM"))]


async def test_a_process_that_is_gone_by_itself_needs_nothing(store: Redis) -> None:
    orphan = replace(fact("n1", "procs", "proc.orphan", 40_000, "gpu3"), attrs={"pid": 4242, "why": "its parent is gone"})
    office = Office(store, site(orphan))
    incident = await office.mention()
    assert await office.pending(incident) == []
    assert (await one_ladder(office, incident))["says"] == "process 4242 ended by itself"


@pytest.mark.parametrize(
    ("state", "whole", "reason"),
    [
        ("drained", "idle+drain", "ops: cooling"),
        ("inval", "idle+drain+invalid_reg", "gres/gpu count reported lower than configured (7 < 8)"),
    ],
)
async def test_a_host_that_others_or_slurm_itself_drained_is_mended_and_left_to_them(
    store: Redis, state: str, whole: str, reason: str
) -> None:
    office = Office(store, site(slurm={"n1": state}, whole={"n1": whole}, reasons={"n1": reason}))
    incident = await office.mention()
    assert [row.action.remedy for row in await office.pending(incident)] == ["gpu_reset"]
    await office.approve(incident, "gpu_reset")
    ladder = await one_ladder(office, incident)
    assert (ladder["waiting_for"], ladder.get("drained", False)) == ("proof", False)


async def test_a_host_that_does_not_answer_is_not_proposed_for(store: Redis) -> None:
    office = Office(store, site(slow()))
    incident = await office.mention()
    (row,) = await office.pending(incident)
    await office.click(row, ANN, "deny", "first look at it yourself")
    await office.settle(incident)
    office.site.silent.add("n1")
    with pytest.raises(CannotPropose, match="no route to host"):
        await office.decisions.propose_again(row.approval, row.digest, ANN)
    office.site.silent.clear()
    found = await office.decisions.propose_again(row.approval, row.digest, ANN)
    assert found.state is State.PENDING


# People


async def test_a_no_ends_the_ladder_and_says_who_and_why(store: Redis) -> None:
    office = Office(store, site())
    incident = await office.mention()
    (row,) = await office.pending(incident)
    await office.click(row, BOB, "deny", "the node is wanted at eight")
    await office.settle(incident)
    state = await office.turns.load_state(incident)
    assert state["report"]["reply"] == "Hung on n1: denied, the node is wanted at eight (BOB)"
    assert await office.pending(incident) == []
    assert office.site.effects == []


async def test_an_undecided_card_is_reminded_of_expires_and_comes_again_so_many_times(store: Redis) -> None:
    office = Office(store, site())
    incident = await office.mention()
    for turn in range(3):
        (row,) = await office.pending(incident)
        office.clock.at = get_reminder_time(row) + timedelta(seconds=1)
        await office.actions.run_action(row.approval)
        assert ("remind", row.approval) in office.wall.news
        office.clock.at = row.decide_by + timedelta(seconds=1)
        await office.actions.wake_due()
        await office.settle(incident)
        assert (await office.ledger.get_record(row.approval)).state is State.EXPIRED
        assert len(office.wall.cards) == min(turn + 2, 3)
    assert (await one_ladder(office, incident))["outcome"] == "undecided"
    assert await office.pending(incident) == []
    assert office.site.effects == []


async def test_an_action_without_eligible_approvers_cannot_be_decided(store: Redis) -> None:
    office = Office(store, site())
    incident = await office.mention()
    (row,) = await office.pending(incident)
    alone = replace(row, terms=replace(row.terms, approvers=frozenset({"T1:BOB"})))
    before = row.decide_by - timedelta(seconds=1)
    assert can_still_be_decided(row, before)
    assert can_still_be_decided(alone, before)
    assert not can_still_be_decided(alone, row.decide_by)
    assert not can_still_be_decided(replace(alone, terms=replace(alone.terms, approvers=frozenset())), before)
    assert not can_still_be_decided(replace(alone, action=replace(row.action, requested_by="T1:BOB")), before)
    assert not can_still_be_decided(replace(alone, terms=replace(alone.terms, quorum=2)), before)
    assert not can_still_be_decided(replace(row, state=State.EXPIRED), before)


async def test_asking_again_gives_one_fresh_card_however_often_it_is_pressed(store: Redis) -> None:
    office = Office(store, site(), waits=None)
    incident = await office.mention()
    (row,) = await office.pending(incident)
    for _ in range(3):
        office.clock.at = (await office.pending(incident))[0].decide_by + timedelta(seconds=1)
        await office.settle(incident)
    old = (await office.ledger.list_incident_records(incident))[-1]
    first = await office.decisions.propose_again(old.approval, old.digest, BOB)
    second = await office.decisions.propose_again(old.approval, old.digest, ANN)
    assert first.approval == second.approval != row.approval
    await office.settle(incident)
    assert [found.approval for found in await office.pending(incident)] == [first.approval]
    assert first.action.requested_by == ""
    done = await office.approve(incident, "drain_node", BOB)  # proposed by RackMedic, so the person who clicked may approve it
    assert done.state is State.DONE


async def test_only_people_of_the_group_who_are_people_vote_and_each_once(store: Redis) -> None:
    office = Office(store, site(hung("m1")))
    incident = await office.mention("slow on m1")
    (row,) = await office.pending(incident)
    assert row.terms.quorum == 2  # whether m1 is drained is unobserved
    with pytest.raises(NotAnApprover):
        await office.click(row, "T1:EVE")
    for stranger in ("T1:BOT", "T2:ANN", "T1:NOBODY"):
        with pytest.raises(NotAllowed):
            await office.click(row, stranger)
    await office.click(row, ANN)
    with pytest.raises(AlreadyVoted):
        await office.click(row, ANN)
    with pytest.raises(WrongDigest):
        await office.decisions.cast_vote(row.approval, "0" * 64, BOB, "approve", delivery="x")
    office.people.group.discard("CID")
    with pytest.raises(NotAnApprover):
        await office.click(row, CID)
    await office.decisions.cast_vote(row.approval, row.digest, BOB, "approve", delivery="same")
    with pytest.raises((NotOpen, ReplayedClick)):
        await office.decisions.cast_vote(row.approval, row.digest, BOB, "approve", delivery="same")
    await office.settle(incident)
    assert office.site.counts() == {"gpu_reset": 1}


async def test_an_edit_is_a_new_action_that_its_editor_cannot_approve(store: Redis) -> None:
    office = Office(store, site(slow()))
    incident = await office.mention()
    (row,) = await office.pending(incident)
    await office.decisions.edit_action(row.approval, row.digest, BOB, {"bdf": BDF["gpu5"]})
    await office.settle(incident)
    (new,) = await office.pending(incident)
    assert (new.action.args, new.action.devices, new.action.requested_by) == ({"bdf": BDF["gpu5"]}, ("n1/gpu5",), BOB)
    old = await office.ledger.get_record(row.approval)
    assert (old.state, old.replaced_by) == (State.SUPERSEDED, new.approval)
    assert (await one_ladder(office, incident))["approval"] == new.approval
    with pytest.raises(OwnRequest):
        await office.click(new, BOB)
    with pytest.raises(NotOpen):
        await office.click(row, ANN)
    await office.approve(incident, "reset_clocks", ANN)
    assert office.site.effects == [("n1", "reset_clocks", (BDF["gpu5"],))]


@pytest.mark.parametrize("args", [{"bdf": "0000:ff:00.0"}, {"bdf": BDF["gpu3"]}, {"bdf": "; reboot"}, {"node": "n2"}])
async def test_an_edit_reaches_no_other_host_or_device(store: Redis, args: dict[str, str]) -> None:
    office = Office(store, site(slow()))
    incident = await office.mention()
    (row,) = await office.pending(incident)
    with pytest.raises(BadArgument):
        await office.decisions.edit_action(row.approval, row.digest, BOB, args)
    assert [found.approval for found in await office.pending(incident)] == [row.approval]


async def test_what_is_revoked_does_not_run_and_the_ladder_stops(store: Redis) -> None:
    office = Office(store, site())
    incident = await office.mention()
    (row,) = await office.pending(incident)
    await office.ledger.vote(row.approval, row.digest, ANN, "approve", "click")
    await office.decisions.revoke_action(row.approval, row.digest, BOB, "wrong node")
    await office.settle(incident)
    assert office.site.effects == []
    assert (await one_ladder(office, incident))["outcome"] == "stopped"


@pytest.mark.parametrize("kind", ["hand_off", "close", "stop"])
async def test_when_a_human_takes_over_open_cards_are_withdrawn(store: Redis, kind: str) -> None:
    office = Office(store, site())
    incident = await office.mention()
    await office.approve(incident, "drain_node")
    (row,) = await office.pending(incident)
    await office.say(incident, kind)
    office.clock.go(minutes=3)
    await office.settle(incident)
    assert (await office.ledger.get_record(row.approval)).state is State.SUPERSEDED
    state = await office.turns.load_state(incident)
    (line,) = state["report"]["by_hand"]
    assert line.startswith("n1: drained by RackMedic since 2026-05-20 03:10 UTC, approved by ANN, for Hung; ")
    assert office.site.counts() == {"drain_node": 1}


# Doubt


async def in_doubt(office: Office) -> tuple[Office, str, ActionRecord]:
    """Return an action whose host became unreachable after a crash."""
    incident = await office.mention()
    (row,) = await office.pending(incident)
    office.site.at = Plan("start:after")
    await office.click(row)
    await die(office.actions.run_action(row.approval))
    later = again(office)
    later.site.silent.add("n1")
    await later.settle(incident)
    return later, incident, await later.ledger.get_record(row.approval)


async def test_doubt_locks_the_target_until_a_human_says_and_the_host_must_agree(store: Redis) -> None:
    office, incident, row = await in_doubt(Office(store, site(slow())))
    assert row.state is State.UNKNOWN
    assert (await one_ladder(office, incident))["outcome"] == "unknown"
    assert f"{row.approval} ended in doubt" not in (await office.turns.load_state(incident))["report"]["reply"]
    assert "stays locked" in (await office.turns.load_state(incident))["report"]["reply"]
    other = await office.mention("n1 is slow too", thread="2.0")
    assert await remedies(office, other) == []  # the host is unreachable
    office.site.silent.clear()
    with pytest.raises(NotAnApprover):
        await office.decisions.resolve_unknown_outcome(row.approval, row.digest, "T1:EVE", True, "looked")
    with pytest.raises(HostRecordContradiction, match="own record says that it ran"):
        await office.decisions.resolve_unknown_outcome(row.approval, row.digest, ANN, False, "looked")
    await office.decisions.resolve_unknown_outcome(row.approval, row.digest, ANN, True, "looked")
    await office.settle(incident)
    row = await office.ledger.get_record(row.approval)
    assert (row.state, row.outcome, len(office.site.effects)) == (State.DONE, "passes_now", 1)
    assert "the host says: done" in row.says
    assert (await one_ladder(office, incident))["waiting_for"] == "proof"


# Crashes, replicas


POINTS = ["claimed", "start:before", "start:after", "settle:after", "look"]


@pytest.mark.parametrize("point", POINTS)
async def test_a_crash_anywhere_ends_where_a_human_can_act_and_nothing_runs_twice(store: Redis, point: str) -> None:
    office = Office(store, site(slow()))
    incident = await office.mention()
    (row,) = await office.pending(incident)
    await office.click(row)
    office.site.at = Plan(point)
    await die(office.actions.run_action(row.approval))
    later = again(office)
    await later.settle(incident)
    assert len(later.site.effects) <= 1
    row = await later.ledger.get_record(row.approval)
    ladder = await one_ladder(later, incident)
    if row.state is State.DONE:
        assert (row.outcome, ladder["waiting_for"]) == ("passes_now", "proof")
    else:
        assert (row.state, len(later.site.effects)) == (State.FAILED, 0)
        (fresh,) = await later.pending(incident)
        assert (fresh.action.remedy, ladder["attempt"]) == ("reset_clocks", 2)


async def test_a_crash_between_proof_and_inbox_still_delivers_once(store: Redis) -> None:
    office = Office(store, site(slow()))
    incident = await office.mention()
    (row,) = await office.pending(incident)
    await office.click(row)
    await office.threads.resume_action(await office.ledger.get_record(row.approval))  # and then the process dies
    later = again(office)
    assert row.approval in await later.index.claim_due(timedelta(seconds=1))
    for _ in range(3):
        await later.actions.run_action(row.approval)
    assert [item.id for item in await later.inbox.list_waiting(incident)] == [f"action:{row.approval}:done"]
    await later.settle(incident)
    assert (await one_ladder(later, incident))["waiting_for"] == "proof"


async def test_a_crash_while_proposing_leaves_one_card(store: Redis) -> None:
    office = Office(store, site())

    class Dying(type(office.wall)):  # type: ignore[misc]  # the fake's class
        async def post_approval_card(self, record: ActionRecord, incident_state: Any) -> None:
            raise Killed

    office.wall.__class__ = Dying
    await die(office.mention())
    (incident,) = await office.inbox.list_open_incidents()
    later = again(office)
    later.wall.__class__ = Dying.__mro__[1]
    await later.settle(incident)
    assert len(later.wall.cards) == len(await later.pending(incident)) == 1


async def test_two_drivers_at_once_run_it_once(redis: Redis) -> None:
    office = Office(redis, site(slow()))
    incident = await office.mention()
    (row,) = await office.pending(incident)
    other = Office(redis, office.site, people=office.people, wall=office.wall, evidence=office.evidence, worker="w2")
    await office.ledger.vote(row.approval, row.digest, ANN, "approve", "click")
    await asyncio.gather(*(one.actions.run_action(row.approval) for one in (office, other) for _ in range(4)))
    await other.settle(incident)
    assert office.site.counts() == {"reset_clocks": 1}
    assert (await one_ladder(office, incident))["waiting_for"] == "proof"


async def test_two_drivers_without_their_lease_still_run_it_once(store: Redis) -> None:
    office = Office(store, site(slow()))
    incident = await office.mention()
    (row,) = await office.pending(incident)
    row = await office.ledger.vote(row.approval, row.digest, ANN, "approve", "click")
    other = Office(store, office.site, people=office.people, evidence=office.evidence, worker="w2")
    ended = await asyncio.gather(*(one.threads.resume_action(row) for one in (office, other)), return_exceptions=True)
    assert office.site.counts() == {"reset_clocks": 1}
    assert any(isinstance(one, dict) for one in ended)


async def test_two_tenders_propose_one_action(store: Redis) -> None:
    office = Office(store, site())
    other = Office(store, office.site, people=office.people, evidence=office.evidence, worker="w2")
    incident = await office.mention()
    await asyncio.gather(*(one.actions.reconcile_incident(incident) for one in (office, other) for _ in range(3)))
    assert len(await office.ledger.list_incident_records(incident)) == 1


async def test_slack_being_away_delays_cards_and_stops_nothing(store: Redis) -> None:
    office = Office(store, site(slow()))
    office.wall.away = True
    incident = await office.mention()
    (row,) = await office.pending(incident)
    assert office.wall.cards == []
    office.wall.away = False
    office.clock.go(minutes=1)
    assert row.approval in await office.index.claim_due(timedelta(seconds=1))
    await office.actions.run_action(row.approval)
    assert office.wall.cards == [row.approval]
    office.wall.away = True
    await office.approve(incident, "reset_clocks")
    assert (await one_ladder(office, incident))["waiting_for"] == "proof"
    office.wall.away = False
    await office.actions.run_action(row.approval)
    assert ("outcome passes_now", row.approval) in office.wall.news


async def test_an_approval_whose_wake_up_was_lost_is_found_by_the_sweep(store: Redis) -> None:
    office = Office(store, site(slow()))
    incident = await office.mention()
    (row,) = await office.pending(incident)
    await office.click(row)  # this fake wakes no worker
    wakeups = LocalWakeups()
    actions = ActionWorker(office.ledger, office.driver, office.tender, office.index, wakeups.wake)
    await wakeups.start(actions.handle_wakeup)
    await actions.wake_due()
    await wakeups.wait_until_idle()
    await office.settle(incident)
    assert office.site.counts() == {"reset_clocks": 1}
    await wakeups.aclose()


async def test_while_stopping_nothing_new_is_begun(store: Redis) -> None:
    office = Office(store, site(slow()))
    incident = await office.mention()
    (row,) = await office.pending(incident)
    await office.click(row)
    await office.actions.drain()
    await office.actions.handle_wakeup(row.approval)
    assert office.site.effects == []


# Brakes, versions, neighbours


async def test_the_kill_switch_holds_an_approved_action_and_says_so(store: Redis) -> None:
    office = Office(store, site(slow()))
    incident = await office.mention()
    await office.ledger.stop(ANN, "exercise")
    (row,) = await office.pending(incident)
    await office.click(row)
    await office.settle(incident)
    assert any(what.startswith("held The kill switch is on") for what, _ in office.wall.news)
    assert office.site.effects == []
    await office.ledger.resume(ANN)
    await office.settle(incident)
    assert office.site.counts() == {"reset_clocks": 1}


async def test_what_cannot_start_in_time_is_asked_again(store: Redis) -> None:
    office = Office(store, site(slow()))
    incident = await office.mention()
    await office.ledger.stop(ANN, "exercise")
    (row,) = await office.pending(incident)
    await office.click(row)
    office.clock.go(minutes=6)
    await office.settle(incident)
    (fresh,) = await office.pending(incident)
    assert (await office.ledger.get_record(row.approval)).says == "approved, but it could not start in time"
    assert fresh.approval != row.approval


async def test_a_changed_policy_proposes_the_same_rung_anew(store: Redis) -> None:
    office = Office(store, site(slow()))
    incident = await office.mention()
    (row,) = await office.pending(incident)
    later = again(office, fallback=("EVE",))  # the settings name one more approver
    await later.click(row)
    await later.settle(incident)
    assert (await later.ledger.get_record(row.approval)).state is State.SUPERSEDED
    (fresh,) = await later.pending(incident)
    assert "T1:EVE" in fresh.terms.approvers
    assert later.site.effects == []
    await later.approve(incident, "reset_clocks", "T1:EVE")
    assert later.site.counts() == {"reset_clocks": 1}


async def test_several_fixes_of_one_incident_go_their_own_ways(store: Redis) -> None:
    office = Office(store, site(slow("n1"), slow("n2"), down("m1")), brakes=Brakes(at_once=1.0, window=1.0))
    incident = await office.mention("slow on n1 n2 m1")
    rows = {(row.action.target, row.action.remedy): row for row in await office.pending(incident)}
    assert set(rows) == {("n1", "reset_clocks"), ("n2", "reset_clocks"), ("m1", "restart_fabricmanager")}
    await office.click(rows["n1", "reset_clocks"], ANN, "deny")
    await office.click(rows["n2", "reset_clocks"])
    await office.settle(incident)
    assert [(host, remedy) for host, remedy, _ in office.site.effects] == [("n2", "reset_clocks")]
    assert (await office.ledger.get_record(rows["m1", "restart_fabricmanager"].approval)).state is State.PENDING
    standing = {row["target"]: row.get("outcome", "") or row.get("waiting_for", "approval") for row in await office.ladders(incident)}
    assert standing["n1"] == "denied"
    assert standing["n2"] == "proof"


async def test_two_causes_on_one_host_share_one_drain_and_one_way_back(store: Redis) -> None:
    office = Office(store, site(hung("n1"), down("n1")))
    incident = await office.mention()
    await office.approve(incident, "drain_node")
    await office.approve(incident, "gpu_reset")
    assert [row.action.remedy for row in await office.pending(incident)] == ["restart_fabricmanager"]
    await office.approve(incident, "restart_fabricmanager")
    await office.approve(incident, "resume_node")
    assert office.site.counts() == {"drain_node": 1, "gpu_reset": 1, "restart_fabricmanager": 1, "resume_node": 1}


async def test_another_incidents_reboot_makes_our_reset_needless_without_running_both(store: Redis) -> None:
    office = Office(store, site(slurm={"n1": "drained"}, reasons={"n1": "rackmedic:apr-000000000000"}), alone=True)
    office.site.fails["gpu_reset"] = 1
    first = await office.mention()
    await office.approve(first, "gpu_reset")
    (reboot,) = await office.pending(first)
    assert reboot.action.remedy == "reboot"
    second = await office.mention("n1 hangs", thread="2.0")
    (reset,) = await office.pending(second)
    assert reset.action.remedy == "gpu_reset"
    await office.approve(first, "reboot")
    await office.settle(second)
    old = await office.ledger.get_record(reset.approval)
    assert (old.state, old.ended_by) == (State.SUPERSEDED, reboot.approval)
    assert office.site.counts() == {"gpu_reset": 1, "reboot": 1}
    assert (await one_ladder(office, second))["waiting_for"] in ("proof", "approval")
    assert [row.action.remedy for row in await office.pending(second)] == []


async def test_what_a_claim_made_needless_is_looked_at_at_once_so_that_its_card_loses_its_buttons(store: Redis) -> None:
    office = Office(store, site(slurm={"n1": "drained"}, reasons={"n1": "rackmedic:apr-000000000000"}), alone=True)
    office.site.fails["gpu_reset"] = 1
    first = await office.mention()
    await office.approve(first, "gpu_reset")
    (reset,) = await office.pending(await office.mention("n1 hangs", thread="2.0"))
    assert reset.approval not in await office.index.claim_due(timedelta(0))
    await office.approve(first, "reboot")
    assert reset.approval in await office.index.claim_due(timedelta(0))  # due now, not only when its time to decide ends


async def test_another_incident_on_the_same_host_waits_its_turn(store: Redis) -> None:
    office = Office(store, site(slow("n1")), alone=True)
    first = await office.mention()
    rows = {row.action.remedy: row for row in await office.pending(first)}
    office.site.sick(down("n1"))
    second = await office.mention("n1 again", thread="2.0")
    held = await office.ledger.vote(rows["reset_clocks"].approval, rows["reset_clocks"].digest, ANN, "approve", "one")
    await office.ledger.claim(
        held.approval,
        held.digest,
        "somebody",
        policy=office.rights.get_policy_hash(),
        catalogue=office.acting.catalogue,
        authorised=frozenset({ANN}),
    )
    (theirs,) = [row for row in await office.pending(second) if row.action.remedy == "restart_fabricmanager"]
    await office.click(theirs)
    await office.actions.run_action(theirs.approval)
    assert (await office.ledger.get_record(theirs.approval)).state is State.APPROVED
    assert any("Another action holds this target" in what for what, _ in office.wall.news)


LINK_SIGNS = (fact("n1", "nvlink", "nvlink.replay_errors", 9, "gpu0"), fact("n1", "nvlink", "nvlink.inactive", 1, "gpu0"))


@pytest.mark.parametrize("signs", [LINK_SIGNS, ()], ids=["passive signs", "no sign but what people say"])
async def test_an_exclusive_check_on_busy_gpus_is_asked_for_and_its_answer_diagnoses(store: Redis, signs: tuple[Fact, ...]) -> None:
    busy = Fact("nccl1", "check.skipped", "busy", host="n1", line="nccl1 was not run on n1: 8 of its GPUs are in use")
    office = Office(store, site(*signs, busy), taxonomy=WITH_LINKS)
    incident = await office.mention()
    (row,) = await office.pending(incident)
    assert (row.action.remedy, row.action.args, row.terms.quorum, row.terms.changes) == ("run_check", {"check": "nccl1"}, 1, False)
    assert "run_check" in {planned["remedy"] for planned in (await office.turns.load_state(incident))["report"]["actions"]}
    office.site.facts = [seen for seen in office.site.facts if seen.key != "check.skipped"]
    office.site.facts.append(fact("n1", "nccl1", "nccl.busbw_max", 90.0))
    done = await office.approve(incident, "run_check")
    state = await office.turns.load_state(incident)
    assert (done.state, state["report"]["outcome"]) == (State.DONE, "diagnosed")
    assert [cause["label"] for cause in state["report"]["root_causes"]] == [SLOW_LINK]
    assert [row["outcome"] for row in state["ladders"]] == ["looked"]
    assert office.site.effects == []


async def test_after_an_upgrade_of_the_graph_open_cards_are_withdrawn_and_planned_anew(store: Redis) -> None:
    office = Office(store, site())
    incident = await office.mention()
    (row,) = await office.pending(incident)
    graph: Any = office.turns._graph
    await graph.aupdate_state({"configurable": {"thread_id": incident}}, {"version": 0}, as_node="conclude")
    office.clock.go(minutes=3)
    await office.say(incident, "recheck", text="n1 again")
    assert (await office.ledger.get_record(row.approval)).state is State.SUPERSEDED
    (fresh,) = await office.pending(incident)
    assert fresh.action.remedy == "drain_node"
    assert [found.get("outcome", "") for found in await office.ladders(incident)] == ["withdrawn", ""]


# Terms and tables


def planned(remedy: str, risk: Any, *conditions: Condition) -> Action:
    return action(remedy=remedy, risk=risk, args={}, target="n1", via="n1", conditions=conditions)


@pytest.mark.parametrize(
    ("remedy", "risk", "conditions", "drained", "stalled", "wanted"),
    [
        ("reset_clocks", "intrusive", (), False, False, 1),
        ("drain_node", "disruptive", (), False, False, 1),
        ("gpu_reset", "disruptive", (SLURM_DRAINED,), False, False, 1),
        ("gpu_reset", "disruptive", (), False, False, 2),
        ("reboot", "destructive", (SLURM_DRAINED,), False, False, 2),
        ("reboot", "destructive", (SLURM_DRAINED,), True, False, 1),
        ("reboot", "destructive", (), True, False, 2),
        ("cancel_job", "destructive", (), False, True, 2),
        ("cancel_job", "destructive", (STALLED_JOB_CONDITION,), False, True, 1),
        ("reboot", "destructive", (STALLED_JOB_CONDITION,), False, True, 2),
        ("reboot", "destructive", (replace(SLURM_DRAINED, says="in other words"),), True, False, 1),
        ("reboot", "destructive", (replace(SLURM_DRAINED, id="another"),), True, False, 2),
    ],
)
def test_the_quorum_follows_risk_and_state_and_relaxes_only_with_its_condition(
    remedy: str, risk: str, conditions: tuple[Condition, ...], drained: bool, stalled: bool, wanted: int
) -> None:
    assert get_quorum(planned(remedy, risk, *conditions), drained=drained, job_stalled=stalled) == wanted


def test_terms_freeze_who_when_and_what_becomes_needless() -> None:
    made = build_terms(planned("reboot", "destructive"), "g", 4, drained=False, job_stalled=False, approvers=frozenset({ANN}))
    assert (made.approvers, made.quorum, made.group_size, made.changes) == (frozenset({ANN}), 2, 4, True)
    assert "gpu_reset" in made.covers
    assert not build_terms(planned("run_check", "intrusive"), "g", 0, drained=False, job_stalled=False, approvers=frozenset()).changes


def test_the_policys_hash_follows_what_decides_and_nothing_else() -> None:
    row = ChannelRow(channel="C1", approvers="S1", name="gpu-incidents")
    assert compute_policy_hash([row], []) == compute_policy_hash([row.model_copy(update={"name": "renamed"})], [])
    assert compute_policy_hash([row], []) != compute_policy_hash([row.model_copy(update={"approvers": "S2"})], [])
    assert compute_policy_hash([row], []) != compute_policy_hash([row.model_copy(update={"tenant": "acme"})], [])
    assert compute_policy_hash([row], []) != compute_policy_hash([row], ["U1"])


async def test_without_a_group_there_are_no_approvers(store: Redis) -> None:
    rows = inventory(channels=[{"channel": "C0OPS", "kind": "operators", "groups": ["g"]}])
    office = Office(store, site(), rows=rows)
    incident = await office.mention()
    (row,) = await office.pending(incident)
    assert row.terms.approvers == frozenset()
    with pytest.raises(NotAnApprover):
        await office.click(row, ANN)


def util(host: str, value: object, device: str = "gpu0", minutes: int = 12) -> Fact:
    return replace(fact(host, "smi", "gpu.util", value, device), time=T0 - timedelta(minutes=minutes))  # type: ignore[arg-type]  # any value


@pytest.mark.parametrize(
    ("facts", "hosts", "stalled"),
    [
        ([util("n1", 0), util("n1", 0, "gpu1")], ("n1",), True),
        ([util("n1", 0), util("n1", 97, "gpu1")], ("n1",), False),
        ([util("n1", 0), util("n2", 0)], ("n1", "n2"), True),
        ([util("n1", 0), util("n2", 60)], ("n1", "n2"), False),
        ([util("n1", 0)], ("n1", "n2"), False),
        ([util("n1", 0)], (), False),
        ([util("n1", 0, minutes=45)], ("n1",), False),
        ([util("n1", None)], ("n1",), False),
        ([replace(util("n1", 0), stale=True)], ("n1",), False),
        ([fact("n1", "joblog", "job.error", "nccl_timeout")], ("n1",), False),
        ([fact("n1", "joblog", "job.error", "nccl_timeout"), util("n1", 97)], ("n1",), False),
        ([], ("n1",), False),
    ],
)
def test_a_job_is_stalled_when_all_its_gpus_are_idle_despite_its_log(facts: list[Fact], hosts: tuple[str, ...], stalled: bool) -> None:
    assert is_job_stalled(facts, hosts, T0) is stalled


async def test_the_log_of_a_tenant_halves_no_quorum(store: Redis) -> None:
    """A job's owner and its log are not measurements."""
    holder = replace(fact("n1", "procs", "proc.gpu_memory", 40_000, "gpu3"), attrs={"pid": 7, "job": "4711"})
    said = fact("n1", "joblog", "job.error", "nccl_timeout")
    working = [fact("n1", "smi", "gpu.util", 97, device) for device in BDF]
    office = Office(store, site(hung("n1"), holder, said, *working, busy={"n1"}, jobs={"4711": "RUNNING"}, job_hosts={"4711": ("n1",)}))
    incident = await office.mention("job 4711 hangs on n1, NCCL timeout")
    await office.approve(incident, "drain_node")
    office.clock.go(minutes=11)
    await office.settle(incident)
    (cancel,) = await office.pending(incident)
    assert (cancel.action.remedy, cancel.terms.quorum) == ("cancel_job", 2)
    assert STALLED_JOB_CONDITION.says not in {condition.says for condition in cancel.action.conditions}


def test_an_edit_keeps_to_what_the_host_shows() -> None:
    shown = replace(fact("n1", "procs", "proc.gpu_memory", 1, "gpu0"), attrs={"pid": 9, "job": "17"})
    cancel = replace(planned("cancel_job", "destructive"), args={"job": "4711"})
    assert build_edited_step(cancel, {"job": "17"}, [shown]).args == {"job": "17"}
    with pytest.raises(BadArgument, match="shows no such job"):
        build_edited_step(cancel, {"job": "18"}, [shown])
    with pytest.raises(BadArgument, match="nothing was changed"):
        build_edited_step(cancel, {}, [shown])


async def test_a_check_scheduled_during_a_reconciliation_is_not_lost(redis: Redis) -> None:
    clock = SetClock()
    index = ActionIndex(redis, clock)
    mark = await index.begin_check("apr-1", timedelta(seconds=60))
    await index.schedule_check("apr-1")  # a vote, say
    await index.finish_check("apr-1", mark, clock.now() + timedelta(hours=1))
    assert await index.claim_due(timedelta(seconds=30)) == ["apr-1"]
    assert await index.claim_due(timedelta(seconds=30)) == []
    clock.go(seconds=31)
    assert await index.claim_due(timedelta(seconds=30)) == ["apr-1"]
    mark = await index.begin_check("apr-1", timedelta(seconds=60))
    await index.finish_check("apr-1", mark, None)
    clock.go(hours=2)
    assert await index.claim_due(timedelta(seconds=30)) == []


async def test_a_host_that_dies_under_an_action_is_said_to_be_out_of_contact_and_the_action_stays_in_doubt(store: Redis) -> None:
    office = Office(store, site(slow()))
    incident = await office.mention("n1 is slow")
    office.site.at = lambda point: office.site.silent.add("n1") if point == "start:after" else None
    await office.approve(incident, "reset_clocks")
    news = [what for what, _ in office.wall.news]
    lost = [what for what in news if what.startswith("contact")]
    assert len(lost) == 1
    assert lost[0].startswith("contact Lost contact with n1 at ")
    assert news.index(lost[0]) < news.index("changed unknown")
    assert (await one_ladder(office, incident))["outcome"] == "unknown"
    assert len(office.site.effects) == 1
