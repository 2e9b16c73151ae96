"""Effects of commands on simulated faults: right commands repair, listed wrong ones do not."""

import pytest

from deploy.sandbox.cluster.access.cluster import SimulationRefusal
from deploy.sandbox.cluster.faults import FAULTS
from deploy.sandbox.cluster.plan import InjectedFault, Plan
from deploy.sandbox.cluster.simulation import remedies
from tests.support.clock import SetClock
from tests.support.fakes_repairs import NODE, START, condition_of, do, faults_of, live, unsound

RESET, REBOOT = "nvidia-smi --gpu-reset -i {bdf}", "systemctl reboot"
FABRIC = "systemctl restart nvidia-fabricmanager.service"

# the catalogue's repair, where a remedy's command can do it
MENDS = {
    "G01": RESET, "G03": RESET, "G07": REBOOT, "G09": REBOOT, "G10": RESET, "G12": RESET, "G13": RESET, "G17": "nvidia-smi -i {bdf} -rac",
    "G18": "nvidia-smi -pl 700", "S01": REBOOT, "S04": FABRIC, "S08": "modprobe nvidia-peermem", "S15": REBOOT, "S18": "kill -TERM 31882",
    "N01": RESET, "N03": REBOOT, "N10": REBOOT, "G19": "nvidia-smi -i {bdf} -mig 0", "G20": "nvidia-smi -i {bdf} -c 0",
    "S07": "nvidia-ctk runtime configure --runtime=docker && systemctl restart docker.service", "S03": "dkms autoinstall && modprobe nvidia",
    "S17": "systemctl start chronyd.service && chronyc waitsync 6 0 0 5 && chronyc makestep", "S19": "cpupower frequency-set -g performance",
}  # fmt: skip

AFTER = {"G10": REBOOT, "G12": REBOOT, "G13": REBOOT, "G03": REBOOT}  # heavier commands that also work

# listed as wrong, and repairs nothing: no effect, refused by the tool, or the fault returns
DOES_NOT = {
    RESET: "G02 G04 G05 G06 G07 G08 G09 G15 G16 G20 S01 S02 S03 S04 S06 S15 S18 S19 N02 N05 N07 N13 F01 F03 U01 U02 U05",
    REBOOT: "G02 G05 G08 G19 S02 S06 S07 S08 S09 S10 S11 S12 S13 S14 S17 N04 N09 N12 N14 F05 F07 U04 U05 U09 O03 O06",
    FABRIC: "S05 N03",
    "systemctl restart docker.service": "S07 S09",
    "chronyc makestep": "S17",
    "modprobe nvidia": "S03",
    "nvidia-smi -pl 700": "G16",
    "nvidia-smi -i {bdf} -rac": "G15 G16",
    "nvidia-smi -i {bdf} -rgc": "G17",
}

# listed as wrong because it disrupts more than needed, although it works
HEAVY = (("G01", REBOOT), ("G17", RESET), ("S04", REBOOT))


@pytest.mark.parametrize(("fault", "command"), [*MENDS.items(), *AFTER.items(), *HEAVY])
def test_the_right_command_mends_the_machine(fault: str, command: str) -> None:
    clock = SetClock(START)
    of = live(nodes=1, clock=clock.now)
    of.break_(fault, NODE, gpu=5, outcome="cures")
    assert unsound(of)
    do(of, "scancel 4711")
    assert [do(of, part) for part in command.split(" && ")] == [0] * len(command.split(" && "))
    assert (faults_of(of), unsound(of)) == ([], [])
    clock.go(hours=9)
    of.next_run()
    assert (faults_of(of), unsound(of), condition_of(of)) == ([], [], "allocated")


@pytest.mark.parametrize(("command", "fault"), [(command, fault) for command, faults in DOES_NOT.items() for fault in faults.split()])
def test_the_wrong_command_does_not(command: str, fault: str) -> None:
    clock = SetClock(START)
    of = live(nodes=1, clock=clock.now, pace=1.0)
    of.break_(fault, NODE, gpu=5)
    do(of, "scancel 4711")
    do(of, command)
    worse = remedies.EFFECTS.get((fault, "gpu_reset")) if command == RESET else None
    if fault not in faults_of(of):
        assert worse is None or worse.kind in ("masks", "worsens")
        clock.go(hours=9)
        if not of.waits_for():
            of.next_run()
    assert fault in faults_of(of) or (worse and worse.becomes in faults_of(of))


def test_every_row_is_about_a_fault_that_there_is() -> None:
    for (fault, operation), effect in remedies.EFFECTS.items():
        assert fault in FAULTS, operation
        assert not effect.becomes or effect.becomes in FAULTS
        assert (effect.kind == "masks") == bool(effect.jobs or effect.seconds)


