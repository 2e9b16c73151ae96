"""The taxonomy: complete tables, weights that separate look-alikes, and bad files refused with all problems."""

import itertools
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kb import fact_keys
from kb.taxonomy.expressions import Expression
from kb.taxonomy.loader import BUILT_IN_FOLDER, BadTaxonomy, load_taxonomy
from kb.taxonomy.taxonomy import CATEGORIES, Clue, Leaf, Taxonomy
from tests.support.fakes_kb import DGX, Seen, causes, likely, seen

pytestmark = pytest.mark.slow


TAXONOMY = load_taxonomy()
LEAVES = list(TAXONOMY.leaves.values())
DECIDABLE = list(TAXONOMY.decidable.leaves.values())
ONLY_WORDS = [leaf for leaf in LEAVES if leaf.only_words]
CLUES = [(leaf, clue) for leaf in LEAVES for clue in leaf.evidence]


def test_all_six_categories_have_leaves_and_every_branch_a_title() -> None:
    assert set(TAXONOMY.list_children("")) == set(CATEGORIES)
    assert len(LEAVES) >= 80
    for category in TAXONOMY.list_children(""):
        for branch in TAXONOMY.list_children(category):
            assert TAXONOMY.get_title(branch) != branch
            assert TAXONOMY.list_children(branch)
            assert all(TAXONOMY.list_children(label) == [] for label in TAXONOMY.list_children(branch))


@pytest.mark.parametrize("leaf", LEAVES, ids=lambda leaf: leaf.label)
def test_every_leaf_says_what_it_is_who_acts_and_where_that_is_known_from(leaf: Leaf) -> None:
    for text in (leaf.title, leaf.description, leaf.next_step, leaf.share_from):
        assert text.strip()
    assert leaf.sources
    assert leaf.words
    assert len(leaf.title) <= 90
    if not leaf.only_words:
        assert leaf.customer_words.strip()
        assert leaf.checks
        assert leaf.remedies
    assert "rackmedic" not in leaf.customer_words.lower()


@pytest.mark.parametrize("leaf", ONLY_WORDS, ids=lambda leaf: leaf.label)
def test_what_only_words_tell_of_is_never_weighed_and_keeps_its_title(leaf: Leaf) -> None:
    assert not leaf.evidence
    assert not leaf.remedies
    assert leaf.label not in TAXONOMY.decidable.leaves
    assert TAXONOMY.decidable.get_title(leaf.label) == leaf.title
    assert any(source.startswith("https://") for source in leaf.sources)


@pytest.mark.parametrize("leaf", DECIDABLE, ids=lambda leaf: leaf.label)
def test_without_a_clue_a_leaf_is_far_below_zero_and_with_all_of_them_it_is_certain(leaf: Leaf) -> None:
    assert -6.5 <= leaf.prior <= -3.8
    most = leaf.prior + sum(clue.weight for clue in leaf.evidence if clue.weight > 0)
    if all(clue.key == "peer.differs" for clue in leaf.evidence if clue.weight > 0):
        assert most <= math.log(0.6 / 0.4), "what only differs from its peers is no accusation"
        return
    assert any(clue.decisive for clue in leaf.evidence)
    assert not any(clue.decisive for clue in leaf.evidence if clue.key == "peer.differs")
    assert most >= math.log(0.95 / 0.05)


def samples(clue: Clue) -> Iterator[tuple[Seen, Any, Any]]:
    """Yield facts that may match this clue, from the constants in its expression."""
    row = fact_keys.find_key(clue.key)
    assert row is not None
    quoted = re.findall(r"'([^']*)'", clue.when)
    numbers = [float(n) for n in re.findall(r"(?<![\w'.-])\d+(?:\.\d+)?", clue.when)]
    spread = [number + step for number in numbers for step in (-1, 0, 1)]
    words = [*quoted, "docker0", "0,1,2,3", "CHG-1 planned", "preempted by 8", "libnccl.so.2", "server1", "eth0", "cudnn", "link_down"]
    values: dict[str, list[Any]] = {
        "bool": [True, False],
        "int": [*map(int, spread), 5, 0, -1, 10**7],
        "float": [*spread, 5.0, 350.0],
        "str": words,
        "list": [["0x8001", "0x7fff"], ["0x7fff"]],
    }
    attrs: list[dict[str, Any]] = [
        {},
        *(dict.fromkeys(("cgroup", "own", "first", "fatal", "major"), True) | {"count": n, "sympathetic": 48} for n in (1, 7)),
        *(dict.fromkeys(("cgroup", "own", "first", "fatal"), False) | {"type": "KeyError", "count": n} for n in (1, 7)),
        {"counts": True, "op": "AllReduce", "launched": 7, "others": 8, "rank": "6"},
        *({"what": what, "uid": "1000"} for what in ("JOB", "STEP")),
        {"told": "kill_task_failed", "looks": 3},
        *({"per_day": rate} for rate in (0.1, 20_000)),
        {"limit": True, "cgroup": "/slurmstepd.scope/job_812"},
        {"limit": False, "cgroup": "/slurmstepd.scope/job_812"},
        {"peer": "172.17.0.1<40001>", "ticks": 10**9},
        {"before": 12, "seconds": 60},
        {"text": "slurmd: fatal: Unable to process configuration file"},
        {"joined": 60, "expected": 64, "status": 12, "severity": "fatal", "fstype": "ext4", "tpc": 1, "gpc": 1, "count": 4, "capacity": 8},
        {"joined": 64, "expected": 64, "severity": "nonfatal", "default": 700.0, "devices_with_same": 3},
        *(
            {
                "share": share,
                "trouble": word,
                "load": "masked",
                "sub": "auto-restart",
                "fstype": "fuse.sshfs",
                "most": "x",
                "hosts": 3,
                "of": 4,
                "told": "gpus_missing",
            }
            for share, word in ((0.6, "frozen"), (0.1, "masked"), (0.1, "restarting"), (0.1, "stopped"))
        ),
    ]
    devices = [None, "gpu5", *quoted, "/"]
    others = [None, True, False, 0, 16, 9000, 700.0, 10**6, "active", "Active", "Down", "mlx5_0", *quoted, -1, ["0x8001"], ["0x7fff"]]
    for value, attr, device in itertools.product(values[row.kind], attrs, devices):
        both = [(value, value), (True, True), (10**6, value)]
        for expected, majority in [(None, None), *((e, None) for e in others), *((None, m) for m in others), *both]:
            yield Seen(clue.key, value, device, attr), expected, majority


