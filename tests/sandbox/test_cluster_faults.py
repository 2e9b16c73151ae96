"""Every fault changes the outputs it should and no others, and the real parsers find its key fact."""

from dataclasses import replace

import pytest

from deploy.sandbox.cluster.faults import FAULTS
from deploy.sandbox.cluster.machines.state import ClusterState
from deploy.sandbox.cluster.render import RENDERERS
from deploy.sandbox.cluster.render.query import Query
from tests.support.fakes_cluster import cluster, facts

# checks, except the job log, whose output differs from a healthy node's with a job that ended alike
SHOWS = {
    "G01": "dmesg smi", "G02": "dmesg smi", "G03": "dmesg nccl1 smi", "G04": "dmesg smi", "G05": "dmesg smi", "G06": "dmesg smi",
    "G07": "dmesg lspci nccl1 nvlink smi topo", "G08": "base dmesg ipmi lspci nccl1 nvlink smi topo", "G09": "dmesg lspci smi",
    "G10": "base dmesg nccl1 nvlink procs smi topo", "G11": "dmesg", "G12": "base dmesg nccl1 procs", "G13": "dmesg nccl1 smi", "G14": "nccl1",
    "G15": "dmesg smi", "G16": "ipmi smi", "G17": "smi", "G18": "smi", "G19": "nccl1 smi topo", "G20": "smi",
    "S01": "base dmesg mods nccl1 nvlink procs smi sysd topo", "S02": "dmesg docker vers", "S03": "base lspci mods nccl1 nvlink procs smi sysd topo",
    "S04": "base nccl1 smi sysd", "S05": "base mods nccl1 smi sysd", "S06": "docker sysd", "S07": "docker sysd vers", "S08": "base mods", "S09": "base mem", "S10": "disk", "S11": "disk docker",
    "S12": "base disk dmesg procs store", "S13": "base disk dmesg", "S14": "dmesg mem", "S15": "base dmesg procs sched", "S16": "lspci", "S17": "base sysd time", "S18": "base procs smi",
    "S19": "cpu smi", "N01": "dmesg nccl1 nvlink topo", "N02": "nccl1 nvlink", "N03": "dmesg nccl1 sysd", "N04": "dmesg ibstat", "N05": "ibstat",
    "N06": "ibstat", "N07": "ibstat", "N08": "fabric ibstat", "N09": "ibstat", "N10": "base dmesg ibstat topo", "N11": "fabric ibstat net", "N12": "net", "N13": "net",
    "N14": "base env net store", "N15": "fabric ibstat", "F01": "vers", "F02": "vers", "F03": "env vers", "F04": "dmesg vers", "F05": "", "F06": "vers", "F07": "dmesg mem", "U01": "dmesg",
    "U02": "", "U03": "ibstat net", "U04": "env", "U05": "env", "U06": "env", "U07": "env fabric ibstat net", "U08": "", "U09": "", "U10": "", "U11": "env",
    "U12": "", "O01": "", "O02": "ipmi smi", "O03": "sched sysd", "O04": "net", "O05": "store", "O06": "sched sysd", "O07": "dmesg nccl1",
}  # fmt: skip

LOADS = {"cuda", "bw", "p2p", "gemm", "dcgm1", "dcgm2", "sdc", "e2e", "ibbw", "nccl2"}
DEAD = "bw cuda dcgm2 e2e gemm nccl2 p2p sdc"  # a GPU without CUDA fails every check that needs it
SLOW = "e2e gemm sdc"
# the same for load tests, listed only where a fault would show in one
LOADED = {
    "G01": "dcgm1 dcgm2", "G02": "dcgm1 dcgm2", "G03": DEAD, "G04": "dcgm1 dcgm2", "G06": "dcgm1 dcgm2", "G07": f"{DEAD} dcgm1", "G08": f"{DEAD} dcgm1",
    "G09": "bw dcgm2", "G10": DEAD, "G11": "dcgm2", "G12": DEAD, "G13": DEAD, "G14": SLOW, "G15": SLOW, "G16": SLOW, "G17": SLOW, "G18": SLOW, "G19": DEAD, "G20": "cuda",
    "N01": "nccl2 p2p sdc", "N02": "nccl2 p2p sdc", "N03": DEAD, "N04": "nccl2", "N05": "nccl2", "N07": "nccl2", "N08": "ibbw nccl2", "N10": "nccl2",
    "O01": "nccl2", "O02": SLOW, "O07": DEAD, "S01": f"{DEAD} dcgm1", "S03": f"{DEAD} dcgm1 ibbw", "S04": DEAD, "S05": DEAD, "S08": "ibbw nccl2",
    "S19": "e2e", "U03": "nccl2",
}  # fmt: skip