def test_a_reset_replaces_the_row_and_zeroes_what_is_volatile() -> None:
    of = live(nodes=1)
    of.break_("G01", NODE, gpu=5)
    of.break_("G05", NODE, gpu=5)
    assert of.world().nodes[NODE].gpus[5].volatile.dram_corr > 0
    do(of, RESET)
    gpu = of.world().nodes[NODE].gpus[5]
    assert (gpu.remap.pending, gpu.remap.unc, gpu.volatile.dram_unc, gpu.volatile.dram_corr) == (False, 1, 0, 0)
    assert (gpu.aggregate.dram_unc, gpu.aggregate.dram_corr) == (1, 48_211)
    assert faults_of(of) == ["G05"]


def test_a_reset_mends_the_gpu_it_was_made_on_and_no_other() -> None:
    of = live(nodes=2)
    of.break_("G03", "*", gpu=5)
    of.break_("G03", NODE, gpu=2)
    do(of, RESET)
    assert (faults_of(of), faults_of(of, "gpu-002")) == (["G03"], ["G03"])
    assert [gpu.index for gpu in of.world().nodes[NODE].gpus if gpu.broken] == [2]


def test_a_reset_makes_a_gpu_worse_that_cannot_bear_one() -> None:
    of = live(nodes=1)
    of.break_("O07", NODE, gpu=5)
    do(of, RESET)
    assert faults_of(of) == ["G07"]
    assert do(of, RESET) == 15


def test_the_seed_decides_what_chance_decides() -> None:
    cured = [_reboots(seed, "G09") for seed in range(200)]
    assert 70 < sum(cured) < 130
    assert cured == [_reboots(seed, "G09") for seed in range(200)]
    assert sum(_reboots(seed, "G07") for seed in range(200)) > 150


def _reboots(seed: int, fault: str) -> bool:
    plan = Plan("dgx-h100-8", (NODE,), seed, (InjectedFault(fault, (NODE,), -600.0, (5,)),))
    after = remedies.apply_operation(plan, remedies.AppliedOperation("reboot", NODE, 0.0))
    return not [row for row in after.injected_faults if row.ended is None]


def test_what_is_only_masked_comes_back_with_the_next_run() -> None:
    of = live(nodes=1)
    of.break_("S14", NODE)
    do(of, REBOOT)
    assert (faults_of(of), unsound(of)) == ([], [])
    of.next_run()
    assert (faults_of(of), unsound(of)) == (["S14"], ["memory"])


def test_what_is_only_masked_comes_back_with_time() -> None:
    clock = SetClock(START)
    of = live(nodes=1, clock=clock.now, pace=1.0)
    of.break_("N02", NODE, gpu=5)
    do(of, "scancel 4711")
    do(of, RESET)
    assert unsound(of) == []
    clock.go(minutes=31)
    assert (faults_of(of), unsound(of)) == (["N02"], ["nvlink"])


def test_the_job_starts_again_when_its_last_node_is_resumed_and_meets_what_is_still_broken() -> None:
    of = live(nodes=2)
    of.break_("G02", NODE, gpu=5)
    do(of, f"scontrol update NodeName={NODE} State=DRAIN Reason=rackmedic:apr-000000000000")
    with pytest.raises(SimulationRefusal, match="the job needs gpu-001"):
        of.next_run()
    do(of, f"scontrol update NodeName={NODE} State=RESUME")
    job = of.world().job
    assert job.id == "4711"
    assert job.ended is not None
    assert any("uncorrectable ECC" in line.text for rank in job.of(NODE) for line in rank.lines)


def test_a_reboot_ends_the_job_on_all_of_its_nodes_and_healing_brings_it_back() -> None:
    of = live(nodes=2)
    do(of, REBOOT)
    assert of.world().job.ended is not None
    assert [condition_of(of, name) for name in of.hosts] == ["idle", "idle"]
    boot = of.world().nodes[NODE].boot_id
    of.heal()
    assert of.world().job.ended is None
    assert of.world().nodes[NODE].boot_id == boot


def test_healing_a_node_brings_it_up_and_into_service() -> None:
    of = live(nodes=2)
    fresh = of.state_hash()
    of.drain(NODE, "disk swap")
    of.heal(NODE)
    assert of.state_hash() == fresh
    of.go_down(NODE)
    assert (condition_of(of), of.reachable(NODE)) == ("off", False)
    of.heal(NODE)
    assert (condition_of(of), of.reachable(NODE)) == ("idle", True)


def test_a_fault_that_one_operation_alone_cures_is_cured_by_no_lighter_one() -> None:
    cluster = live()
    cluster.break_("G07", NODE, gpu=4, outcome="power_cycle")
    do(cluster, "systemctl reboot")
    assert faults_of(cluster) == ["G07"]
    do(cluster, "ipmitool chassis power cycle")
    assert faults_of(cluster) == []
