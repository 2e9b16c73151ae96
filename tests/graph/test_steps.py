"""Every known fault leads to remediation steps from the catalogue, or to instructions for a named group of people."""

from dataclasses import replace

import pytest

from deploy.sandbox.cluster.faults import FAULTS
from graph.remediation.build import BuiltRemediations, PlanContext, build_remediations, find_remediation_hosts
from graph.remediation.plan_steps import ARGUMENT_BUILDERS, MANUAL_STEP_TEXTS, PlanStep, parse_plan
from graph.remediation.state_machine import RemediationEvent, advance
from graph.state import Hypothesis, Remediation
from kb.taxonomy.loader import load_taxonomy
from tests.support.clock import T0
from tests.support.fakes_actions import BDF, well
from tests.support.fakes_graph import fact
from tests.support.inventories import inventory
from tools.fact import Fact
from tools.remedies import REMEDIES

LEAVES = load_taxonomy()
CONTAINER = "0f" * 32
DONE = RemediationEvent("done", outcome="passes_now", since=T0)
UNCHANGED = RemediationEvent("done", outcome="unchanged", says="still there", since=T0)
WORSE = RemediationEvent("done", outcome="worse", says="7 GPUs", since=T0)

RESET, BOOT = ("drain_node", "gpu_reset"), ("drain_node", "reboot")
# faults whose first plan is a command, and the plan
MENDED: dict[str, tuple[str, ...]] = {
    "G01": RESET, "G03": RESET, "G07": BOOT, "G09": BOOT, "G10": RESET, "G12": RESET, "G13": RESET, "G17": ("reset_clocks",),
    "G18": ("power_limit_default",), "G19": ("drain_node", "mig_off", "gpu_reset"), "G20": ("compute_mode_default",),
    "S01": ("drain_node", "reload_driver"), "S03": ("drain_node", "dkms_rebuild"), "S04": ("drain_node", "restart_fabricmanager"),
    "S06": ("restart_container",), "S07": ("drain_node", "configure_runtime", "restart_service"), "S08": ("modprobe_peermem",),
    "S10": ("cleanup",), "S15": BOOT, "S17": ("chrony_makestep",), "S18": ("kill_gpu_process",), "S19": ("governor_performance",),
    "N01": RESET, "N03": BOOT, "N10": BOOT,
}  # fmt: skip

# drained by a command, then repaired by people: a part, cable, package or firmware setting
DRAINED_FOR_PEOPLE = ["G02", "G04", "G06", "G08", "G11", "G14", "G15", "G16", "S05", "S13", "S16", "N02", "N04", "N05", "N06", "N07"]

# no command: the job's owner or a team is told what to do
TOLD = [
    "S02", "S09", "S11", "S12", "S14", "N08", "N09", "N11", "N12", "N13", "N14", "N15", "F01", "F02", "F03", "F04", "F05", "F06", "F07",
    "U01", "U02", "U03", "U04", "U05", "U06", "U07", "U08", "U09", "U10", "U11", "U12", "O01", "O02", "O04", "O05",
]  # fmt: skip

LEFT_ALONE = ["G05", "O03", "O06"]  # no action needed, and the report says so

UNKNOWN = ["O07"]  # no leaf: handed to a person with the evidence


def test_every_fault_is_repaired_by_commands_or_handed_to_people() -> None:
    groups = [list(MENDED), DRAINED_FOR_PEOPLE, TOLD, LEFT_ALONE, UNKNOWN]
    assert sorted(name for group in groups for name in group) == sorted(FAULTS)


@pytest.mark.parametrize("fault", sorted(set(FAULTS) - set(UNKNOWN)))
def test_the_first_plan_of_a_fault_is_what_it_should_be(fault: str) -> None:
    leaf = LEAVES.leaves[FAULTS[fault].label]
    steps = parse_plan(leaf.remedies[0])
    done = tuple(step.name for step in steps if step.kind == "remedy")
    if fault in MENDED:
        assert done == MENDED[fault]
    elif fault in LEFT_ALONE:
        assert steps == (PlanStep("none"),)
    elif fault in DRAINED_FOR_PEOPLE:
        assert steps[0].name == "drain_node"
        assert steps[1].name in MANUAL_STEP_TEXTS
    else:
        assert not done
        assert all(step.name in MANUAL_STEP_TEXTS for step in steps)


def test_every_step_of_a_plan_has_an_explanation() -> None:
    for leaf in LEAVES.leaves.values():
        for step in (step for plan in leaf.remedies for step in parse_plan(plan)):
            assert step.kind == "remedy" or step.name in MANUAL_STEP_TEXTS, f"{leaf.label}: {step}"
            assert step.kind == "remedy" or step.manual_text or step.name == "none", f"{leaf.label}: {step}"


def test_every_other_step_of_a_plan_is_for_people() -> None:
    assert set(ARGUMENT_BUILDERS) <= set(REMEDIES)
    assert [(step.name, step.kind) for step in parse_plan("drain_node > escalate_hw(fan) > restart_service(docker)")] == [
        ("drain_node", "remedy"),
        ("escalate_hw", "people"),
        ("restart_service", "remedy"),
    ]
    for text in ("restart_service", "restart_service(sshd)", "reboot(now)", "makestep", "run_check", "rm -rf /"):
        assert [step.kind for step in parse_plan(text)] == ["people"], text
    assert PlanStep("escalate_hw", "fan").manual_text == "have the hardware team look at it (fan)"