@pytest.mark.parametrize(("leaf", "clue"), CLUES, ids=lambda one: one.label if isinstance(one, Leaf) else one.id)
def test_every_clue_matches_some_fact_of_its_key_and_says_so(leaf: Leaf, clue: Clue) -> None:
    hit = next(((fact, e, m) for fact, e, m in samples(clue) if clue.matches(fact, e, m)), None)
    assert hit is not None, f"{leaf.label} {clue.id}: {clue.when} never holds"
    fact, expected, majority = hit
    said = clue.format_sentence(fact, expected, majority)
    assert said
    assert "{" not in said
    assert not clue.matches(Seen(fact.key, fact.value, fact.device, fact.attrs, status="absent"), expected, majority)
    assert not clue.matches(Seen(fact.key, fact.value, fact.device, fact.attrs, stale=True), expected, majority)


XID = "kernel.xid"
ERR = "job.error"
# scenario → facts → the one cause. Evidence as the cheap checks give it; what points elsewhere is part of the scenario.
SCENARIOS: dict[str, tuple[list[Seen], str]] = {
    "double-bit error waits for its remap": (
        [seen(XID, 48, "gpu5"), seen(XID, 63, "gpu5", sympathetic=48), seen(XID, 94, "gpu5", sympathetic=48), seen("gpu.remap.pending")],
        "GPU.MEMORY.DBE_Row_Remap_Pending",
    ),
    "the same with nvidia-smi blind": (
        [seen(XID, 48, "gpu5"), seen(XID, 63, "gpu5", sympathetic=48), seen(ERR, "cuda_ecc_uncorrectable")],
        "GPU.MEMORY.DBE_Row_Remap_Pending",
    ),
    "remapping failed": ([seen(XID, 64), seen("gpu.remap.failure"), seen("gpu.remap.pending", False)], "GPU.MEMORY.Row_Remap_Failure"),
    "uncontained error": (
        [seen(XID, 95), seen(XID, 45, sympathetic=95), seen("gpu.ecc.dram_uncorrectable", 1)],
        "GPU.MEMORY.Uncontained_ECC",
    ),
    "SRAM above its threshold": (
        [seen(XID, 48), seen(XID, 172), seen("gpu.ecc.sram_uncorrectable", 3), seen("gpu.ecc.sram_threshold_exceeded")],
        "GPU.MEMORY.SRAM_Threshold_Exceeded",
    ),
    "many corrected errors": ([seen(XID, 92), seen("gpu.remap.pending", False)], "GPU.MEMORY.High_Correctable_Rate"),
    "infoROM": ([seen("gpu.inforom_corrupt")], "GPU.MEMORY.InfoROM_Corruption"),
    "fell off the bus, links and ranks with it": (
        [
            seen(XID, 79, "gpu5"),
            seen("gpu.count", 7),
            seen("pcie.rev_ff"),
            seen("kernel.sxid", 20034, fatal=True),
            seen("nvlink.inactive", 18),
            seen(ERR, "nccl_remote_exited"),
        ],
        "GPU.BUS.Fallen_Off_Bus",
    ),
    "not enumerated": (
        [seen("gpu.count", 7), seen("pcie.gpu_count", 7), seen("pcie.absent"), seen("kernel.pcie_hotplug", "link_down")],
        "GPU.BUS.Not_Enumerated",
    ),
    "PCIe link at half width": (
        [seen("pcie.width", 8), seen("gpu.pcie.width", 8), seen("kernel.aer", "corrected")],
        "GPU.BUS.PCIe_Link_Downgraded",
    ),
    "GSP": ([seen(XID, 119, count=3), seen("proc.blocked", "nvidia-smi")], "GPU.EXECUTION.GSP_RPC_Timeout"),
    "same TPC": (
        [seen("kernel.xid_repeat", "same_tpc", xid=13, count=3), seen(XID, 13), seen(ERR, "cuda_illegal_access", first=True)],
        "GPU.EXECUTION.SM_Exception_Same_TPC",
    ),
    "context switch": ([seen(XID, 109)], "GPU.EXECUTION.Ctxsw_Timeout"),
    "PMU": ([seen(XID, 62)], "GPU.EXECUTION.PMU_Halt"),
    "wrong results": ([seen("nccl.wrong", 12), seen(ERR, "loss_nan")], "GPU.EXECUTION.Silent_Data_Corruption"),
    "wrong results, and none in another run": ([seen("nccl.wrong", 20), seen("nccl.wrong", 0)], "GPU.EXECUTION.Silent_Data_Corruption"),
    "one hot GPU": ([seen("gpu.throttle.hw_thermal"), seen("gpu.temp.core", 91)], "GPU.THERMAL.HW_Thermal_Slowdown"),
    "power brake": ([seen("gpu.throttle.hw_power_brake"), seen("gpu.throttle.hw_slowdown")], "GPU.POWER.Power_Brake_PSU"),
    "clocks locked": (
        [seen("gpu.throttle.applications_clocks"), seen("gpu.clock.app", 345), seen("gpu.clock.sm", 345), seen("gpu.temp.core", 41)],
        "GPU.CONFIG.Clocks_Locked_Low",
    ),
    "power capped": ([seen("gpu.power.limit", 300.0), seen("gpu.throttle.sw_power_cap")], "GPU.CONFIG.Power_Cap_Low"),
    "MIG left on": ([seen("gpu.mig"), seen("topo.missing"), seen(ERR, "cuda_invalid_ordinal")], "GPU.CONFIG.MIG_Left_Enabled"),
    "exclusive mode": ([seen("gpu.compute_mode", "Exclusive_Process")], "GPU.CONFIG.Compute_Mode_Restricted"),
    "driver mismatch": (
        [seen("smi.error", "driver_library_mismatch"), seen("driver.mismatch"), seen("service.event", "upgrade_ran", "apt-daily")],
        "SYSTEM_SOFTWARE.DRIVER.Driver_Library_Mismatch",
    ),
    "module missing": (
        [seen("smi.error", "driver_not_loaded"), seen("module.loaded", False, "nvidia"), seen("module.loaded", False, "nvidia_peermem")],
        "SYSTEM_SOFTWARE.DRIVER.Module_Not_Loaded",
    ),
    "image too new, one firmware timeout as red herring": (
        [seen(ERR, "cuda_driver_too_old"), seen(XID, 119, count=1)],
        "SYSTEM_SOFTWARE.CUDA.Host_Container_CUDA_Mismatch",
    ),
    "fabric manager killed": (
        [
            seen("service.state", "failed", "nvidia-fabricmanager"),
            seen("service.event", "fm_killed"),
            seen("gpu.fabric.state", "In Progress"),
        ],
        "SYSTEM_SOFTWARE.FABRIC.FabricManager_Down",
    ),
    "fabric manager of another version": (
        [
            seen("service.state", "failed", "nvidia-fabricmanager"),
            seen("service.event", "fm_version_mismatch"),
            seen("gpu.fabric.state", "In Progress"),
        ],
        "SYSTEM_SOFTWARE.FABRIC.FabricManager_Version_Mismatch",
    ),
    "container lost its GPUs": (
        [seen(ERR, "nvml_unknown_error"), seen("service.event", "daemon_reload")],
        "SYSTEM_SOFTWARE.CONTAINER.Cgroup_Device_Loss",
    ),
    "memlock": ([seen("mem.memlock_kib", 64), seen(ERR, "memlock")], "SYSTEM_SOFTWARE.LIMITS.Memlock_Too_Low"),
    "root full": ([seen("disk.used_percent", 100, "/"), seen(ERR, "no_space")], "SYSTEM_SOFTWARE.STORAGE.Root_FS_Full"),
    "small shared memory": (
        [seen("disk.size_bytes", 64 << 20, "/dev/shm"), seen(ERR, "dataloader_shm")],
        "SYSTEM_SOFTWARE.STORAGE.Shm_Too_Small",
    ),
    "NFS": (
        [seen("kernel.nfs_timeout", "nas1"), seen("kernel.soft_lockup", "hung_task"), seen(ERR, "nccl_timeout")],
        "SYSTEM_SOFTWARE.STORAGE.NFS_Server_Not_Responding",
    ),
    "disk failed": (
        [seen("kernel.fs_readonly", "nvme1n1"), seen("kernel.disk_error", "nvme_timeout"), seen(ERR, "read_only_fs")],
        "SYSTEM_SOFTWARE.STORAGE.FS_Remounted_RO",
    ),
    "host out of memory, others time out": (
        [
            seen("kernel.oom_kill", "python3", cgroup=False),
            seen("mem.oom_kills", 1),
            seen(ERR, "host_killed", first=True),
            seen(ERR, "nccl_timeout"),
        ],
        "SYSTEM_SOFTWARE.MEMORY.Host_OOM_Kill",
    ),
    "job's group out of memory": (
        [seen("kernel.oom_kill", "python3", cgroup=True), seen(ERR, "dataloader_killed")],
        "FRAMEWORK.DATA.Dataloader_Worker_Leak",
    ),
    "soft lockup": ([seen("kernel.soft_lockup", "soft_lockup", cpu=18, seconds=27)], "SYSTEM_SOFTWARE.KERNEL.Soft_Lockup"),
    "left-over process": (
        [seen("proc.orphan", 61000, "gpu3", pid=4), seen(ERR, "cuda_oom", own=False, other_gib=61)],
        "SYSTEM_SOFTWARE.PROCESS.Orphan_GPU_Process",
    ),
    "NVLinks down": (
        [seen("nvlink.inactive", 18, "gpu1"), seen("nvlink.active", 0, "gpu1"), seen("topo.missing"), seen(ERR, "nccl_connection_refused")],
        "INTERCONNECT.NVLINK.Link_Inactive",
    ),
    "NVLinks down, their own check blind": (
        [seen("topo.missing", device="gpu1"), seen(XID, 74, "gpu1"), seen(ERR, "nccl_unhandled_cuda")],
        "INTERCONNECT.NVLINK.Link_Inactive",
    ),
    "marginal NVLink": ([seen("nvlink.crc_errors", 4000), seen("nvlink.replay_errors", 90)], "INTERCONNECT.NVLINK.CRC_Marginal"),
    "switch error": (
        [seen("kernel.sxid", 20034, "nvswitch0", fatal=True, link=30), seen(XID, 74), seen("service.event", "fm_nvswitch_fatal")],
        "INTERCONNECT.NVSWITCH.Fatal_SXid",
    ),
    "port down": (
        [seen("ib.state", "Down", "mlx5_3"), seen("ib.phys_state", "Disabled", "mlx5_3"), seen(ERR, "nccl_ib_error", status=12)],
        "INTERCONNECT.IB.Port_Down",
    ),
    "rate degraded": ([seen("ib.rate", 100, "mlx5_5"), seen("ib.state", "Active", "mlx5_5")], "INTERCONNECT.IB.Rate_Degraded"),
    "flapping": (
        [seen("ib.link_downed", 37, "mlx5_2", per_day=4.1), seen("ib.state", "Active"), seen(ERR, "nccl_ib_error", status=12)],
        "INTERCONNECT.IB.Link_Flapping",
    ),
    "symbol errors": (
        [seen("ib.symbol_error", 5000, per_day=700), seen("ib.port_rcv_errors", 900), seen("ib.link_downed", 0)],
        "INTERCONNECT.IB.Symbol_Errors",
    ),
    "adapter failed": (
        [seen("kernel.mlx5", "health_compromised", "mlx5_4"), seen("ib.count", 7), seen(ERR, "nccl_ib_device", device="mlx5_4")],
        "INTERCONNECT.IB.HCA_Firmware_Fatal",
    ),
    "adapter gone, kernel log blind": (
        [seen("ib.count", 7), seen(ERR, "nccl_ib_error", status=12, vendor_err=129)],
        "INTERCONNECT.IB.HCA_Firmware_Fatal",
    ),
    "infoROM, and one look of nvidia-smi that saw nothing": (
        [seen("kernel.inforom", "checksum mismatch"), seen("gpu.inforom_corrupt", False)],
        "GPU.MEMORY.InfoROM_Corruption",
    ),
    "uncontained error, kernel log blind": (
        [seen("gpu.recovery_action", "Reset"), seen("gpu.ecc.dram_uncorrectable", 2), seen("cuda.ok", False), seen(ERR, "cublas_failed")],
        "GPU.MEMORY.Uncontained_ECC",
    ),
    "hot GPU, nvidia-smi blind": ([seen("kernel.gpu_thermal", "91 C is above the slowdown threshold")], "GPU.THERMAL.HW_Thermal_Slowdown"),
    "power supply failed, nvidia-smi blind": (
        [seen("ipmi.event", "psu", sensor="PSU2"), seen("ipmi.sensor", "psu", sensor="PSU2")],
        "GPU.POWER.Power_Brake_PSU",
    ),
    "engine without a GPU driver, asked by nobody but its journal": (
        [seen("service.event", "no_gpu_driver", "docker")],
        "SYSTEM_SOFTWARE.CONTAINER.NVIDIA_Runtime_Missing",
    ),
    "container lost its GPUs, journal blind": (
        [seen("container.nvml", "unknown_error"), seen("container.nvml", "ok"), seen(ERR, "nvml_unknown_error")],
        "SYSTEM_SOFTWARE.CONTAINER.Cgroup_Device_Loss",
    ),
    "host out of memory, kernel log blind": (
        [
            seen("mem.oom_kills", 1, limit=False, cgroup="/slurmstepd.scope/job_812"),
            seen("mem.available_bytes", 512 << 20),
            seen(ERR, "host_killed", first=True),
        ],
        "SYSTEM_SOFTWARE.MEMORY.Host_OOM_Kill",
    ),
    "job's group out of memory, no log of the job": (
        [seen("kernel.oom_kill", "python3", cgroup=True), seen("mem.oom_kills", 1, limit=True, cgroup="/slurmstepd.scope/job_812")],
        "FRAMEWORK.DATA.Dataloader_Worker_Leak",
    ),
    "switch error, kernel log blind": ([seen("service.event", "fm_nvswitch_fatal")], "INTERCONNECT.NVSWITCH.Fatal_SXid"),
    "cable out, adapters blind": (
        [seen("kernel.mlx5", "cable_unplugged", "mlx5_3"), seen(ERR, "nccl_ib_error", status=12)],
        "INTERCONNECT.IB.Port_Down",
    ),
    "no code for the GPU, no log of the job": ([seen("vers.arch_missing", "sm_90")], "FRAMEWORK.VERSION.Torch_Arch_Missing"),
    "extension of another PyTorch, no log of the job": ([seen("vers.extension_mismatch", "flash_attn")], "FRAMEWORK.LIB.Extension_ABI"),
    "page faults on several GPUs, no log of the job": (
        [
            seen(XID, 31, "gpu1", devices_with_same=3),
            seen(XID, 31, "gpu4", devices_with_same=3),
            seen("kernel.xid_repeat", "scattered", xid=31),
        ],
        "USER.CODE.Illegal_Memory_Access",
    ),
    "an address that every node has, environment blind": (
        [seen(ERR, "nccl_connection_refused", peer="172.17.0.1<40001>"), seen(ERR, "nccl_init_failed")],
        "USER.CONFIG.NCCL_SOCKET_IFNAME_Wrong",
    ),
    "adapter that cannot be opened, environment blind": (
        [seen(ERR, "nccl_ib_device", device="mlx5_1"), seen(ERR, "nccl_ib_error"), seen("ib.count", 8)],
        "USER.CONFIG.NCCL_IB_HCA_Wrong",
    ),
    "no code for the GPU": ([seen(ERR, "cuda_no_kernel_image", first=True)], "FRAMEWORK.VERSION.Torch_Arch_Missing"),
    "NCCL crashes": ([seen("kernel.segfault", "libnccl.so.2.18.3")], "FRAMEWORK.NCCL.Library_Segfault"),
    "checkpoint": ([seen(ERR, "checkpoint_corrupt")], "FRAMEWORK.MODEL.Checkpoint_Incompatible"),
    "extension of another toolkit": ([seen(ERR, "cuda_toolkit_mismatch")], "FRAMEWORK.LIB.Extension_ABI"),
    "no header for a build at run time": ([seen(ERR, "headers_missing", header="Python.h")], "FRAMEWORK.LIB.Headers_Missing"),
    "another NCCL": ([seen(ERR, "import_nccl_symbol", symbol="ncclCommRegister")], "FRAMEWORK.NCCL.Library_Conflict"),
    "the system's CUDA libraries": (
        [seen(ERR, "import_cuda_symbol", symbol="__nvJitLinkAddData")],
        "FRAMEWORK.LIB.Library_Path_Shadows_Wheels",
    ),
    "two ranks on one GPU, although the job sees all": (
        [seen(ERR, "duplicate_gpu", device="1000"), seen("env.CUDA_VISIBLE_DEVICES", "0,1,2,3,4,5,6,7")],
        "USER.CONFIG.CUDA_VISIBLE_DEVICES_Wrong",
    ),
    "too many files, as the job says": ([seen(ERR, "too_many_files")], "SYSTEM_SOFTWARE.LIMITS.Open_Files_Low"),
    "another driver holds the GPUs": (
        [seen("module.loaded", True, "nouveau"), seen("module.loaded", False, "nvidia")],
        "SYSTEM_SOFTWARE.DRIVER.Nouveau_Holds_GPUs",
    ),
    "a driver that forgets its GPUs": (
        [seen("service.event", "driver_timed_out", "docker"), seen("gpu.persistence", False, "gpu0")],
        "SYSTEM_SOFTWARE.DRIVER.Persistence_Mode_Off",
    ),
    "a policy refuses the module": (
        [seen("kernel.module_refused", "policy"), seen("module.loaded", False, "nvidia")],
        "SYSTEM_SOFTWARE.DRIVER.Secure_Boot_Refuses_Module",
    ),
    "no room for the GPUs' windows": (
        [seen("kernel.bar_missing", "1", "gpu0"), seen("kernel.gpu_init", "failed", "gpu0"), seen("smi.error", "no_devices")],
        "SYSTEM_SOFTWARE.PCIE.BAR_Space_Missing",
    ),
    "the fabric waits for a manager that does not run": (
        [seen("fabric.unmanaged", True, gpus=8), seen("gpu.fabric.state", "In Progress", "gpu0"), seen(ERR, "cuda_system_not_initialized")],
        "SYSTEM_SOFTWARE.FABRIC.FabricManager_Down",
    ),
    "memory that no listed process holds": (
        [seen("gpu.memory.unowned", 62_750, "gpu5"), seen(ERR, "cuda_oom")],
        "SYSTEM_SOFTWARE.PROCESS.Orphan_GPU_Process",
    ),
    "extension": ([seen(ERR, "import_undefined_symbol")], "FRAMEWORK.LIB.Extension_ABI"),
    "illegal access on several GPUs": (
        [
            seen(ERR, "cuda_illegal_access", first=True),
            seen(XID, 31, "gpu1"),
            seen(XID, 31, "gpu4"),
            seen("kernel.xid_repeat", "scattered"),
        ],
        "USER.CODE.Illegal_Memory_Access",
    ),
    "own batch too large": ([seen(ERR, "cuda_oom", own=True)], "USER.CODE.Batch_Too_Large_OOM"),
    "wrong adapter": (
        [seen(ERR, "nccl_ib_device", device="mlx5_1"), seen("env.NCCL_IB_HCA", "mlx5_0,mlx5_1"), seen("ib.count", 8)],
        "USER.CONFIG.NCCL_IB_HCA_Wrong",
    ),
    "wrong interface": (
        [seen("env.NCCL_SOCKET_IFNAME", "docker0"), seen(ERR, "nccl_connection_refused")],
        "USER.CONFIG.NCCL_SOCKET_IFNAME_Wrong",
    ),
    "fewer GPUs visible": (
        [seen("env.CUDA_VISIBLE_DEVICES", "0,1,2,3"), seen(ERR, "cuda_invalid_ordinal"), seen("gpu.count", 8)],
        "USER.CONFIG.CUDA_VISIBLE_DEVICES_Wrong",
    ),
    "ranks never started": ([seen(ERR, "rendezvous_timeout", joined=64, expected=72)], "USER.CONFIG.World_Size_Mismatch"),
    "wrong GID": (
        [seen("env.NCCL_IB_GID_INDEX", "0"), seen(ERR, "nccl_ib_error", status=12, vendor_err=129), seen("ib.state", "Active")],
        "USER.CONFIG.NCCL_IB_GID_INDEX_Wrong",
    ),
    "one rank raised": (
        [seen(ERR, "python_exception", first=True, rank=13, type="KeyError"), seen(ERR, "nccl_timeout", first=False)],
        "USER.CODE.Rank_Exception_Others_Timeout",
    ),
    "missing file": ([seen(ERR, "file_not_found", first=True)], "USER.DATA.File_Or_Permission"),
    "desync": ([seen(ERR, "collective_desync", rank=5, seq=1041), seen(ERR, "nccl_timeout")], "USER.CODE.Collective_Desync"),
    "P2P off": (
        [seen("env.NCCL_P2P_DISABLE", "1"), seen("env.NCCL_SHM_DISABLE", "1"), seen("nvlink.inactive", 0)],
        "USER.CONFIG.NCCL_P2P_Disabled",
    ),
    "diverges by itself": ([seen(ERR, "grad_explodes"), seen(ERR, "loss_nan"), seen("nccl.wrong", 0)], "USER.CODE.Loss_NaN_Hyperparameter"),
    "node gone": ([seen("host.reachable", False), seen(ERR, "nccl_timeout")], "OTHER.INFRA.Node_Unreachable"),
    "tracker down": ([seen(ERR, "service_unreachable", first=True)], "OTHER.SERVICE.Auxiliary_Service_Down"),
    "store throttles": ([seen(ERR, "storage_throttled")], "OTHER.SERVICE.Object_Storage_Throttled"),
    "preempted": ([seen(ERR, "preempted"), seen(ERR, "sigterm")], "OTHER.SCHED.Preemption"),
    "time limit": ([seen(ERR, "time_limit", first=True), seen(ERR, "sigterm")], "OTHER.SCHED.Time_Limit_Reached"),
    "time limit by the accounts": ([seen("sched.job", "TIMEOUT", job="123")], "OTHER.SCHED.Time_Limit_Reached"),
    "deadline by the accounts": ([seen("sched.job", "DEADLINE", job="123")], "OTHER.SCHED.Time_Limit_Reached"),
    "cancelled": ([seen(ERR, "cancelled", what="JOB"), seen(ERR, "sigterm")], "OTHER.SCHED.Job_Cancelled"),
    "cancelled by a user": ([seen(ERR, "cancelled", uid="1000")], "OTHER.SCHED.Job_Cancelled"),
    "cancelled by root in the accounts": ([seen("sched.job", "CANCELLED", job="123", uid="0")], "OTHER.SCHED.Job_Cancelled"),
    "the controller rejects a host": ([seen("base.answer", "rejected", "scheduler")], "SYSTEM_SOFTWARE.SERVICE.Munge_Not_Answering"),
    "a fan beyond its limit": ([seen("ipmi.sensor", "fan", sensor="Fan 3", text="0 RPM")], "OTHER.HARDWARE.Fan_Failure"),
    "a step that could not be killed": (
        [
            seen(ERR, "step_unkillable"),
            seen("sched.reason", "Kill task failed", told="kill_task_failed"),
            seen("proc.blocked", "python3", looks=3),
        ],
        "SYSTEM_SOFTWARE.PROCESS.Blocked_In_Kernel",
    ),
}


