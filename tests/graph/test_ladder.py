"""Remediations: actions planned from a diagnosis, arguments from facts, and the effect of every event."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from graph.engine.fact_history import find_repair_cursors, mark_stale_after_repairs
from graph.incident.lifecycle import get_next_lifecycle, get_remediation_event
from graph.incident_view import parse_remediations, serialize_remediations
from graph.remediation.build import BuiltRemediations, PlanContext, build_approval_id, build_remediations
from graph.remediation.drained_nodes import render_drained_nodes
from graph.remediation.outcomes import describe_remediation, release_finished_nodes, stop_remediations, withdraw_disbelieved
from graph.remediation.plan_steps import MANUAL_STEP_TEXTS, parse_plan
from graph.remediation.proposals import list_planned_actions
from graph.remediation.state_machine import TRANSITIONS, RemediationEvent, advance
from graph.state import Hypothesis, IncidentState, Remediation
from kb.taxonomy.loader import load_taxonomy
from tests.support.clock import T0
from tests.support.fakes_actions import BDF, BROKEN, FABRIC, HUNG, LOOSE, ORPHAN, SLOW, TAXONOMY, hung, well
from tests.support.fakes_graph import fact
from tests.support.inventories import inventory
from tools.fact import Fact
from tools.inventory.inventory import Inventory
from tools.remedies import REMEDIES

HOSTS = ("n1", "n2", "m1")


def yard(facts: Sequence[Fact] = (), rows: Inventory | None = None, **more: Any) -> PlanContext:
    return PlanContext("inc-1", T0, rows or inventory(), TAXONOMY, facts or well(*HOSTS), **more)


def cause(label: str, *devices: str, hosts: tuple[str, ...] = ()) -> Hypothesis:
    named = hosts or tuple(dict.fromkeys(device.partition("/")[0] for device in devices))
    return Hypothesis(label=label, hosts=named, devices=devices, verdict="confirmed", confidence=0.99)


def remedies(ladder: Remediation) -> list[str]:
    return [rung.remedy for rung in ladder.rungs]


def only(built: BuiltRemediations) -> Remediation:
    (ladder,) = built.ladders
    return ladder


def after(ladder: Remediation, where: PlanContext, *events: RemediationEvent) -> Remediation:
    """Apply events to the remediation's current step."""
    rows = [ladder]
    for event in events:
        rows = advance(rows, replace(event, approval="", ladder=rows[0].id), where)
    return rows[0]


DONE = RemediationEvent("done", outcome="passes_now", since=T0, by="Ann")
UNCHANGED = RemediationEvent("done", outcome="unchanged", says="still there", since=T0)
IDLE = RemediationEvent("idle")


# Building


def test_a_plan_becomes_rungs_with_the_way_back_at_the_end() -> None:
    ladder = only(build_remediations([cause(HUNG, "n1/gpu3")], yard()))
    assert remedies(ladder) == ["drain_node", "gpu_reset", "reboot", "resume_node"]
    assert [rung.args for rung in ladder.rungs[:2]] == [{"node": "n1"}, {"bdf": BDF["gpu3"]}]
    assert (ladder.waiting_for, ladder.approval) == ("approval", build_approval_id("inc-1", ladder))
    assert ladder.words == ("", "", "open a replacement case with the vendor")


def test_the_same_diagnosis_gives_the_same_approval_and_another_incident_another() -> None:
    first, second = (only(build_remediations([cause(HUNG, "n1/gpu3")], yard())) for _ in range(2))
    other = only(build_remediations([cause(HUNG, "n1/gpu3")], replace(yard(), incident="inc-2")))
    assert first == second
    assert first.approval != other.approval


def test_many_hosts_are_many_ladders_and_many_devices_many_rungs_of_one() -> None:
    built = build_remediations([cause(HUNG, "n1/gpu3", "n1/gpu5", "n2/gpu0")], yard())
    assert [(row.target, row.devices) for row in built.ladders] == [("n1", ("n1/gpu3", "n1/gpu5")), ("n2", ("n2/gpu0",))]
    assert [rung.devices for rung in built.ladders[0].rungs if rung.remedy == "gpu_reset"] == [("n1/gpu3",), ("n1/gpu5",)]


