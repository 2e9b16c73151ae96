"""The fault is a precondition of its remedy: no approved action runs on a fault that is gone."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from fakeredis import FakeAsyncRedis
from redis.asyncio import Redis

from bot.remediation.approval_decisions import CannotPropose
from graph.execution.action_effects import ActionDeferred, ApprovalOutdated, claim_action
from graph.incident_view import parse_remediations, serialize_remediations
from graph.remediation.fault_condition import FAULT_INDEPENDENT_REMEDIES, MIN_CLEAN_READS, get_step_precondition
from graph.report import Report
from graph.state import InboxItem, Remediation, RemediationStep
from tests.support.clock import T0
from tests.support.fakes_actions import ANN, BDF, BOB, HUNG, SLOW, Office, Site, hung, well
from tests.support.fakes_graph import fact
from tests.support.fakes_ledger import action
from tools.action import Action, FaultCondition
from tools.fact import Fact, Status, build_unobserved_fact
from tools.ledger.record import ActionRecord, ApprovalTerms
from tools.ledger.states import State
from tools.remedies import REMEDIES

pytestmark = pytest.mark.slow


HOSTS = ("n1", "n2", "m1", "m2", "ctl")
LOW = "gpu.throttle.applications_clocks"


@pytest.fixture
async def store() -> AsyncIterator[Redis]:
    async with FakeAsyncRedis() as redis:
        yield redis


def slow(value: bool = True, host: str = "m1") -> Fact:
    return fact(host, "smi", LOW, value, "gpu3")


def boot(host: str = "m1", number: int = 0) -> Fact:
    return fact(host, "dmesg", "host.boot_id", f"boot-of-{host}-{number}")


def site(*sick: Fact) -> Site:
    made = Site(facts=[*well(*HOSTS), *(boot(host) for host in HOSTS)])
    made.sick(*sick)
    return made


async def approved(office: Office, text: str = "job 4711 is slow on m1") -> ActionRecord:
    incident = await office.mention(text)
    (row,) = await office.pending(incident)
    for who in (ANN, BOB)[: row.terms.quorum]:
        row = await office.ledger.vote(row.approval, row.digest, who, "approve", f"click-{who}")
    return row


async def ladder_of(office: Office, row: ActionRecord) -> dict[str, Any]:
    (ladder,) = await office.ladders(row.action.incident)
    return ladder


# The fault in the action


async def test_what_decided_is_part_of_the_action_and_of_its_digest(store: Redis) -> None:
    office = Office(store, site(slow()))
    found = (await approved(office)).action
    assert found.fault is not None
    assert (found.fault.keys, found.fault.devices, found.fault.checks) == ((LOW,), ("m1/gpu3",), ("smi",))
    assert (found.fault.lasts, found.fault.reads, found.fault.boot_id) == ("read", MIN_CLEAN_READS, "")
    other = replace(found, fault=replace(found.fault, keys=("gpu.count",)))
    assert other.digest != found.digest
    assert Action.from_canonical_json(found.to_canonical_json()) == found


def test_an_action_without_a_fault_is_read_back_as_it_was_signed() -> None:
    plain = action()
    assert plain.fault is None
    assert Action.from_canonical_json(plain.to_canonical_json()) == plain


async def test_a_line_of_the_kernel_stands_for_its_boot(store: Redis) -> None:
    office = Office(store, site(hung("m1")))
    found = (await approved(office)).action.fault
    assert found is not None
    assert (found.lasts, found.keys, found.boot_id) == ("boot", ("kernel.xid",), "boot-of-m1-0")


# Repaired by hand between card and start


async def test_a_fault_repaired_by_hand_is_not_reset_and_not_counted_as_a_cure(store: Redis) -> None:
    office = Office(store, site(slow()))
    row = await approved(office)
    office.site.sick(slow(False))
    await office.settle(row.action.incident)
    row = await office.ledger.get_record(row.approval)
    assert (row.state, row.outcome, office.site.effects) == (State.SUPERSEDED, "", [])
    assert "m1/gpu3" in row.says
    ladder = await ladder_of(office, row)
    assert (ladder["outcome"], ladder["says"]) == ("withdrawn", row.says)


async def test_a_healed_node_is_not_drained_from_an_old_card(store: Redis) -> None:
    office = Office(store, site(fact("n1", "sysd", "service.state", "failed", "nvidia-fabricmanager")))
    row = await approved(office, "job 4711 is slow on n1")
    assert row.action.remedy == "drain_node"
    office.clock.go(seconds=120)
    office.site.sick(fact("n1", "sysd", "service.state", "active", "nvidia-fabricmanager"))
    await office.settle(row.action.incident)
    assert (office.site.effects, office.site.slurm) == ([], {})
    assert (await office.ledger.get_record(row.approval)).state is State.SUPERSEDED


async def test_what_cannot_be_looked_at_is_not_started_now_and_started_when_it_can(store: Redis) -> None:
    office = Office(store, site(slow()))
    row = await approved(office)
    there = office.site.facts
    office.site.facts = [one for one in there if (one.host, one.check) != ("m1", "smi")]
    office.site.facts.append(build_unobserved_fact("smi", Status.TIMEOUT, "nvidia-smi does not answer", "m1"))
    with pytest.raises(ActionDeferred, match="could not see whether the fault is still there"):
        await claim_action(row, office.acting)
    assert (await office.ledger.get_record(row.approval)).state is State.APPROVED
    office.site.facts = there
    await office.threads.resume_action(row)
    assert office.site.counts() == {"reset_clocks": 1}


async def test_what_only_a_log_told_starts_in_its_boot_and_never_in_another(store: Redis) -> None:
    office = Office(store, site(hung("n1")))
    row = await approved(office, "job 4711 is slow on n1")
    office.site.boots["n1"] = "another-boot"  # the drain runs on the controller, which did not reboot
    with pytest.raises(ApprovalOutdated, match="n1 has booted since") as gone:
        await claim_action(row, office.acting)
    assert gone.value.why == "fault_gone"
    office.site.silent.add("n1")
    with pytest.raises(ActionDeferred, match="n1 does not answer"):
        await claim_action(row, office.acting)
    office.site.silent.clear()
    del office.site.boots["n1"]
    await office.threads.resume_action(row)
    assert office.site.counts() == {"drain_node": 1}


async def test_one_that_comes_and_goes_is_gone_after_so_many_clean_readings(store: Redis) -> None:
    office = Office(store, site(slow()))
    found = (await approved(office)).action
    assert found.fault is not None
    row = await proposed(office, replace(found, approval="apr-0000000000aa"))
    looks: list[str] = []

    def comes(point: str) -> None:
        looks.append(point) if point == "look" else None
        office.site.sick(slow(len(looks) == MIN_CLEAN_READS))

    office.site.at = comes
    await claim_action(row, office.acting)
    assert len(looks) == MIN_CLEAN_READS
    office.site.at = lambda point: office.site.sick(slow(False))
    again = await proposed(office, replace(row.action, approval="apr-0000000000ab"))
    with pytest.raises(ApprovalOutdated, match="the fault is gone"):
        await claim_action(again, office.acting)


# The turn that contradicts a cause


async def test_the_turn_in_which_facts_contradict_a_cause_takes_its_card_back_at_once(store: Redis) -> None:
    office = Office(store, site(slow()))
    incident = await office.mention("job 4711 is slow on m1")
    (row,) = await office.pending(incident)
    office.site.sick(slow(False))
    await office.say(incident, "recheck")
    assert (await office.ledger.get_record(row.approval)).state is State.SUPERSEDED
    assert (await ladder_of(office, row))["outcome"] == "withdrawn"


async def test_a_turn_that_could_not_look_takes_no_card_back(store: Redis) -> None:
    office = Office(store, site(slow()))
    incident = await office.mention("job 4711 is slow on m1")
    (row,) = await office.pending(incident)
    office.site.facts = [one for one in office.site.facts if (one.host, one.check) != ("m1", "smi")]
    office.site.facts.append(build_unobserved_fact("smi", Status.TIMEOUT, "nvidia-smi does not answer", "m1"))
    office.site.sick(fact("m2", "smi", LOW, True, "gpu5"))  # another cause remains, so the turn has a diagnosis
    await office.say(incident, "recheck")
    assert (await office.turns.load_state(incident))["report"]["outcome"] == "diagnosed"
    assert (await office.ledger.get_record(row.approval)).state is State.PENDING


async def test_what_is_asked_for_ahead_of_its_turn_outlives_every_turn_before_it(store: Redis) -> None:
    office = Office(store, site(slow()))
    incident = await office.mention("job 4711 is slow on m1")
    (row,) = await office.pending(incident)
    office.clock.go(minutes=16)
    await office.actions.run_action(row.approval)  # it expired; its remediation does not know yet
    again = await office.decisions.propose_again(row.approval, row.digest, ANN)
    await office.actions.reconcile_incident(incident)
    assert (await office.ledger.get_record(again.approval)).state is State.PENDING
    await office.settle(incident)
    assert [one.approval for one in await office.pending(incident)] == [again.approval]


# Held nodes


def down(state: str = "failed") -> Fact:
    return fact("n1", "sysd", "service.state", state, "nvidia-fabricmanager")


async def held(office: Office) -> str:
    """n1 was drained for a failed service, which has recovered without a remedy."""
    incident = await office.mention("job 4711 is slow on n1")
    await office.approve(incident, "drain_node")
    office.site.sick(down("active"))
    (row,) = await office.pending(incident)
    await office.click(row)
    await office.settle(incident)
    assert (await office.ledger.get_record(row.approval)).state is State.SUPERSEDED
    return incident


async def test_a_node_whose_fault_is_gone_by_itself_is_offered_back(store: Redis) -> None:
    office = Office(store, site(down()))
    incident = await held(office)
    assert [row.action.remedy for row in await office.pending(incident)] == ["resume_node"]
    await office.say(incident, "status")
    said = (await office.turns.load_state(incident))["report"]["reply"]
    assert re.search(r"Held: n1: .* 2026-05-20 03:10 UTC, .* ANN, for Down; ", said)
    await office.approve(incident, "resume_node")
    assert office.site.counts() == {"drain_node": 1, "resume_node": 1}
    await office.say(incident, "status")
    assert "Held:" not in (await office.turns.load_state(incident))["report"]["reply"]


async def test_an_expired_return_is_proposed_again_only_on_request(store: Redis) -> None:
    office = Office(store, site(down()))
    incident = await held(office)
    (row,) = await office.pending(incident)
    office.clock.go(minutes=16)
    await office.settle(incident)
    assert await office.pending(incident) == []
    assert (await office.ladders(incident))[0]["outcome"] == "undecided"
    office.site.sick(down())
    with pytest.raises(CannotPropose, match="the fault is there"):
        await office.decisions.propose_again(row.approval, row.digest, ANN)
    office.site.sick(down("active"))
    again = await office.decisions.propose_again(row.approval, row.digest, ANN)
    await office.settle(incident)
    assert [one.approval for one in await office.pending(incident)] == [again.approval]


async def asks_back(office: Office, incident: str) -> ActionRecord:
    """Request the return of the only held node."""
    (ladder,) = [row for row in await office.ladders(incident) if row.get("drained")]
    return await office.decisions.propose_return(incident, ladder["id"], ANN)


async def answer_to(office: Office, incident: str, kind: Any) -> Report:
    await office.inbox.enqueue(InboxItem(id=kind, kind=kind, incident=incident, at=office.clock.now(), user="EVE"), kind)
    (report,) = await office.turns_of(incident)
    await office.settle(incident)
    return report


@pytest.mark.parametrize("kind", ["hand_off", "stop", "close"])
async def test_a_held_node_is_returned_on_request_in_any_lifecycle(store: Redis, kind: str) -> None:
    office = Office(store, site(down()))
    incident = await office.mention("job 4711 is slow on n1")
    await office.approve(incident, "drain_node")
    report = await answer_to(office, incident, kind)
    assert re.search(r"\nHeld:\n  n1: .* 2026-05-20 03:10 UTC, .* ANN, for Down; ", report.reply)
    assert [row.host for row in report.held] == (["n1"] if kind == "stop" else []), "the ticket's card has the button"
    with pytest.raises(CannotPropose, match="the fault is there"):
        await asks_back(office, incident)
    office.site.sick(down("active"))
    first, second = [await asks_back(office, incident) for _ in range(2)]
    assert first.approval == second.approval
    await office.settle(incident)
    before = (await office.turns.load_state(incident))["lifecycle"]
    assert [row.action.remedy for row in await office.pending(incident)] == ["resume_node"]
    with pytest.raises(CannotPropose, match="under way"):
        await asks_back(office, incident)
    await office.approve(incident, "resume_node")
    assert office.site.counts() == {"drain_node": 1, "resume_node": 1}
    (ladder,) = await office.ladders(incident)
    assert (ladder["outcome"], ladder.get("drained", False)) == ("withdrawn", False), "a scheduler's word is no cure"
    assert (await office.turns.load_state(incident))["lifecycle"] == before


@pytest.mark.parametrize("kind", ["hand_off", "close"])
async def test_an_undecided_return_is_requested_again_only_by_people(store: Redis, kind: str) -> None:
    office = Office(store, site(down()))
    incident = await office.mention("job 4711 is slow on n1")
    await office.approve(incident, "drain_node")
    await office.say(incident, kind)
    office.site.sick(down("active"))
    asked = []
    for _ in range(3):
        asked.append(await asks_back(office, incident))
        await office.settle(incident)
        office.clock.go(minutes=16)
        await office.settle(incident)
        assert await office.pending(incident) == []
    assert len({row.approval for row in asked}) == 3
    again = await office.decisions.propose_again(asked[-1].approval, asked[-1].digest, BOB)
    await office.settle(incident)
    assert [row.approval for row in await office.pending(incident)] == [again.approval]


async def test_after_an_ineffective_remedy_the_node_cannot_be_requested(store: Redis) -> None:
    office = Office(store, site(down()))
    office.site.mends.clear()
    incident = await office.mention("job 4711 is slow on n1")
    await office.approve(incident, "drain_node")
    await office.approve(incident, "restart_fabricmanager")
    report = await answer_to(office, incident, "hand_off")
    assert ("Held:\n  n1" in report.reply, report.held) == (True, ()), "no button where nothing can come of it"
    office.site.sick(down("active"))
    with pytest.raises(CannotPropose, match="n1 is not returned: a remedy was run and is not proved to have helped"):
        await asks_back(office, incident)
    assert office.site.counts() == {"drain_node": 1, "restart_fabricmanager": 1}


async def test_what_is_wrong_beside_it_on_the_host_keeps_a_node_held(store: Redis) -> None:
    office = Office(store, site(down(), hung()))
    incident = await office.mention("job 4711 is slow on n1")
    await office.approve(incident, "drain_node")
    await office.say(incident, "hand_off")
    office.site.sick(down("active"))
    with pytest.raises(CannotPropose, match="the fault is there"):
        await asks_back(office, incident)
    office.site.boots["n1"] = "another-boot"
    await asks_back(office, incident)
    await office.settle(incident)
    assert [row.action.remedy for row in await office.pending(incident)] == ["resume_node"]


async def test_a_node_that_waits_for_spare_parts_comes_back_once_the_fault_is_gone(store: Redis) -> None:
    office = Office(store, site(fact("n1", "smi", "gpu.remap.failure", True, "gpu3")))
    incident = await office.mention("job 4711 is slow on n1")
    await office.approve(incident, "drain_node")
    assert (await office.ladders(incident))[0]["outcome"] == "ticket"
    with pytest.raises(CannotPropose, match="the fault is there"):
        await asks_back(office, incident)
    office.site.sick(fact("n1", "smi", "gpu.remap.failure", False, "gpu3"))
    await asks_back(office, incident)
    await office.settle(incident)
    await office.approve(incident, "resume_node")
    assert office.site.counts() == {"drain_node": 1, "resume_node": 1}


# Two incidents about one fault


async def test_a_second_incident_goes_by_the_card_that_is_there_and_runs_nothing_of_its_own(store: Redis) -> None:
    office = Office(store, site(slow()), alone=True)
    first, second = [await office.mention("job 4711 is slow on m1", thread) for thread in ("1.0", "2.0")]
    (row,) = await office.pending(first)
    assert await office.ledger.list_incident_records(second) == []
    (waits,) = await office.ladders(second)
    assert (waits["approval"], waits["waiting_for"]) == (row.approval, "node_back")
    await office.approve(first, "reset_clocks")
    office.clock.go(seconds=3)
    await office.settle(second)
    assert office.site.counts() == {"reset_clocks": 1}
    assert await office.ledger.list_incident_records(second) == []
    (ladder,) = await office.ladders(second)
    assert ladder["waiting_for"] == "proof", "it passes there too, and is proved again later"


async def test_when_the_other_card_is_refused_the_second_incident_asks_itself(store: Redis) -> None:
    office = Office(store, site(slow()), alone=True)
    first, second = [await office.mention("job 4711 is slow on m1", thread) for thread in ("1.0", "2.0")]
    (row,) = await office.pending(first)
    await office.click(row, ANN, "deny", "not now")
    await office.settle(first)
    await office.settle(second)
    assert [one.action.remedy for one in await office.pending(second)] == ["reset_clocks"]


async def test_what_just_ran_and_passed_is_not_run_again_from_a_card_beside_it(store: Redis) -> None:
    office = Office(store, site(slow()))
    row = await approved(office)
    twin = await proposed(office, replace(row.action, approval="apr-0000000000aa"))  # as before duplicates were merged into one card
    await office.threads.resume_action(row)
    office.clock.go(seconds=3)
    await office.threads.resume_action(twin)
    assert office.site.counts() == {"reset_clocks": 1}
    assert (await office.ledger.get_record(twin.approval)).state is State.SUPERSEDED


async def test_two_proposals_at_once_make_one_card(store: Redis) -> None:
    office = Office(store, site(slow()))
    row = await approved(office)
    both = [replace(row.action, approval=f"apr-00000000000{n}", args={"bdf": BDF["gpu5"]}) for n in "ab"]
    ends = await asyncio.gather(*(office.ledger.propose(one, row.terms, single=True) for one in both), return_exceptions=True)
    assert sorted(type(end).__name__ for end in ends) == ["ActionRecord", "DuplicateAction"]


# Every remedy with every kind of fault

KINDS = ("read", "boot", "silence", "proved")
ANSWERS = ("there", "gone", "unseen")
EXPECTED = {
    ("read", "there"): "starts",
    ("read", "gone"): "fault_gone",
    ("read", "unseen"): "not now",
    ("boot", "there"): "starts",
    ("boot", "gone"): "fault_gone",
    ("boot", "unseen"): "not now",
    ("silence", "there"): "starts",
    ("silence", "gone"): "fault_gone",
    ("silence", "unseen"): "starts",  # silence is the fault itself
    ("proved", "there"): "starts",
    ("proved", "gone"): "starts",  # no passive check shows it
    ("proved", "unseen"): "starts",
}


def fault(kind: Any) -> FaultCondition:
    label = HUNG if kind == "boot" else SLOW
    return FaultCondition(label, "m1", "it shows", (LOW,), ("m1/gpu3",), ("smi",), "boot-of-m1-0", kind)


def world(kind: str, answer: str) -> Site:
    """Return m1 in this state when the action starts; all its other facts are observed."""
    made = site(slow(kind == "read" and answer == "there"))
    if kind == "boot" and answer == "gone":
        made.boots["m1"] = "another-boot"
    if (kind, answer) == ("silence", "there") or answer == "unseen":
        made.silent.add("m1")
    return made


async def proposed(office: Office, wanted: Action) -> ActionRecord:
    terms = ApprovalTerms(frozenset({ANN, BOB}), 1, group="h100", group_size=4)
    row = await office.ledger.propose(wanted, terms)
    return await office.ledger.vote(row.approval, row.digest, ANN, "approve", f"click-{row.approval}")


async def everybody(seen: ActionRecord) -> frozenset[str]:
    return seen.terms.approvers


async def starting(office: Office, row: ActionRecord) -> str:
    try:
        await claim_action(row, replace(office.acting, authorised=everybody))
    except ApprovalOutdated as error:
        return error.why
    except ActionDeferred:
        return "not now"
    return "starts"


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("remedy", REMEDIES)
async def test_every_remedy_with_every_kind_of_fault(store: Redis, remedy: str, kind: str, answer: str) -> None:
    office = Office(store, world(kind, answer))
    rung = RemediationStep(remedy=remedy, args={"bdf": BDF["gpu3"]}, part="fix")
    guard = get_step_precondition(Remediation(id="l", label=SLOW, target="m1", rungs=(rung,), fault=fault(kind)))
    assert (guard is None) == (remedy in FAULT_INDEPENDENT_REMEDIES)
    wanted = action(
        incident="inc-1", remedy=remedy, args={"bdf": BDF["gpu3"]}, target="m1", via="ctl", boot_id="", host_key="", conditions=(),
        policy=office.rights.get_policy_hash(), catalogue=office.acting.catalogue, fault=guard,
    )  # fmt: skip
    wanted = replace(wanted, approval="apr-0123456789ab")
    assert await starting(office, await proposed(office, wanted)) == ("starts" if guard is None else EXPECTED[kind, answer])


def test_what_the_ladder_treated_before_is_judged_by_its_proof_and_not_by_what_shows() -> None:
    drain, mig = (
        RemediationStep(remedy="drain_node", part="prepare"),
        RemediationStep(remedy="mig_off", part="prepare", devices=("m1/gpu3",)),
    )
    first, other = (RemediationStep(remedy="gpu_reset", devices=(f"m1/{name}",)) for name in ("gpu3", "gpu5"))
    reboot = RemediationStep(remedy="reboot", plan=1)
    row = Remediation(id="l", label=SLOW, target="m1", rungs=(drain, mig, first, other, reboot), fault=fault("read"))
    asked = [get_step_precondition(row.model_copy(update={"rung": n})) is not None for n in range(5)]
    assert asked == [True, True, False, True, False]
    row = row.model_copy(update={"since": T0})
    assert [get_step_precondition(row.model_copy(update={"rung": n})) is not None for n in range(5)] == [True, True, False, True, False]


# `tests.properties.mutants_actions` runs these on steps with a bug as well


async def starts(office: Office, row: ActionRecord) -> str:
    """Return how the claim ends."""
    try:
        await claim_action(row, office.acting)
    except ApprovalOutdated as error:
        return str(error.why)
    except ActionDeferred:
        return "not now"
    return "starts"


async def test_what_is_mended_before_the_start_is_not_treated(store: Redis) -> None:
    office = Office(store, site(slow()))
    row = await approved(office)
    office.site.sick(slow(False))
    assert await starts(office, row) == "fault_gone"


async def test_what_cannot_be_looked_at_does_not_start(store: Redis) -> None:
    office = Office(store, site(slow()))
    row = await approved(office)
    office.site.facts = [one for one in office.site.facts if (one.host, one.check) != ("m1", "smi")]
    office.site.facts.append(build_unobserved_fact("smi", Status.TIMEOUT, "nvidia-smi does not answer", "m1"))
    assert await starts(office, row) == "not now"


async def test_a_line_of_the_log_is_no_fault_of_another_boot(store: Redis) -> None:
    office = Office(store, site(hung("n1")))
    row = await approved(office, "job 4711 is slow on n1")
    office.site.boots["n1"] = "another-boot"
    assert await starts(office, row) == "fault_gone"


def test_a_ladders_fault_is_stored_without_what_the_ladder_says_and_read_back_whole() -> None:
    rung = RemediationStep(remedy="gpu_reset", devices=("n1/gpu3",))
    ladder = Remediation(id="l", label="GPU.BUS.Lost", target="n1", devices=("n1/gpu3", "n1/gpu4"), rungs=(rung,))
    for devices in (ladder.devices, ("n1/gpu3",), ()):
        fault = FaultCondition(ladder.label, "n1", "lost: Xid 79", keys=("kernel.xid",), devices=devices, checks=("dmesg",), reads=3)
        (row,) = serialize_remediations([ladder.model_copy(update={"fault": fault})])
        assert parse_remediations([json.loads(json.dumps(row))])[0].fault == fault
        assert all(f'"{name}":' not in json.dumps(row["fault"]) for name in ("label", "host"))


async def test_after_a_command_that_failed_and_a_host_that_is_well_nothing_heavier_is_put_up(store: Redis) -> None:
    made = site(slow())
    made.fails["reset_clocks"] = 1
    office = Office(store, made)
    incident = await office.mention("job 4711 is slow on m1")
    (row,) = await office.pending(incident)
    await office.click(row)
    made.at = lambda point: made.sick(slow(False)) if point == "start:after" else None
    await office.settle(incident)
    assert (await office.ledger.get_record(row.approval)).state is State.FAILED
    assert [one.action.remedy for one in await office.pending(incident)] == []
    assert (await office.ladders(incident))[0]["waiting_for"] == "proof"