@pytest.mark.parametrize(("facts", "label"), SCENARIOS.values(), ids=SCENARIOS.keys())
def test_evidence_leads_to_its_cause_and_to_no_look_alike(facts: list[Seen], label: str) -> None:
    found = likely(TAXONOMY, facts)
    assert found[label] >= 0.95
    # A rack's heat shows on its hosts like one GPU's: the engine requires two hosts (min_hosts) for it.
    several = {other for other in causes(found, TAXONOMY) if TAXONOMY.get_leaf(other).min_hosts > 1}
    one_host = Taxonomy({k: leaf for k, leaf in TAXONOMY.leaves.items() if k not in several}, TAXONOMY.branches)
    assert causes({k: p for k, p in found.items() if k not in several}, one_host) == [label]


CONTROLS: dict[str, list[Seen]] = {
    "an Xid from before the last boot": [Seen(XID, 79, "gpu5", stale=True), seen("gpu.count", 8), seen("pcie.gpu_count", 8)],
    "a flood of ACCESS_REG lines": [seen("kernel.mlx5", "access_reg", "mlx5_0", count=4000)],
    "corrected errors and remapped rows": [
        seen("gpu.ecc.dram_correctable", 12),
        seen("gpu.ecc.dram_correctable_total", 40),
        seen("gpu.remap.correctable", 4),
        seen("gpu.remap.pending", False),
        seen("gpu.remap.failure", False),
        seen("gpu.retired.pages", 0),
    ],
    "idle GPUs": [
        seen("gpu.throttle.idle"),
        seen("gpu.pcie.gen", 1),
        seen("pcie.speed", 2.5),
        seen("pcie.downgraded"),
        seen("gpu.clock.sm", 345),
        seen("gpu.pcie.width", 16),
    ],
    "squashfs loops and a full snap": [
        seen("disk.readonly", True, "/snap/core20/1", fstype="squashfs"),
        seen("disk.used_percent", 100, "/snap/core20/1"),
        seen("disk.readonly", True, "/mnt/iso", fstype="iso9660"),
    ],
    "a job that was interrupted": [seen(XID, 43, "gpu1"), seen(XID, 45, "gpu1")],
    "PCIe errors that were corrected": [seen("kernel.aer", "corrected"), seen("gpu.pcie.replay", 12)],
    "at the power limit under load": [seen("gpu.throttle.sw_power_cap"), seen("gpu.power.limit", 700.0)],
    "a collective time-out and nothing else": [seen(ERR, "nccl_timeout"), seen(ERR, "nccl_remote_exited")],
    "one crash that printed many lines": [seen(XID, 13, "gpu1", count=40, gpc=2, tpc=4), seen(XID, 43, "gpu1", sympathetic=13)],
    "a step that ended because a task of it did": [seen(ERR, "cancelled", what="STEP"), seen(ERR, "sigterm")],
    "a job that was cancelled after it hung": [seen(ERR, "nccl_timeout", first=True), seen(ERR, "cancelled", what="JOB")],
    "a job that hung until its time limit": [seen(ERR, "nccl_timeout", first=True), seen(ERR, "time_limit")],
    "a job that ended well": [seen("sched.job", "COMPLETED", job="123"), seen("sched.job", "CANCELLED", job="123")],
    "a step that could not be killed and nothing else": [seen(ERR, "step_unkillable")],
    "an error nobody has a leaf for": [seen(XID, 167, "gpu2")],
}