def test_without_a_controller_the_drain_is_left_to_people_in_words() -> None:
    built = build_remediations([cause(HUNG, "m1/gpu3")], yard())
    assert remedies(only(built)) == ["gpu_reset", "reboot"]
    [said] = built.by_hand
    assert said.startswith("Hung on m1: drain m1 by hand")


def test_without_the_kit_a_human_gets_the_command() -> None:
    rows = inventory(defaults={"kit": False})
    built = build_remediations([cause(SLOW, "m1/gpu3")], yard(rows=rows))
    assert built.ladders == ()
    assert f'run `sh -c nvidia-smi -i "$1" -rgc && nvidia-smi -i "$1" -rac reset-clocks {BDF["gpu3"]}` on m1 by hand' in built.by_hand[0]


def test_what_only_people_can_do_is_said_and_no_rung() -> None:
    built = build_remediations([cause(LOOSE, "n1/mlx5_3")], yard())
    assert built.ladders == ()
    [said] = built.by_hand
    assert said.startswith("Loose on n1: ")


def test_a_plan_that_ends_with_people_still_drains_first() -> None:
    built = build_remediations([cause(BROKEN, "n1/gpu3")], yard())
    assert remedies(only(built)) == ["drain_node"]
    [said] = built.by_hand
    assert said.startswith("Broken on n1: ")


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        ([], "no check told it"),
        ([fact("n1", "smi", "gpu.bdf", BDF["gpu3"], "gpu3"), fact("n1", "smi", "gpu.bdf", BDF["gpu5"], "gpu3")], "the checks disagree"),
        ([fact("n1", "smi", "gpu.bdf", "0000:5d:00.0; reboot", "gpu3")], "no check told it"),
        ([replace(fact("n1", "smi", "gpu.bdf", BDF["gpu3"], "gpu3"), stale=True)], "no check told it"),
    ],
)
def test_a_gpu_whose_address_is_not_certain_is_not_reset(rows: list[Fact], why: str) -> None:
    built = build_remediations([cause(HUNG, "n1/gpu3")], yard(rows or [fact("n1", "smi", "gpu.count", 8)]))
    assert "gpu_reset" not in remedies(only(built))
    assert any(why in sentence for sentence in built.by_hand)


def test_a_lost_gpus_address_is_taken_from_the_kernels_line() -> None:
    rows = [replace(hung("n1"), attrs={"bdf": BDF["gpu3"].upper()})]
    assert only(build_remediations([cause(HUNG, "n1/gpu3")], yard(rows))).rungs[1].args == {"bdf": BDF["gpu3"]}


def orphan(pid: int, why: str = "its parent is gone and no job holds it") -> Fact:
    return replace(fact("n1", "procs", "proc.orphan", 40_000, "gpu3"), attrs={"pid": pid, "why": why})


def test_an_orphan_is_ended_by_its_number_first_softly_then_for_certain() -> None:
    ladder = only(build_remediations([cause(ORPHAN, "n1/gpu3")], yard([*well("n1"), orphan(4242)])))
    assert ladder.rungs[0].args == {"pid": "4242", "ticks": "0", "signal": "TERM"}
    harder = after(ladder, yard(), UNCHANGED)
    assert (harder.current_step and harder.current_step.args["signal"], harder.waiting_for) == ("KILL", "approval")
    assert after(harder, yard(), UNCHANGED).outcome == "ticket"


@pytest.mark.parametrize("why", ["a zombie", "the process is gone, its memory is not"])
def test_a_process_that_no_signal_reaches_is_not_killed(why: str) -> None:
    built = build_remediations([cause(ORPHAN, "n1/gpu3")], yard([*well("n1"), orphan(4242, why)]))
    assert built.ladders == ()
    assert "no signal reaches" in built.by_hand[0]


def test_a_job_is_cancelled_only_when_it_hangs_and_the_host_shows_it() -> None:
    shown = replace(fact("n1", "procs", "proc.gpu_memory", 40_000, "gpu3"), attrs={"pid": 7, "job": "4711"})
    with_job = only(build_remediations([cause(HUNG, "n1/gpu3")], yard([*well("n1"), shown], job="999", stuck=True)))
    assert remedies(with_job)[:3] == ["drain_node", "cancel_job", "gpu_reset"]
    assert with_job.rungs[1].args == {"job": "4711"}
    assert "cancel_job" not in remedies(only(build_remediations([cause(HUNG, "n1/gpu3")], yard(job="4711", stuck=True))))
    assert "cancel_job" not in remedies(only(build_remediations([cause(HUNG, "n1/gpu3")], yard([*well("n1"), shown], job="4711"))))