# one fact on the faulty node that identifies the fault
TELLS: dict[str, tuple[str, object]] = {
    "G01": ("gpu.remap.pending", True), "G02": ("gpu.remap.failure", True), "G03": ("kernel.xid", 95),
    "G04": ("gpu.ecc.sram_threshold_exceeded", True), "G05": ("kernel.xid", 92), "G06": ("gpu.inforom_corrupt", True), "G07": ("pcie.rev_ff", True),
    "G08": ("gpu.count", 7), "G09": ("pcie.downgraded", True), "G10": ("kernel.xid", 119), "G11": ("kernel.xid", 13), "G12": ("kernel.xid", 109),
    "G13": ("kernel.xid", 62), "G15": ("gpu.throttle.hw_thermal", True), "G16": ("gpu.throttle.hw_power_brake", True), "G17": ("gpu.clock.app", 345),
    "G18": ("gpu.power.limit", 300.0), "G19": ("gpu.mig", True), "G20": ("gpu.compute_mode", "Exclusive_Process"),
    "S01": ("smi.error", "driver_library_mismatch"), "S02": ("job.error", "cuda_driver_too_old"), "S03": ("smi.error", "driver_not_loaded"),
    "S04": ("service.event", "fm_killed"), "S05": ("service.event", "fm_version_mismatch"), "S06": ("service.event", "daemon_reload"),
    "S07": ("docker.nvidia_runtime", False), "S08": ("module.loaded", False), "S09": ("mem.memlock_kib", 64), "S10": ("disk.used_percent", 100),
    "S11": ("disk.size_bytes", 64 << 20), "S12": ("kernel.nfs_timeout", "nfs-a"), "S13": ("disk.readonly", True), "S14": ("kernel.oom_kill", "python3"),
    "S15": ("kernel.soft_lockup", "soft_lockup"), "S16": ("pcie.acs", True), "S17": ("time.synchronised", False), "S19": ("cpu.governor", "powersave"), "S18": ("proc.orphan", 62474),
    "N01": ("nvlink.inactive", 18), "N02": ("nvlink.crc_errors", 184213), "N03": ("kernel.sxid", 20034), "N04": ("ib.state", "Down"),
    "N05": ("ib.rate", 100), "N06": ("ib.link_downed", 37), "N07": ("ib.symbol_error", 45213), "N08": ("ib.state", "Initializing"),
    "N09": ("ib.pkeys", ["0xffff"]), "N10": ("kernel.mlx5", "health_compromised"), "N11": ("ib.roce_adp_retrans", 71204),
    "N12": ("net.mtu", 1500), "N13": ("net.master_reach", "refused"), "N14": ("net.master_reach", "no_name"), "N15": ("fabric.degraded", 1),
    "F01": ("vers.archs", ["sm_37", "sm_50", "sm_60", "sm_70", "sm_75"]), "F02": ("vers.nccl", "2.18.3"), "F03": ("vers.cudnn_mismatch", True),
    "F04": ("kernel.segfault", "libnccl.so.2"), "F05": ("job.error", "checkpoint_mismatch"), "F06": ("job.error", "import_undefined_symbol"),
    "F07": ("job.error", "dataloader_killed"), "U01": ("kernel.xid", 31), "U02": ("job.error", "cuda_oom"), "U03": ("job.error", "nccl_ib_device"),
    "U04": ("env.NCCL_SOCKET_IFNAME", "docker0"), "U05": ("env.CUDA_VISIBLE_DEVICES", "0,1,2,3"), "U06": ("env.WORLD_SIZE", "32"),
    "U07": ("env.NCCL_IB_GID_INDEX", "0"), "U08": ("job.error", "python_exception"), "U09": ("job.error", "file_not_found"),
    "U10": ("job.error", "collective_desync"), "U11": ("env.NCCL_P2P_DISABLE", "1"), "O02": ("gpu.throttle.hw_thermal", True),
    "O03": ("sched.reason", "maintenance CHG-20417"), "O06": ("sched.job", "PREEMPTED"), "O07": ("kernel.xid", 167),
}  # fmt: skip

LOGS = ("dmesg.ring", "dmesg.journal", "sysd.journal", "joblog.tail")


def _states(world: ClusterState) -> dict[str, bytes]:
    """Return the faulty node's outputs without logs and clock skew."""
    node = replace(world.nodes["n1"], skew=0.0)
    view = Query(node, world.job, cluster().t0, 0.0, 0.0, {}, True, 0)
    return {command: render(view).stdout + render(view).stderr for command, render in RENDERERS.items() if command not in LOGS}


def _new_lines(fault: str) -> set[str]:
    """Return the checks whose logs have lines of the last day that a healthy node lacks."""
    sick, well = cluster(fault).world().nodes["n1"], cluster().world().nodes["n1"]
    kernel = {line.text for line in sick.kernel_log if line.t > -86400} - {line.text for line in well.kernel_log}
    units = {line.text for line in sick.journal} - {line.text for line in well.journal}
    return ({"dmesg"} if kernel else set()) | ({"sysd"} if units else set())