@pytest.mark.parametrize("facts", CONTROLS.values(), ids=CONTROLS.keys())
def test_what_is_normal_makes_nothing_certain(facts: list[Seen]) -> None:
    assert max(likely(TAXONOMY, facts).values()) < 0.6


def test_an_adapter_that_is_down_by_design_accuses_no_host() -> None:
    facts = [seen("ib.state", "Down", "mlx5_1", link_layer="Ethernet"), seen("ib.phys_state", "Disabled", "mlx5_1", link_layer="Ethernet")]
    assert max(likely(TAXONOMY, facts, {"ib.state": "Down"}).values()) < 0.5
    assert max(likely(TAXONOMY, facts, {}).values()) < 0.5


def test_one_interface_of_another_mtu_is_found_beside_others_that_are_right() -> None:
    facts = [seen("net.mtu", 1500, "eth0"), seen("net.mtu", 9000, "eth1")]
    assert causes(likely(TAXONOMY, facts, majority={"net.mtu": 9000}), TAXONOMY) == ["INTERCONNECT.ETH.MTU_Mismatch"]


def test_without_the_driver_no_module_on_top_of_it_is_the_cause() -> None:
    facts = [seen("module.loaded", False, "nvidia"), seen("module.loaded", False, "nvidia_peermem")]
    assert likely(TAXONOMY, facts)["SYSTEM_SOFTWARE.RDMA.Peermem_Not_Loaded"] < 0.5