def test_where_no_process_names_its_job_the_queue_does_and_of_several_people_must() -> None:
    def built(jobs: list[str], named: str = "") -> Remediation:
        queued = fact("n1", "sched", "sched.running", jobs)
        return only(build_remediations([cause(HUNG, "n1/gpu3")], yard([*well("n1"), queued], job=named, stuck=True)))

    assert built(["4711"]).rungs[1].args == {"job": "4711"}
    assert built(["4711", "4712"], "4712").rungs[1].args == {"job": "4712"}
    assert "cancel_job" not in remedies(built(["4711", "4712"]))


def test_causes_above_the_host_change_no_host() -> None:
    leaf = replace(TAXONOMY.get_leaf(HUNG), scope="rack", label="OTHER.INFRA.Rack", remedies=("drain_node > gpu_reset",))
    where = replace(yard(), taxonomy=replace(TAXONOMY, leaves={**TAXONOMY.leaves, leaf.label: leaf}))
    assert build_remediations([cause(leaf.label, "rack:r1", hosts=("n1", "n2"))], where).ladders == ()


def test_every_step_of_the_real_taxonomy_is_a_remedy_or_words() -> None:
    for leaf in load_taxonomy().leaves.values():
        for plan in leaf.remedies:
            for step in parse_plan(plan):
                assert step.kind == "remedy" or step.manual_text or step.name == "none", f"{leaf.label}: {step}"
    assert not set(REMEDIES) & set(MANUAL_STEP_TEXTS), "a step is a remedy's or people's work, never both"


def test_planned_actions_are_the_present_plan_alone() -> None:
    where = yard([*well("n1"), fact("n1", "dmesg", "host.boot_id", "boot-1")])
    built = build_remediations([cause(HUNG, "n1/gpu3")], where)
    drain, reset = list_planned_actions(built.ladders, where)
    assert (drain.remedy, drain.via, drain.rung, drain.args["node"]) == ("drain_node", "ctl", 0, "n1")
    assert (reset.remedy, reset.via, reset.argv) == ("gpu_reset", "n1", ("gpu_reset", BDF["gpu3"]))
    assert reset.command == ("nvidia-smi", "--gpu-reset", "-i", BDF["gpu3"])
    assert len(reset.digest) == 64


# Events


def test_the_whole_way_up() -> None:
    where = yard()
    ladder = after(only(build_remediations([cause(HUNG, "n1/gpu3")], where)), where, DONE)
    assert (ladder.current_step and ladder.current_step.remedy, ladder.waiting_for, ladder.drained) == ("gpu_reset", "idle", True)
    ladder = after(ladder, where, IDLE)
    assert (ladder.waiting_for, ladder.approval) == ("approval", build_approval_id("inc-1", ladder))
    ladder = after(ladder, where, DONE)
    assert (ladder.current_step and ladder.current_step.remedy, ladder.waiting_for) == ("resume_node", "approval")
    ladder = after(ladder, where, DONE)
    assert (ladder.waiting_for, ladder.due, ladder.drained) == ("proof", T0 + timedelta(hours=2), False)
    assert after(ladder, where, RemediationEvent("cured")).outcome == "cured"


def test_what_does_not_help_is_followed_by_something_heavier_and_never_by_the_way_back() -> None:
    where = yard()
    ladder = after(only(build_remediations([cause(HUNG, "n1/gpu3")], where)), where, DONE, IDLE, UNCHANGED)
    assert (ladder.current_step and ladder.current_step.remedy, ladder.waiting_for) == ("reboot", "idle")
    ladder = after(ladder, where, IDLE, RemediationEvent("done", outcome="worse", says="7 GPUs", since=T0))
    assert (ladder.outcome, ladder.drained) == ("ticket", True)
    assert ladder.says.startswith("7 GPUs; next: ")
    assert "n1 stays drained" in ladder.says
    [line] = render_drained_nodes([ladder], TAXONOMY)
    assert [part in line for part in ("n1: ", "2026-05-20 03:10 UTC", "by Ann", "for Hung", "7 GPUs")] == [True] * 5