def test_the_tables_speak_of_every_fault() -> None:
    assert SHOWS.keys() == FAULTS.keys()
    assert len(FAULTS) == 80


@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_a_fault_shows_in_its_checks_and_nowhere_else(fault: str) -> None:
    of = cluster(fault)
    sick, well = _states(of.world()), _states(of.world(faded=True))
    abnormal = {command.partition(".")[0] for command in sick if sick[command] != well[command]} | _new_lines(fault)
    assert abnormal - LOADS == set(SHOWS[fault].split())
    assert abnormal & LOADS == set(LOADED.get(fault, "").split())


@pytest.mark.parametrize("fault", sorted(FAULTS.keys() - {"S12", "N08", "N11", "O01", "O06"}))
def test_a_fault_of_one_node_leaves_the_state_of_the_others_alone(fault: str) -> None:
    of = cluster(fault)
    sick, well = of.world().nodes["n2"], of.world(faded=True).nodes["n2"]
    if FAULTS[fault].once:
        return
    assert sick.gpus == well.gpus
    assert sick.hcas == well.hcas
    assert sick.services == well.services


@pytest.mark.parametrize("fault", sorted(FAULTS))
async def test_the_parsers_read_the_faulty_node_and_find_what_tells_of_the_fault(fault: str) -> None:
    of = cluster(fault)
    found = await facts(of, hosts=["n1"])
    assert not [fact for fact in found if fact.status == "unreadable" and not fact.key and fact.check != "procs"]
    assert not of.unsafe_commands
    if fault in TELLS:
        key, value = TELLS[fault]
        assert any(fact.key == key and fact.value == value for fact in found), {str(f.value) for f in found if f.key == key}


@pytest.mark.parametrize("profile", ["dgx-h100-8", "hgx-h200-8", "hgx-a100-8", "pcie-l40s-8"])
async def test_a_healthy_cluster_is_read_whole_and_is_healthy(profile: str) -> None:
    found = await facts(cluster(profile=profile, nodes=2))
    assert not [fact for fact in found if fact.status.blind]
    assert not [
        fact for fact in found if fact.key in ("kernel.xid", "kernel.sxid", "job.error", "service.event", "proc.orphan") and fact.value
    ]
    assert not [
        fact
        for fact in found
        if fact.key in ("gpu.lost", "gpu.remap.pending", "topo.missing", "pcie.downgraded", "driver.mismatch") and fact.value
    ]
    assert {fact.value for fact in found if fact.key == "gpu.count"} == {8}


async def test_a_missing_gpu_moves_nvidia_smis_numbers_and_not_the_places() -> None:
    found = await facts(cluster("G08"), ["smi", "lspci"], ["n1"])
    assert {fact.device for fact in found if fact.key == "gpu.bdf"} == {f"gpu{i}" for i in range(8) if i != 5}


def test_a_fault_may_hit_several_gpus_and_nodes() -> None:
    world = cluster(faults=[{"id": "G17", "node": ["n0", "n2"], "gpu": [1, 6]}]).world()
    locked = {(node.name, gpu.index) for node in world.nodes.values() for gpu in node.gpus if gpu.reasons.app_clocks}
    assert locked == {("n0", 1), ("n0", 6), ("n2", 1), ("n2", 6)}


def test_arguments_of_the_case_reach_the_fault() -> None:
    world = cluster(
        faults=[{"id": "N04", "node": "n1", "args": {"hca": "mlx5_6"}}, {"id": "U08", "args": {"rank": 13, "key": "labels"}}]
    ).world()
    assert [hca.name for hca in world.nodes["n1"].hcas if hca.state == "Down"] == ["mlx5_6"]
    assert any("KeyError: 'labels'" in line.text for line in world.job.ranks[13].lines)
    assert not any("KeyError" in line.text for line in world.job.ranks[12].lines)


def test_a_jobs_log_ends_as_its_fault_demands() -> None:
    def steps_after(fault: str, t: float) -> bool:
        return any(line.t > t and "step=" in line.text for rank in cluster(fault).world().job.ranks for line in rank.lines)

    assert steps_after("G17", -200)
    assert not steps_after("G07", -620)
    assert not steps_after("S12", -620)
    assert not steps_after("F05", -40000)


def test_a_fault_that_comes_later_is_not_there_yet() -> None:
    of = cluster(faults=[{"id": "G17", "node": "n1", "gpu": 2, "t": 90}])
    assert not of.world(0).nodes["n1"].gpus[2].reasons.app_clocks
    assert of.world(120).nodes["n1"].gpus[2].reasons.app_clocks


@pytest.mark.parametrize("fault", ["N04", "N10"])
async def test_an_adapter_that_the_kernel_speaks_of_by_its_address_is_called_by_its_name(fault: str) -> None:
    found = await facts(cluster(fault), ["dmesg", "ibstat"], ["n1"])
    assert {fact.device for fact in found if fact.key == "kernel.mlx5"} == {"mlx5_3" if fault == "N04" else "mlx5_4"}