def test_an_idle_fabric_manager_is_normal_where_there_is_no_switch() -> None:
    facts = [
        seen("service.state", "inactive", "nvidia-fabricmanager"),
        seen("service.event", "fm_nothing_to_do"),
        seen("gpu.fabric.state", "Not Supported"),
    ]
    assert max(likely(TAXONOMY, facts, {"service.state": "inactive"}).values()) < 0.5


def test_a_fabric_manager_of_another_version_is_no_cause_where_it_runs_or_is_not_meant_to() -> None:
    other = seen("driver.fabricmanager_mismatch", manager="550.54.15", loaded="550.90.07")
    for state in ("active", "inactive", "not-found"):
        facts = [other, seen("service.state", state, "nvidia-fabricmanager")]
        assert max(likely(TAXONOMY, facts, {"service.state": state}).values()) < 0.5
    failed = [other, seen("service.state", "failed", "nvidia-fabricmanager"), seen("gpu.fabric.state", "In Progress")]
    assert causes(likely(TAXONOMY, failed), TAXONOMY) == ["SYSTEM_SOFTWARE.FABRIC.FabricManager_Version_Mismatch"]


def test_links_that_a_pcie_card_never_had_are_not_missing() -> None:
    facts = [seen("nvlink.inactive", 12, f"gpu{n}") for n in range(4)]
    assert max(likely(TAXONOMY, facts, {}, {"nvlink.inactive": 12}).values()) < 0.5