def test_the_catalogues_heavier_remedy_follows_where_the_taxonomy_names_no_other_plan() -> None:
    where = yard()
    ladder = after(only(build_remediations([cause(FABRIC, hosts=("n1",))], where)), where, DONE)
    assert (ladder.current_step and ladder.current_step.remedy, ladder.waiting_for) == ("restart_fabricmanager", "approval")
    ladder = after(ladder, where, UNCHANGED)
    assert (ladder.current_step and ladder.current_step.remedy, ladder.waiting_for) == ("reboot", "idle")
    ladder = after(ladder, where, IDLE, DONE)
    assert ladder.current_step is not None
    assert ladder.current_step.remedy == "resume_node"


def test_a_plan_for_people_ends_the_ladder_with_the_node_drained() -> None:
    ladder = after(only(build_remediations([cause(BROKEN, "n1/gpu3")], yard())), yard(), DONE)
    assert (ladder.outcome, ladder.drained) == ("ticket", True)
    assert "n1 stays drained" in ladder.says


def test_a_stuck_job_is_cancelled_only_after_the_node_stayed_busy() -> None:
    shown = replace(fact("n1", "procs", "proc.gpu_memory", 40_000, "gpu3"), attrs={"pid": 7, "job": "4711"})
    where = yard([*well("n1"), shown], job="4711", stuck=True)
    ladder = after(only(build_remediations([cause(HUNG, "n1/gpu3")], where)), where, DONE)
    assert (ladder.current_step and ladder.current_step.remedy, ladder.waiting_for, ladder.due) == (
        "cancel_job",
        "idle",
        T0 + timedelta(minutes=10),
    )
    idle = after(ladder, where, IDLE)
    assert (idle.current_step and idle.current_step.remedy, idle.waiting_for) == ("gpu_reset", "idle")
    busy = after(ladder, where, RemediationEvent("busy"))
    assert (busy.current_step and busy.current_step.remedy, busy.waiting_for) == ("cancel_job", "approval")


PODS = inventory(
    groups={
        "g": {"hosts": "n[1-4]", "controller": "ctl", "scheduler": "kubernetes"},
        "bare": {"hosts": "m[1-2]"},
        "ctl": {"hosts": "ctl"},
    },
    hosts={"n1": {"node": "ip-10-0-0-1.cloud.example"}},
)


def test_pods_that_never_end_are_evicted_only_after_the_node_stayed_busy() -> None:
    where = yard(rows=PODS)
    built = only(build_remediations([cause(HUNG, "n1/gpu3")], where))
    assert remedies(built)[:3] == ["drain_node", "evict_pods", "gpu_reset"]
    ladder = after(built, where, DONE)
    assert (ladder.current_step and ladder.current_step.remedy, ladder.waiting_for, ladder.due) == (
        "evict_pods",
        "idle",
        T0 + timedelta(minutes=10),
    )
    idle = after(ladder, where, IDLE)
    assert (idle.current_step and idle.current_step.remedy) == "gpu_reset", "nobody is asked to empty an empty node"
    busy = after(ladder, where, RemediationEvent("busy"))
    assert (busy.current_step and busy.current_step.remedy, busy.waiting_for) == ("evict_pods", "approval")
    refused = after(busy, where, RemediationEvent("failed", says="a PodDisruptionBudget lets no more of those pods go now"))
    assert (refused.current_step and refused.current_step.remedy, refused.waiting_for, refused.drained) == ("gpu_reset", "idle", True)
    assert "a PodDisruptionBudget lets no more of those pods go now" in describe_remediation(refused, "hung")
    gone = after(refused, where, IDLE)
    assert (gone.current_step and gone.current_step.remedy, gone.waiting_for) == ("gpu_reset", "approval"), (
        "their owner ended them: the fix goes on"
    )
    not_begun = after(busy, where, RemediationEvent("failed", ran=False, says="the kit is older"))
    assert (not_begun.current_step and not_begun.current_step.remedy, not_begun.attempt) == ("evict_pods", 2)


