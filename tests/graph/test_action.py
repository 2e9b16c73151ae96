"""The action graph with a real ledger: one decision, one run, one proof, wherever the process dies."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from fakeredis import FakeAsyncRedis
from redis.asyncio import Redis

from graph.execution.action_effects import ActionDeferred, StillRunning
from graph.execution.action_graph import ActionThreads, build_action_graph
from graph.execution.verification import get_scheduler_proof, judge_outcome
from tests.support.clock import T0
from tests.support.dying_saver import DyingSaver
from tests.support.fakes_actions import ANN, BDF, BOB, CHECKS, HUNG, SLOW, TAXONOMY, Office, Plan, Site, die, hung, well
from tests.support.fakes_graph import fact, lens
from tests.support.fakes_ledger import action
from tools.action import Action
from tools.execution.build import ActionRequest, build_check_action
from tools.execution.conditions import is_condition_met
from tools.fact import Fact, Status, build_unobserved_fact
from tools.ledger.record import ActionRecord
from tools.ledger.states import State

pytestmark = pytest.mark.slow


HOSTS = ("n1", "n2", "m1", "ctl")


@pytest.fixture
async def store() -> AsyncIterator[Redis]:
    async with FakeAsyncRedis() as redis:
        yield redis


def site(*sick: Fact) -> Site:
    made = Site(facts=well(*HOSTS))
    made.sick(*(sick or (hung("m1"),)))
    return made


async def waiting(office: Office, text: str = "job 4711 is slow on m1") -> ActionRecord:
    """Return the first action of an incident at its interrupt."""
    incident = await office.mention(text)
    (row,) = await office.pending(incident)
    return row


async def approved(office: Office) -> ActionRecord:
    """Approve with two people, because no scheduler can say whether m1 is drained."""
    row = await waiting(office)
    await office.ledger.vote(row.approval, row.digest, BOB, "approve", f"click-{row.approval}-bob")
    return await office.ledger.vote(row.approval, row.digest, ANN, "approve", f"click-{row.approval}-ann")


def next_process(office: Office, worker: str = "w2") -> Office:
    """Return another process on the same Redis, evidence and world, a minute later."""
    office.clock.go(seconds=60)
    return Office(
        office.redis, office.site, people=office.people, wall=office.wall, evidence=office.evidence, rows=office.inventory, worker=worker
    )


async def progress(office: Office, approval: str) -> Any:
    graph = build_action_graph(office.threads._saver)
    return await graph.aget_state({"configurable": {"thread_id": f"action:{approval}"}})


# Without faults


async def test_a_thread_waits_at_its_interrupt_and_runs_nothing(store: Redis) -> None:
    office = Office(store, site())
    row = await waiting(office)
    assert (await progress(office, row.approval)).next == ("ask",)
    assert office.site.effects == []
    await office.threads.ensure_waiting(row)
    assert len((await progress(office, row.approval)).interrupts) == 1


async def test_an_approved_action_runs_once_and_is_proved(store: Redis) -> None:
    office = Office(store, site())
    row = await approved(office)
    notes = await office.threads.resume_action(row)
    seen = await office.ledger.get_record(row.approval)
    assert (seen.state, seen.outcome, office.site.counts()) == (State.DONE, "passes_now", {"gpu_reset": 1})
    assert notes["says"] == "Hung no longer shows on m1/gpu3"
    assert "m1" in office.fleet.forgotten
    assert (await office.threads.resume_action(seen))["state"] == "done"
    assert office.site.counts() == {"gpu_reset": 1}


async def test_an_unapproved_action_that_is_pushed_on_does_nothing(store: Redis) -> None:
    office = Office(store, site())
    row = await waiting(office)
    await office.threads.resume_action(row)
    assert office.site.effects == []
    assert (await office.ledger.get_record(row.approval)).state is State.PENDING


async def test_what_does_not_help_is_unchanged_and_new_lines_of_the_kernel_say_so(store: Redis) -> None:
    office = Office(store, site())
    row = await approved(office)
    office.site.at = lambda point: office.site.sick(hung("m1", minutes=30)) if point == "look" else None
    await office.threads.resume_action(row)
    assert (await office.ledger.get_record(row.approval)).outcome == "unchanged"


async def test_a_host_that_does_not_answer_afterwards_is_worse(store: Redis) -> None:
    office = Office(store, site())
    row = await approved(office)
    office.site.at = lambda point: office.site.silent.add("m1") if point == "look" else None
    await office.threads.resume_action(row)
    assert (await office.ledger.get_record(row.approval)).outcome == "worse"


async def test_a_command_that_fails_is_proved_too_and_stays_failed(store: Redis) -> None:
    office = Office(store, site())
    office.site.fails["gpu_reset"] = 7
    row = await approved(office)
    notes = await office.threads.resume_action(row)
    seen = await office.ledger.get_record(row.approval)
    assert (seen.state, seen.exit_status, notes["ran"]) == (State.FAILED, 7, True)
    assert seen.outcome == "passes_now"  # the old lines predate the action; the remediation follows the state


async def test_a_start_that_the_kit_refuses_never_ran_and_is_not_proved(store: Redis) -> None:
    office = Office(store, site())
    office.site.refuses["gpu_reset"] = "no process uses this GPU: found '4711'"
    row = await approved(office)
    notes = await office.threads.resume_action(row)
    seen = await office.ledger.get_record(row.approval)
    assert (seen.state, seen.outcome, notes["ran"]) == (State.FAILED, "", False)
    assert office.site.effects == []


# What changed since the approval


async def test_another_host_key_supersedes_and_runs_nothing(store: Redis) -> None:
    office = Office(store, site())
    row = await approved(office)
    office.site.keys["m1"] = "SHA256:somebody-else"
    notes = await office.threads.resume_action(row)
    assert (notes["state"], notes["why"]) == ("superseded", "host_key")
    assert office.site.effects == []


async def test_a_reboot_in_between_supersedes(store: Redis) -> None:
    office = Office(store, site())
    row = await approved(office)
    office.site.boots["m1"] = "another-boot"
    notes = await office.threads.resume_action(row)
    assert (notes["state"], notes["why"], office.site.effects) == ("superseded", "rebooted", [])


async def test_a_node_that_is_no_longer_drained_supersedes_the_reset(store: Redis) -> None:
    office = Office(store, site(hung("n1")))
    incident = await office.mention()
    await office.approve(incident, "drain_node")
    (row,) = await office.pending(incident)
    row = await office.ledger.vote(row.approval, row.digest, ANN, "approve", "click")
    office.site.slurm["n1"] = "allocated"
    notes = await office.threads.resume_action(row)
    assert (notes["state"], notes["why"]) == ("superseded", "conditions")
    assert office.site.counts() == {"drain_node": 1}


async def test_a_controller_that_cannot_be_asked_only_delays(store: Redis) -> None:
    office = Office(store, site(hung("n1")))
    incident = await office.mention()
    (row,) = await office.pending(incident)
    row = await office.ledger.vote(row.approval, row.digest, ANN, "approve", "click")
    office.site.silent.add("ctl")
    with pytest.raises(ActionDeferred, match="ctl cannot be asked"):
        await office.threads.resume_action(row)
    assert (await office.ledger.get_record(row.approval)).state is State.APPROVED
    office.site.silent.clear()
    await office.threads.resume_action(row)
    assert office.site.counts() == {"drain_node": 1}


async def test_the_kill_switch_delays_and_another_policy_or_catalogue_supersedes(store: Redis) -> None:
    office = Office(store, site())
    row = await approved(office)
    await office.ledger.stop(ANN, "exercise")
    asked = len(office.people.forgotten)
    with pytest.raises(ActionDeferred, match="kill switch"):
        await office.threads.resume_action(row)
    assert len(office.people.forgotten) == asked  # a brake defers it before approvers are read from Slack
    await office.ledger.resume(ANN)
    other = Office(store, office.site, people=office.people, evidence=office.evidence, policy="another policy")
    notes = await other.threads.resume_action(row)
    assert (notes["state"], notes["why"]) == ("superseded", "versions")
    assert office.site.effects == []


async def test_an_approver_who_left_the_group_does_not_count_any_more(store: Redis) -> None:
    office = Office(store, site())
    row = await approved(office)
    office.people.group.discard("ANN")
    notes = await office.threads.resume_action(row)
    assert (notes["state"], notes["why"]) == ("superseded", "approvers")
    assert office.site.effects == []


# Crashes


CRASHES = [
    ("claimed", 0, State.FAILED),  # between claim and start: it never began and never can
    ("start:before", 0, State.FAILED),  # the same, later
    ("start:after", 1, State.DONE),  # between start and settle
    ("settle:after", 1, State.DONE),  # between settle and finish
    ("look", 1, State.DONE),  # between finish and proof
]


@pytest.mark.parametrize(("point", "effects", "ends"), CRASHES)
async def test_wherever_a_process_dies_nothing_runs_twice(store: Redis, point: str, effects: int, ends: State) -> None:
    office = Office(store, site())
    row = await approved(office)
    office.site.at = Plan(point)
    await die(office.threads.resume_action(row))
    later = next_process(office)
    for _ in range(3):
        row = await later.ledger.get_record(row.approval)
        await later.threads.resume_action(row)
    row = await later.ledger.get_record(row.approval)
    assert (row.state, len(later.site.effects)) == (ends, effects)
    assert row.outcome == ("passes_now" if ends is State.DONE else "")
    assert (await progress(later, row.approval)).next == ()
    assert await later.ledger.get_brake_status() == replace(await later.ledger.get_brake_status(), executing=(), unknown=())


@pytest.mark.parametrize("after", range(3))
async def test_death_between_what_a_step_wrote_and_its_checkpoint_leaves_no_action_unproved(store: Redis, after: int) -> None:
    office = Office(store, site())
    row = await approved(office)
    await die(ActionThreads(DyingSaver(store, after), office.acting).resume_action(row))
    later = next_process(office)
    row = await later.ledger.get_record(row.approval)
    await later.threads.resume_action(row)
    row = await later.ledger.get_record(row.approval)
    assert (row.state, row.outcome, len(later.site.effects)) == (State.DONE, "passes_now", 1)
    assert not (await progress(later, row.approval)).tasks


async def test_while_the_lease_holder_lives_no_other_process_continues(store: Redis) -> None:
    office = Office(store, site())
    row = await approved(office)
    office.site.at = Plan("start:after")
    await die(office.threads.resume_action(row))
    other = Office(store, office.site, evidence=office.evidence, worker="w2")
    with pytest.raises(StillRunning):
        await other.threads.resume_action(await other.ledger.get_record(row.approval))
    assert len(office.site.effects) == 1


async def test_a_host_that_is_away_after_a_crash_leaves_it_in_doubt_and_locked_until_a_human_says(store: Redis) -> None:
    office = Office(store, site())
    row = await approved(office)
    office.site.at = Plan("start:after")
    await die(office.threads.resume_action(row))
    later = next_process(office)
    later.site.silent.add("m1")
    await later.threads.resume_action(await later.ledger.get_record(row.approval))
    row = await later.ledger.get_record(row.approval)
    assert (row.state, row.outcome) == (State.UNKNOWN, "")
    assert (await later.ledger.get_brake_status()).unknown == (row.approval,)
    later.site.silent.clear()
    row = await later.ledger.reconcile(row.approval, ANN, True, "the reset is in the BMC's log")
    await later.threads.resume_action(row)
    row = await later.ledger.get_record(row.approval)
    assert (row.state, row.outcome, len(later.site.effects)) == (State.DONE, "passes_now", 1)


async def test_what_a_human_says_did_not_run_is_not_proved(store: Redis) -> None:
    office = Office(store, site())
    row = await approved(office)
    office.site.at = Plan("claimed")
    await die(office.threads.resume_action(row))
    later = next_process(office)
    later.site.silent.add("m1")
    await later.threads.resume_action(await later.ledger.get_record(row.approval))
    row = await later.ledger.reconcile(row.approval, ANN, False, "nothing in the log")
    assert (await later.threads.resume_action(row))["ran"] is False
    assert (await later.ledger.get_record(row.approval)).outcome == ""


async def test_a_thread_that_expired_is_begun_anew_and_finds_out_what_happened(store: Redis) -> None:
    office = Office(store, site())
    row = await approved(office)
    await office.threads.resume_action(row)
    await office.threads._saver.adelete_thread(f"action:{row.approval}")
    await office.threads.resume_action(await office.ledger.get_record(row.approval))
    assert office.site.counts() == {"gpu_reset": 1}


async def test_a_finished_thread_is_kept_small_and_for_a_while(store: Redis) -> None:
    office = Office(store, site())
    row = await approved(office)
    await office.threads.resume_action(row)
    await office.threads.prune_thread(row.approval, timedelta(days=30))
    keys = [key async for key in store.scan_iter(match=f"*action:{row.approval}*")]
    assert keys
    assert all([0 < await store.ttl(key) <= 30 * 86400 for key in keys])


async def test_an_exclusive_check_runs_under_its_claim_and_returns_facts(store: Redis) -> None:
    office = Office(store, site())
    incident = await office.mention("job 4711 is slow on m1")
    office.site.facts += [fact("m1", "nccl1", "nccl.busbw_max", 380.0)]
    wanted = ActionRequest("run_check", {"check": "nccl1"}, incident)
    action = build_check_action(wanted, ["m1", "m2"], policy=office.rights.get_policy_hash(), catalogue=office.acting.catalogue)
    terms = replace((await office.pending(incident))[0].terms, quorum=1, changes=False)
    row = await office.ledger.propose(action, terms)
    row = await office.ledger.vote(row.approval, row.digest, ANN, "approve", "click")
    notes = await office.threads.resume_action(row)
    facts = await office.evidence.get_facts(notes["facts"])
    assert [(row.key, row.value) for row in facts if row.check == "nccl1"] == [("nccl.busbw_max", 380.0)]
    assert office.site.effects == []
    assert (await office.ledger.get_record(row.approval)).state is State.DONE


# The verdict


def reset(label: str = HUNG, *devices: str, **more: Any) -> Action:
    row = {"args": {"bdf": BDF["gpu3"]}, "target": "n1", "via": "n1", "proves": label, "devices": devices or ("n1/gpu3",)}
    return action(**row | more)


BEFORE = [*well("n1"), hung("n1")]


def verdict(after: list[Fact], before: list[Fact] | None = None, label: str = HUNG) -> tuple[str, bool]:
    looked = [row if row.key.startswith("kernel.") else replace(row, time=T0 + timedelta(minutes=2)) for row in after]
    proof = judge_outcome(reset(label), before or BEFORE, looked, replace(lens(TAXONOMY), checks=CHECKS), T0)
    return proof.outcome, proof.looked


def test_old_lines_do_not_fail_a_proof_and_new_ones_do() -> None:
    assert verdict([*well("n1"), hung("n1")]) == ("passes_now", True)
    assert verdict([*well("n1"), hung("n1", minutes=1)]) == ("unchanged", True)


def test_another_gpus_trouble_of_the_same_kind_is_not_this_ones() -> None:
    assert verdict([*well("n1"), hung("n1", "gpu5", minutes=1)]) == ("passes_now", True)


def test_what_could_not_be_looked_at_is_no_pass() -> None:
    dark = [row for row in well("n1") if row.check != "dmesg"]
    assert verdict([*dark, build_unobserved_fact("dmesg", Status.TIMEOUT, "no answer", "n1")]) == ("unchanged", False)
    assert verdict(
        [
            build_unobserved_fact("dmesg", Status.UNREACHABLE, "no route", "n1"),
            build_unobserved_fact("smi", Status.UNREACHABLE, "no route", "n1"),
        ]
    ) == (
        "worse",
        False,
    )


def test_fewer_gpus_or_a_new_fault_is_worse() -> None:
    fewer = [row if row.key != "gpu.count" else replace(row, value=7) for row in well("n1")]
    assert verdict(fewer) == ("worse", True)
    assert verdict([*well("n1"), fact("n1", "smi", "gpu.throttle.applications_clocks", True, "gpu3")]) == ("worse", True)
    known = [*BEFORE, fact("n1", "smi", "gpu.throttle.applications_clocks", True, "gpu3")]
    still = [*well("n1"), fact("n1", "smi", "gpu.throttle.applications_clocks", True, "gpu3")]
    assert verdict(still, known) == ("passes_now", True)
    assert verdict(still, known, SLOW) == ("unchanged", True)


@pytest.mark.parametrize(
    ("remedy", "printed", "good"),
    [
        ("drain_node", "draining", True),
        ("drain_node", "drained*\ndrained*", True),
        ("drain_node", "allocated", False),
        ("resume_node", "idle", True),
        ("resume_node", "idle\ndrained", False),
        ("cancel_job", "", True),
        ("cancel_job", "RUNNING", False),
    ],
)
def test_the_scheduler_itself_proves_what_it_was_told(remedy: str, printed: str, good: bool) -> None:
    asked = get_scheduler_proof(reset(remedy=remedy, args={"node": "n1", "job": "4711"}))
    assert asked is not None
    assert "{" not in " ".join(asked.argv)
    assert is_condition_met(asked, printed) is good