def test_a_node_that_lacks_the_partition_key_of_the_others_is_found() -> None:
    facts = [seen("ib.pkeys", ["0x7fff"], "mlx5_0"), seen("ib.state", "Active", "mlx5_0")]
    assert causes(likely(TAXONOMY, facts, DGX, {"ib.pkeys": ["0x8001", "0x7fff"]}), TAXONOMY) == ["INTERCONNECT.IB.PKey_Mismatch"]


def test_ports_that_all_wait_for_a_subnet_manager_are_one_cause() -> None:
    facts = [seen("ib.state", "Initializing", "mlx5_0"), seen("ib.sm_lid", 0, "mlx5_0")]
    found = likely(TAXONOMY, facts, DGX, {"ib.state": "Initializing", "ib.sm_lid": 0})
    assert causes(found, TAXONOMY) == ["INTERCONNECT.IB.Subnet_Manager_Down"]


def test_a_removed_leaf_is_gone_from_every_place() -> None:
    less = TAXONOMY.without_labels("GPU.BUS.Fallen_Off_Bus")
    assert "GPU.BUS.Fallen_Off_Bus" not in less.leaves
    assert all("GPU.BUS.Fallen_Off_Bus" not in leaf.suppresses for leaf in less.leaves.values())
    assert all(leaf.label != "GPU.BUS.Fallen_Off_Bus" for leaf, _ in less.list_clues(XID))