def test_a_drain_for_people_evicts_no_pod() -> None:
    assert remedies(only(build_remediations([cause(BROKEN, "n1/gpu3")], yard(rows=PODS)))) == ["drain_node"]


def test_what_is_planned_names_the_way_and_the_node_of_the_hosts_scheduler() -> None:
    where = yard(rows=PODS)
    rows = list_planned_actions([only(build_remediations([cause(HUNG, "n1/gpu3")], where))], where)
    assert [(row.remedy, row.argv[:2]) for row in rows[:2]] == [
        ("drain_node", ("cordon_node", "ip-10-0-0-1.cloud.example")),
        ("evict_pods", ("evict_pods", "ip-10-0-0-1.cloud.example")),
    ]


def test_an_undecided_rung_is_asked_again_so_many_times_and_then_only_on_request() -> None:
    where = yard()
    ladder = only(build_remediations([cause(HUNG, "n1/gpu3")], where))
    seen = [ladder.approval]
    for _ in range(2):
        ladder = after(ladder, where, RemediationEvent("expired"))
        seen.append(ladder.approval)
    assert len(set(seen)) == 3
    ladder = after(ladder, where, RemediationEvent("expired"))
    assert ladder.outcome == "undecided"
    again = after(ladder, where, RemediationEvent("again"))
    assert (again.waiting_for, again.outcome, again.attempt) == ("approval", "", 4)


def test_a_refused_start_asks_again_and_a_failed_command_does_not() -> None:
    where = yard()
    ladder = after(only(build_remediations([cause(HUNG, "n1/gpu3")], where)), where, DONE, IDLE)
    refused = after(ladder, where, RemediationEvent("failed", ran=False, says="no process uses this GPU: found 4711"))
    assert (refused.current_step and refused.current_step.remedy, refused.waiting_for, refused.attempt) == ("gpu_reset", "idle", 2)
    failed = after(ladder, where, RemediationEvent("failed", says="in use", since=T0))
    assert failed.current_step is not None
    assert failed.current_step.remedy == "reboot"


def test_a_no_ends_it_and_an_edit_only_changes_the_card() -> None:
    where = yard()
    ladder = only(build_remediations([cause(HUNG, "n1/gpu3")], where))
    assert after(ladder, where, RemediationEvent("denied", says="not now")).outcome == "denied"
    edited = after(ladder, where, RemediationEvent("superseded", replaced_by="apr-0123456789ab"))
    assert (edited.approval, edited.waiting_for, edited.rung) == ("apr-0123456789ab", "approval", 0)


def test_doubt_locks_and_a_humans_word_goes_on() -> None:
    where = yard()
    ladder = after(only(build_remediations([cause(HUNG, "n1/gpu3")], where)), where, DONE, IDLE, RemediationEvent("unknown"))
    assert ladder.outcome == "unknown"
    assert f"n1 is locked: {ladder.approval} ended in doubt" in render_drained_nodes([ladder], TAXONOMY)
    assert get_next_lifecycle("waiting", get_remediation_event([ladder])) == "waiting"
    going = after(ladder, where, DONE)
    assert (going.outcome, going.current_step and going.current_step.remedy) == ("", "resume_node")


def test_a_drain_that_others_made_is_not_ours_to_take_back() -> None:
    where = yard()
    ladder = after(
        only(build_remediations([cause(HUNG, "n1/gpu3")], where)), where, RemediationEvent("held", says="drained by ops"), IDLE, DONE
    )
    assert (ladder.waiting_for, ladder.drained) == ("proof", False)


def test_after_a_relapse_a_new_ladder_begins_with_the_next_plan() -> None:
    where = yard()
    first = after(only(build_remediations([cause(HUNG, "n1/gpu3")], where)), where, DONE, IDLE, DONE, DONE)
    old, new = advance([first], RemediationEvent("recurred", ladder=first.id, says="Xid 119"), where)
    assert old.outcome == "recurred"
    assert remedies(new) == ["drain_node", "reboot", "resume_node"]
    assert new.approval not in {first.approval, ""}
    assert get_next_lifecycle("watching", get_remediation_event([old, new])) == "waiting"