def test_what_counts_only_with_another_remedy_is_always_followed_by_it() -> None:
    for leaf in LEAVES.leaves.values():
        for plan in leaf.remedies:
            steps = [step.name if step.kind == "remedy" else "" for step in parse_plan(plan)]
            for at, remedy in enumerate(steps):
                if remedy and (then := REMEDIES[remedy].then):
                    assert then in steps[at + 1 :], f"{leaf.label}: {plan}"


def yard(*facts: Fact) -> PlanContext:
    return PlanContext("inc-1", T0, inventory(), LEAVES, [*well("n1"), *facts])


def built(fault: str, *facts: Fact, device: str = "gpu3") -> BuiltRemediations:
    leaf = LEAVES.leaves[FAULTS[fault].label]
    devices = (f"n1/{device}",) if leaf.scope == "gpu" else ()
    hosts = () if leaf.scope == "job" else ("n1",)
    return build_remediations([Hypothesis(label=leaf.label, hosts=hosts, devices=devices, verdict="confirmed")], yard(*facts))


def only(made: BuiltRemediations) -> Remediation:
    (ladder,) = made.ladders
    return ladder


def after(ladder: Remediation, *events: RemediationEvent) -> Remediation:
    rows = [ladder]
    for event in events:
        rows = advance(rows, replace(event, ladder=rows[0].id), yard())
    return rows[0]


IDLE = RemediationEvent("idle")
LOST = replace(fact("n1", "docker", "container.nvml", "unknown_error", CONTAINER[:12]), attrs={"id": CONTAINER})
FINE = replace(fact("n1", "docker", "container.nvml", "ok", "1" * 12), attrs={"id": "1" * 64})

ARGS = {
    "G19": {"bdf": BDF["gpu3"]}, "G20": {"bdf": BDF["gpu3"]}, "S01": {}, "S03": {}, "S06": {"container": CONTAINER}, "S10": {"hours": "72"},
    "S17": {}, "S19": {},
}  # fmt: skip


@pytest.mark.parametrize("fault", ARGS)
def test_a_rung_takes_its_values_from_what_machines_said(fault: str) -> None:
    ladder = only(built(fault, LOST, FINE))
    rung = next(row for row in ladder.rungs if row.remedy == next(name for name in MENDED[fault] if name != "drain_node"))
    assert rung.args == ARGS[fault]


def test_docker_is_restarted_after_its_configuration_and_with_the_node_drained() -> None:
    ladder = only(built("S07"))
    assert [(row.remedy, row.part, row.args) for row in ladder.rungs] == [
        ("drain_node", "prepare", {"node": "n1"}),
        ("configure_runtime", "prepare", {}),
        ("restart_service", "fix", {"service": "docker"}),
        ("resume_node", "restore", {"node": "n1"}),
    ]


def test_a_container_that_no_check_saw_is_left_to_people() -> None:
    made = built("S06", FINE)
    assert (made.ladders, made.by_hand) == ((), ("Container lost its GPUs (cgroup device loss): restart container.",))


def test_a_jobs_fault_is_mended_on_the_host_that_shows_it_and_stays_believed() -> None:
    cause = Hypothesis(label=FAULTS["S06"].label, verdict="confirmed")
    assert find_remediation_hosts(cause, yard(LOST, FINE)) == ("n1",)
    assert find_remediation_hosts(cause, yard(FINE)) == ()
    assert only(built("S06", LOST)).devices == ()


def test_what_counts_later_is_no_failure_and_what_made_it_worse_is() -> None:
    ladder = after(only(built("G19")), DONE, IDLE)
    assert ladder.current_step is not None
    assert ladder.current_step.remedy == "mig_off"
    on = after(ladder, UNCHANGED)
    assert on.current_step is not None
    assert (on.current_step.remedy, on.waiting_for) == ("gpu_reset", "idle")
    assert after(on, IDLE, DONE, DONE).waiting_for == "proof"
    bad = after(ladder, WORSE)
    assert (bad.outcome, bad.says) == ("ticket", "7 GPUs; n1 stays drained")


def test_younger_files_go_only_when_the_old_ones_were_not_enough() -> None:
    ladder = only(built("S10"))
    more = after(ladder, UNCHANGED)
    assert more.current_step is not None
    assert (more.current_step.remedy, more.current_step.args, more.waiting_for) == ("cleanup", {"hours": "24"}, "approval")
    assert after(more, UNCHANGED).outcome == "ticket"


def test_a_driver_that_cannot_be_reloaded_leads_to_a_reboot() -> None:
    ladder = after(only(built("S01")), DONE, IDLE, RemediationEvent("failed", says="something still holds the driver"))
    assert ladder.current_step is not None
    assert (ladder.current_step.remedy, ladder.says) == ("reboot", "something still holds the driver")


def test_a_lost_gpu_that_no_reboot_brings_back_gets_its_power_cut_and_then_people() -> None:
    lost = replace(fact("n1", "lspci", "pcie.rev_ff", True, "gpu3"), attrs={"bdf": BDF["gpu3"]})
    ladder = after(only(built("G07", lost)), DONE, IDLE, UNCHANGED)
    assert ladder.current_step is not None
    assert (ladder.current_step.remedy, ladder.waiting_for) == ("power_cycle", "idle")
    assert after(ladder, IDLE, UNCHANGED).says == "still there; next: open a replacement case with the vendor; n1 stays drained"