def test_clues_are_found_by_key_and_know_whom_to_trust() -> None:
    assert {leaf.label for leaf, _ in TAXONOMY.list_clues("kernel.fs_readonly")} == {"SYSTEM_SOFTWARE.STORAGE.FS_Remounted_RO"}
    assert TAXONOMY.list_clues("no.such.key") == ()
    assert all(clue.low_trust for _, clue in TAXONOMY.list_clues(ERR))
    assert not any(clue.low_trust for _, clue in TAXONOMY.list_clues(XID))


def test_an_expression_that_fails_does_not_match_and_is_remembered() -> None:
    clue = next(clue for _, clue in TAXONOMY.list_clues("disk.used_percent") if clue.id == "full")
    assert not clue.matches(seen("disk.used_percent", "a lot", "/"))
    assert clue.expression.troubles


def test_an_expression_remembers_what_it_was_asked_and_nothing_beyond_it() -> None:
    over = Expression("value > 80 && device == 'gpu3'")
    asked = [{"value": value, "device": device} for value in (90, 10, 90.0, True) for device in ("gpu3", "gpu4")]
    assert [over.is_true_for(one) for one in asked * 2] == [True, False, False, False, True, False, False, False] * 2
    assert [over.is_true_for({"value": n, "device": "gpu3"}) for n in range(500)] == [n > 80 for n in range(500)]
    assert not over.is_true_for({"device": "gpu3"})
    assert over.is_true_for({"value": 90, "device": "gpu3", "unit": "C"})


def test_an_expression_remembers_by_the_attributes_that_it_reads_and_by_all_where_it_reads_them_whole() -> None:
    one, whole = Expression("has(attrs.own) && attrs.own == false"), Expression("size(attrs) == 2")
    asked: list[dict[str, Any]] = [{}, {"own": False}, {"own": True}, {"own": False, "pid": 7}, {"pid": 7}, {"own": 0, "pid": 8}]
    assert [one.is_true_for({"attrs": row}) for row in asked * 2] == [False, True, False, True, False, False] * 2
    assert [whole.is_true_for({"attrs": row}) for row in asked * 2] == [False, False, False, True, False, True] * 2


GOOD = """
category: GPU
branches: {TEST: Tests}
leaves:
  TEST.One_Thing:
    title: One thing
    description: It is one thing.
    scope: gpu
    owner: provider
    symptoms: [slow]
    words: [one thing]
    share: 0.01
    share_from: a guess
    evidence:
      - {id: hot, key: gpu.temp.core, when: "value > 99", weight: 9, decisive: true, says: "{value} on {device}"}
    checks: [smi]
    remedies: ["drain_node > gpu_reset"]
    customer_words: One thing broke.
    next_step: Mend it.
    sources: [nobody]
"""


def write(folder: Path, text: str, name: str = "site.yaml") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text)
    return folder


def refused(folder: Path, text: str) -> tuple[str, ...]:
    with pytest.raises(BadTaxonomy) as caught:
        load_taxonomy(write(folder, text))
    return caught.value.problems


def test_a_site_adds_a_leaf_and_overrides_another(tmp_path: Path) -> None:
    text = GOOD + GOOD.split("leaves:\n")[1].replace("TEST.One_Thing", "BUS.Fallen_Off_Bus").replace("title: One thing", "title: Our own")
    both = load_taxonomy(write(tmp_path, text))
    assert len(both.leaves) == len(LEAVES) + 1
    assert both.get_leaf("GPU.TEST.One_Thing").evidence[0].matches(seen("gpu.temp.core", 100, "gpu1"))
    assert both.get_title("GPU.BUS.Fallen_Off_Bus") == "Our own"