def test_late_news_of_another_approval_changes_nothing() -> None:
    where = yard()
    ladder = only(build_remediations([cause(HUNG, "n1/gpu3")], where))
    assert advance([ladder], RemediationEvent("done", approval="apr-ffffffffffff", outcome="passes_now"), where) == [ladder]


# Several remediations


def test_two_causes_on_one_host_share_the_drain_and_the_node_returns_when_both_are_mended() -> None:
    where = yard()
    built = build_remediations([cause(HUNG, "n1/gpu3"), cause(FABRIC, hosts=("n1",))], where)
    first, second = built.ladders
    assert "drain_node" not in remedies(second)
    rows = list(built.ladders)
    for ladder, event in ((first, DONE), (first, IDLE), (first, DONE)):
        rows = advance(rows, replace(event, ladder=ladder.id), where)
    assert (rows[0].current_step and rows[0].current_step.remedy, rows[0].waiting_for) == ("resume_node", "none")
    rows = advance(rows, replace(DONE, ladder=second.id), where)
    assert (rows[0].waiting_for, rows[1].waiting_for) == ("approval", "proof")


def test_a_node_on_which_one_fix_failed_is_not_returned() -> None:
    where = yard()
    rows = list(build_remediations([cause(HUNG, "n1/gpu3"), cause(FABRIC, hosts=("n1",))], where).ladders)
    for ladder, event in ((rows[0], DONE), (rows[0], IDLE), (rows[0], DONE), (rows[1], RemediationEvent("denied"))):
        rows = advance(rows, replace(event, ladder=ladder.id), where)
    assert (rows[0].outcome, rows[0].drained) == ("ticket", True)
    assert "Down" in rows[0].says
    assert "n1 stays drained" in rows[0].says


def test_ladders_of_different_hosts_do_not_touch_each_other() -> None:
    where = yard()
    rows = list(build_remediations([cause(HUNG, "n1/gpu3", "n2/gpu0")], where).ladders)
    moved = advance(rows, RemediationEvent("denied", ladder=rows[0].id), where)
    assert moved[1] == rows[1]


def test_a_rejected_cause_withdraws_actions_that_have_not_started() -> None:
    where = yard()
    fresh = only(build_remediations([cause(HUNG, "n1/gpu3")], where))
    begun = after(only(build_remediations([cause(HUNG, "n2/gpu3")], where)), where, DONE)
    assert [row.outcome for row in withdraw_disbelieved([fresh, begun], set())] == ["withdrawn", ""]


def test_a_known_ladder_is_not_built_twice_and_one_that_people_ended_only_on_request() -> None:
    where = yard()
    ladder = only(build_remediations([cause(HUNG, "n1/gpu3")], where))
    denied = after(ladder, where, RemediationEvent("denied"))
    assert build_remediations([cause(HUNG, "n1/gpu3")], where, [ladder]).ladders == ()
    assert build_remediations([cause(HUNG, "n1/gpu3")], where, [denied]).ladders == ()
    again = only(build_remediations([cause(HUNG, "n1/gpu3")], where, [denied], anew=True))
    assert again.id != ladder.id
    assert again.approval != ladder.approval


def test_when_a_human_takes_over_nothing_more_is_asked_but_what_still_ran_is_known() -> None:
    where = yard()
    (row,) = stop_remediations([only(build_remediations([cause(HUNG, "n1/gpu3")], where))], "handed to a human")
    assert row.outcome == "stopped"
    assert after(row, where, DONE).drained
    assert after(row, where, DONE).outcome == "stopped"


# Storing, loading, describing


def test_ladders_survive_the_state_as_they_are() -> None:
    where = yard()
    rows = [after(row, where, DONE) for row in build_remediations([cause(HUNG, "n1/gpu3", "n2/gpu0")], where).ladders]
    stored: IncidentState = {"ladders": serialize_remediations(rows)}
    assert parse_remediations(stored["ladders"]) == rows
    assert len(str(stored)) < 2500


def test_every_stand_of_a_ladder_reads_as_one_sentence() -> None:
    where = yard()
    ladder = only(build_remediations([cause(HUNG, "n1/gpu3")], where))
    assert describe_remediation(ladder, "Hung").startswith("Hung on n1: Drain n1")
    assert describe_remediation(after(ladder, where, DONE), "Hung") not in (describe_remediation(ladder, "Hung"), "")
    assert describe_remediation(after(ladder, where, RemediationEvent("denied", says="no")), "Hung") == "Hung on n1: denied, no"