BROKEN = [
    ("weight: 9", "weight: heavy", 15, "weight must be a number"),
    ("gpu.temp.core", "gpu.temp.kore", 15, "unknown fact key gpu.temp.kore"),
    ("value > 99", "value >", 15, "when: "),
    ("value > 99", "valu > 99", 15, "unknown variable valu"),
    ("value > 99", "median(value) > 99", 15, "unknown function median"),
    ("scope: gpu", "scope: planet", 8, "scope 'planet' is none of"),
    ("owner: provider", "owner: nobody", 9, "owner 'nobody' is none of"),
    ("[slow]", "[sluggish]", 10, "unknown symptom sluggish"),
    ("share: 0.01", "share: 0.5", 12, "share must lie between"),
    ("checks: [smi]", "checks: [Rm -rf]", 16, "is not a check id"),
    ("drain_node > gpu_reset", "sudo reboot", 17, "is not a plan"),
    ("TEST.One_Thing", "one thing", 5, "a leaf is named"),
    ("TEST.One_Thing", "NEST.One_Thing", 5, "has no title under branches"),
    ("title: One thing", "titel: One thing", 6, "unknown field titel"),
    ("sources: [nobody]", "sources: [nobody]\n    sources: [again]", 21, "sources stands twice"),
    ("sources: [nobody]", "suppresses: [GPU.NO.Such]\n    sources: [x]", 5, "suppresses GPU.NO.Such, which is no leaf"),
    ("weight: 9", "weight: -9", 15, "decisive evidence weighs at least"),
    ("{value} on", "{valu} on", 15, "unknown slot {valu}"),
    ("category: GPU", "category: TPU", 2, "category 'TPU' is none of"),
    ("scope: gpu", "scope: [gpu", 9, "not YAML"),
]


@pytest.mark.parametrize(("good", "bad", "line", "why"), BROKEN, ids=[row[3] for row in BROKEN])
def test_a_bad_file_is_refused_with_line_and_reason(tmp_path: Path, good: str, bad: str, line: int, why: str) -> None:
    problems = refused(tmp_path, GOOD.replace(good, bad, 1))
    assert any(problem.startswith(f"{tmp_path / 'site.yaml'}:{line}: ") and why in problem for problem in problems), problems


WORDS_ALONE = GOOD.split("    evidence:")[0] + "    only_words: true\n    next_step: Ask.\n    sources: [nobody]\n"


def test_a_leaf_that_no_look_decides_says_so_and_has_nothing_to_look_for(tmp_path: Path) -> None:
    told = load_taxonomy(write(tmp_path, WORDS_ALONE)).get_leaf("GPU.TEST.One_Thing")
    assert told.only_words
    [problem] = refused(tmp_path, WORDS_ALONE.replace("    only_words: true\n", ""))
    assert "checks, customer_words, evidence, remedies missing; a cause that no look decides says only_words: true" in problem
    [problem] = refused(tmp_path, WORDS_ALONE + "    remedies: [gpu_reset]\n")
    assert "no look decides what only words tell of, so it has no remedies" in problem


def test_all_problems_are_told_at_once(tmp_path: Path) -> None:
    text = GOOD.replace("scope: gpu", "scope: planet").replace("[slow]", "[sluggish]").replace("share: 0.01", "share: 7")
    assert len(refused(tmp_path, text)) == 3


def test_the_same_leaf_twice_in_one_folder_is_refused(tmp_path: Path) -> None:
    write(tmp_path, GOOD, "a.yaml")
    with pytest.raises(BadTaxonomy, match=r"b\.yaml:5: GPU\.TEST\.One_Thing stands also at .*a\.yaml:5"):
        load_taxonomy(write(tmp_path, GOOD, "b.yaml"))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "- a\n- b\n",
        "category: GPU\n",
        "category: GPU\nleaves: {}\n",
        "category: GPU\nleaves: {A.B: 1}\n",
        "a: !!python/name:os.system\n",
    ],
)
def test_files_that_are_no_taxonomy_are_refused_and_nothing_in_them_runs(tmp_path: Path, text: str) -> None:
    assert refused(tmp_path, text)


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadTaxonomy, match="no such folder"):
        load_taxonomy(tmp_path / "absent")


def test_the_built_in_files_hold_one_category_each() -> None:
    assert {path.stem.upper() for path in BUILT_IN_FOLDER.glob("*.yaml")} == set(CATEGORIES)


FIELD_NAMES = {
    "NVML driver/library version mismatch": "SYSTEM_SOFTWARE.DRIVER.Driver_Library_Mismatch",
    "NVLink CRC errors": "INTERCONNECT.NVLINK.CRC_Marginal",
    "NFS server not responding": "SYSTEM_SOFTWARE.STORAGE.NFS_Server_Not_Responding",
    "Orphaned GPU process": "SYSTEM_SOFTWARE.PROCESS.Orphan_GPU_Process",
    "PCIe ACS enabled": "SYSTEM_SOFTWARE.PCIE.ACS_Enabled",
    "InfiniBand P_Key mismatch": "INTERCONNECT.IB.PKey_Mismatch",
    "Clock skew": "SYSTEM_SOFTWARE.TIME.Clock_Skew",
    "InfiniBand symbol errors": "INTERCONNECT.IB.Symbol_Errors",
    "Fatal NVSwitch error (SXid)": "INTERCONNECT.NVSWITCH.Fatal_SXid",
    "Kernel panic": "SYSTEM_SOFTWARE.KERNEL.Panic",
    "Host OOM kill": "SYSTEM_SOFTWARE.MEMORY.Host_OOM_Kill",
    "CUDA out of memory": "USER.CODE.Batch_Too_Large_OOM",
}


@pytest.mark.parametrize(("title", "label"), FIELD_NAMES.items())
def test_a_title_is_what_the_field_calls_the_cause(title: str, label: str) -> None:
    assert load_taxonomy().leaves[label].title.startswith(title)


def test_titles_are_apart_and_say_nothing_twice() -> None:
    leaves = load_taxonomy().leaves.values()
    assert len({leaf.title.lower() for leaf in leaves}) == len(leaves)
    assert not [leaf.label for leaf in leaves if leaf.plain == leaf.title]