def test_old_lines_of_a_changed_host_are_of_the_past_and_new_ones_are_not() -> None:
    ladder = replace_since(only(build_remediations([cause(HUNG, "n1/gpu3")], yard())))
    old, again, other = hung("n1", minutes=-9), hung("n1", minutes=1), hung("n2", minutes=-9)
    came_back = replace(old, attrs={**old.attrs, "last": again.attrs["last"]})
    marked = mark_stale_after_repairs([old, again, other, came_back], find_repair_cursors([ladder]))
    assert [row.stale for row in marked] == [True, False, False, False]


def test_a_host_whose_clock_runs_ahead_is_read_by_its_own_clock() -> None:
    ladder = replace_since(only(build_remediations([cause(HUNG, "n1/gpu3")], yard())))
    clock = replace(fact("n1", "time", "time.clock", (T0 + timedelta(minutes=5)).timestamp()), time=T0)
    old, new = hung("n1", minutes=4), hung("n1", "gpu5", minutes=6)
    assert [row.stale for row in mark_stale_after_repairs([old, new, clock], find_repair_cursors([ladder]))] == [True, False, False]


def replace_since(ladder: Remediation) -> Remediation:
    return ladder.model_copy(update={"since": T0})


@pytest.mark.parametrize("kind", sorted(kind for kind, row in TRANSITIONS.items() if row.waiting is not None))
def test_an_event_of_a_wait_changes_no_ladder_that_waits_for_something_else(kind: str) -> None:
    ladder = only(build_remediations([cause(HUNG, "n1/gpu3")], yard()))
    for waits in ("approval", "idle", "node_back", "proof"):
        if waits != TRANSITIONS[kind].waiting:
            row = ladder.model_copy(update={"waiting_for": waits})
            assert after(row, yard(), RemediationEvent(kind, says="late")) == row


KINDS = st.sampled_from([*sorted(TRANSITIONS), "nonsense"])
OUTCOMES = st.sampled_from(["passes_now", "unchanged", "worse", "cured", ""])


@example([("done", "passes_now", False, 0), ("done", "passes_now", False, 0), ("again", "passes_now", False, 0)])
@example([("done", "passes_now", False, 0), ("done", "passes_now", False, 1), ("needless", "passes_now", False, 0)])
@example(
    [
        ("cannot", "", False, 1),
        ("cannot", "", False, 1),
        ("revoked", "", False, 0),
        ("done", "passes_now", False, 0),
        ("return", "", False, 0),
    ]
)
@given(st.lists(st.tuples(KINDS, OUTCOMES, st.booleans(), st.integers(0, 1)), max_size=25))
def test_in_any_order_of_events_a_node_returns_only_after_a_proven_remediation(story: list[tuple[str, str, bool, int]]) -> None:
    where = yard()
    rows = list(build_remediations([cause(HUNG, "n1/gpu3"), cause(FABRIC, hosts=("n1",))], where).ladders)
    # Remediations whose host was observed without the fault: `needless` automatically, `return` on request. Returning
    # those nodes needs no action of ours.
    looked: set[str] = set()
    for kind, outcome, ran, which in story:
        before = rows
        looked |= {rows[which].id} if kind in ("needless", "return") else set()
        rows = advance(rows, RemediationEvent(kind, ladder=rows[which].id, outcome=outcome, ran=ran, since=T0), where)
        for old, row in zip(before, rows, strict=False):
            assert row.outcome == "" or row.waiting_for == "none"
            if row.is_open and row.current_step and row.current_step.part == "restore" and row.waiting_for == "approval":
                assert row.proven or row.id in looked
                assert row.drained
                assert (
                    all(peer.outcome not in ("ticket", "denied", "undecided", "unknown", "stopped") for peer in before if peer is not old)
                    or old == row
                    or kind == "return"  # requested by a person; `require_fault_gone` has checked the host's unresolved faults
                )
    assert release_finished_nodes(rows, where) == rows
    assert parse_remediations(serialize_remediations(rows)) == rows
