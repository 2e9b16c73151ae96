"""A fact contradicts a cause only on the same host or device."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, NamedTuple

import pytest

from graph.engine.assessment import Assessment, assess_facts
from graph.engine.reference_data import ReferenceData
from kb.taxonomy.loader import load_taxonomy
from kb.taxonomy.taxonomy import Taxonomy
from tests.support.clock import T0
from tools.checks import CHECKS
from tools.fact import Fact, Value

TAXONOMY = load_taxonomy()


class Seen(NamedTuple):
    """A fact of a host."""

    check: str
    key: str
    value: Value
    device: str | None = None
    attrs: dict[str, Any] | None = None

    def on(self, host: str) -> Fact:
        said = f"{self.key} {self.value}"
        return Fact(
            self.check, self.key, self.value, self.device, host=host, time=T0 - timedelta(minutes=5), line=said, attrs=self.attrs or {}
        )


RELOAD = Seen("sysd", "service.event", "daemon_reload", "systemd")
LOST_INSIDE = Seen("docker", "container.nvml", "unknown_error", "c1")
SMI_FAILS = Seen("smi", "smi.error", "driver_library_mismatch")
XID_79 = Seen("dmesg", "kernel.xid", 79, "gpu3")
NVML = Seen("joblog", "job.error", "nvml_unknown_error")

# label, what shows it, what contradicts it on the same host
CONTRADICTED: tuple[tuple[str, tuple[Seen, ...], Seen], ...] = (
    ("SYSTEM_SOFTWARE.CONTAINER.Cgroup_Device_Loss", (RELOAD, LOST_INSIDE), SMI_FAILS),
    ("SYSTEM_SOFTWARE.CONTAINER.Cgroup_Device_Loss", (LOST_INSIDE, Seen("joblog", "job.error", "cuda_no_device")), SMI_FAILS),
    ("SYSTEM_SOFTWARE.CONTAINER.Cgroup_Device_Loss", (RELOAD, LOST_INSIDE), XID_79),
    ("SYSTEM_SOFTWARE.CONTAINER.Cgroup_Device_Loss", (NVML, Seen("joblog", "job.error", "cuda_no_device")), SMI_FAILS),
    ("SYSTEM_SOFTWARE.CUDA.Host_Container_CUDA_Mismatch", (Seen("joblog", "job.error", "cuda_driver_too_old"),), SMI_FAILS),
    (
        "FRAMEWORK.DATA.Dataloader_Worker_Leak",
        (Seen("dmesg", "kernel.oom_kill", "python", attrs={"cgroup": True}),),
        Seen("dmesg", "kernel.oom_kill", "slurmd"),
    ),
    (
        "SYSTEM_SOFTWARE.STORAGE.Shm_Too_Small",
        (Seen("df", "disk.size_bytes", 67108864, "/dev/shm"), Seen("docker", "container.shm_bytes", 67108864, "c1")),
        Seen("dmesg", "kernel.oom_kill", "python"),
    ),
    (
        "USER.CONFIG.NCCL_P2P_Disabled",
        (Seen("env", "env.NCCL_IB_DISABLE", "1"), Seen("env", "env.NCCL_SHM_DISABLE", "1")),
        Seen("nvlink", "nvlink.inactive", 4, "gpu0"),
    ),
    (
        "SYSTEM_SOFTWARE.FABRIC.FabricManager_Down",
        (
            Seen("sysd", "service.state", "failed", "nvidia-fabricmanager"),
            Seen("sysd", "service.event", "fm_killed", "nvidia-fabricmanager"),
        ),
        Seen("sysd", "service.event", "fm_nothing_to_do", "nvidia-fabricmanager"),
    ),
    (
        "SYSTEM_SOFTWARE.DRIVER.Module_Not_Loaded",
        (Seen("smi", "smi.error", "driver_not_loaded"), Seen("dmesg", "kernel.nvidia_absent", True)),
        Seen("mods", "module.loaded", True, "nvidia"),
    ),
    (
        "SYSTEM_SOFTWARE.DRIVER.Driver_Library_Mismatch",
        (Seen("smi", "smi.error", "driver_library_mismatch"),),
        Seen("smi", "driver.mismatch", False),
    ),
    (
        "SYSTEM_SOFTWARE.MEMORY.Host_OOM_Kill",
        (Seen("mem", "mem.oom_kills", 4, attrs={"limit": False, "cgroup": "docker"}),),
        Seen("mem", "mem.oom_kills", 3, attrs={"limit": True}),
    ),
    (
        "SYSTEM_SOFTWARE.KERNEL.Soft_Lockup",
        (Seen("dmesg", "kernel.soft_lockup", "soft_lockup"),),
        Seen("dmesg", "kernel.nfs_timeout", "files"),
    ),
    (
        "SYSTEM_SOFTWARE.STORAGE.Shm_Full",
        (Seen("df", "disk.used_percent", 99, "/dev/shm"),),
        Seen("df", "disk.size_bytes", 67108864, "/dev/shm"),
    ),
    (
        "SYSTEM_SOFTWARE.DEVICE.GPU_Nodes_Missing",
        (Seen("base", "base.broken", "no_device", "/dev/nvidia0"),),
        Seen("smi", "gpu.missing", True, "gpu0"),
    ),
    (
        "SYSTEM_SOFTWARE.SERVICE.Slurmd_Stopped",
        (Seen("sysd", "service.state", "failed", "slurmd"),),
        Seen("sched", "sched.reason", "gres/gpu count too low", attrs={"told": "gpus_missing"}),
    ),
    (
        "INTERCONNECT.NVSWITCH.Fatal_SXid",
        (Seen("dmesg", "kernel.sxid", 20034, "nvswitch0", {"fatal": True}),),
        XID_79,
    ),
)


def look(*facts: Fact, hosts: Sequence[str] = ("a", "b", "c"), taxonomy: Taxonomy = TAXONOMY) -> Assessment:
    return assess_facts(
        facts, ReferenceData(taxonomy, CHECKS, lambda host, key, device: 0 if key == "nvlink.inactive" else None), hosts, opened=T0
    )


# causes that explain the contradictions: an unexplained host error leaves log evidence undecided
EXPLAINS = ("SYSTEM_SOFTWARE.DRIVER.Driver_Library_Mismatch", "GPU.BUS.Fallen_Off_Bus", "INTERCONNECT.NVLINK.Link_Inactive")


def only(label: str) -> Taxonomy:
    """Return a taxonomy without competing causes."""
    return TAXONOMY.without_labels(*(other for other in TAXONOMY.leaves if other not in (label, *EXPLAINS)))


def log_odds(now: Assessment, label: str, host: str) -> float:
    return max(row.log_odds for row in now.by_label[label] if host in row.subject.hosts or (host in row.shown and not row.subject.hosts))


@pytest.mark.parametrize(("label", "shows", "against"), CONTRADICTED, ids=lambda value: value if isinstance(value, str) else "")
def test_a_contradiction_counts_on_the_same_host_and_not_on_another(label: str, shows: tuple[Seen, ...], against: Seen) -> None:
    shown, taxonomy = [row.on("a") for row in shows], only(label)
    alone = look(*shown, taxonomy=taxonomy)
    elsewhere = look(*shown, against.on("b"), taxonomy=taxonomy)
    here = look(*shown, against.on("a"), taxonomy=taxonomy)
    assert alone.label_verdicts[label].verdict == "confirmed"
    assert elsewhere.label_verdicts[label].verdict == "confirmed"
    assert log_odds(elsewhere, label, "a") == log_odds(alone, label, "a")
    assert log_odds(here, label, "a") < log_odds(alone, label, "a") - 2
    assert here.label_verdicts[label].verdict != "confirmed"


OF_DEVICES: tuple[tuple[str, Seen, Seen, Seen], ...] = (
    (
        "GPU.THERMAL.HW_Thermal_Slowdown",
        Seen("smi", "gpu.throttle.hw_thermal", True, "gpu1"),
        Seen("smi", "gpu.temp.core", 50, "gpu1"),
        Seen("smi", "gpu.temp.core", 50, "gpu2"),
    ),
    (
        "GPU.BUS.Fallen_Off_Bus",
        Seen("dmesg", "kernel.xid", 79, "gpu1"),
        Seen("lspci", "pcie.rev_ff", False, "gpu1"),
        Seen("lspci", "pcie.rev_ff", False, "gpu2"),
    ),
    (
        "INTERCONNECT.IB.Link_Flapping",
        Seen("dmesg", "kernel.ib_link", "lost_carrier", "mlx5_1", {"count": 9}),
        Seen("ibstat", "ib.state", "Down", "mlx5_1"),
        Seen("ibstat", "ib.state", "Down", "mlx5_2"),
    ),
)


@pytest.mark.parametrize(("label", "shows", "same", "other"), OF_DEVICES, ids=lambda value: value if isinstance(value, str) else "")
def test_a_contradiction_counts_on_the_same_device_and_not_on_another(label: str, shows: Seen, same: Seen, other: Seen) -> None:
    taxonomy = only(label)
    alone = look(shows.on("a"), taxonomy=taxonomy)
    for fact in (other.on("a"), same.on("b"), other.on("b")):
        assert log_odds(look(shows.on("a"), fact, taxonomy=taxonomy), label, "a") == log_odds(alone, label, "a")
    assert log_odds(look(shows.on("a"), same.on("a"), taxonomy=taxonomy), label, "a") < log_odds(alone, label, "a")


LOSS = "SYSTEM_SOFTWARE.CONTAINER.Cgroup_Device_Loss"


def test_of_two_hosts_with_a_cause_only_the_contradicted_one_is_left_out() -> None:
    now = look(RELOAD.on("a"), LOST_INSIDE.on("a"), RELOAD.on("b"), LOST_INSIDE.on("b"), SMI_FAILS.on("b"))
    assert now.label_verdicts[LOSS].verdict == "confirmed"
    assert now.hosts_by_cause[LOSS] == {"a"}


def test_clues_of_different_hosts_do_not_add_up() -> None:
    now = look(RELOAD.on("a"), Seen("docker", "container.nvml", "ok", "c1").on("b"), taxonomy=only(LOSS))
    apart = look(RELOAD.on("a"), LOST_INSIDE.on("b"), taxonomy=only(LOSS))
    assert log_odds(now, LOSS, "a") == log_odds(apart, LOSS, "a")


def test_a_log_that_several_hosts_read_is_contradicted_on_each() -> None:
    told = [Seen("joblog", "job.error", value).on(host) for value in ("nvml_unknown_error", "cuda_no_device") for host in ("a", "b")]
    assert look(*told, taxonomy=only(LOSS)).label_verdicts[LOSS].verdict == "confirmed"
    assert look(*told, SMI_FAILS.on("b"), taxonomy=only(LOSS)).label_verdicts[LOSS].verdict != "confirmed"
    assert look(*told, SMI_FAILS.on("c"), taxonomy=only(LOSS)).label_verdicts[LOSS].verdict == "confirmed"


OF_THE_JOB: tuple[tuple[str, Seen, Seen], ...] = (
    (
        "USER.CONFIG.World_Size_Mismatch",
        Seen("joblog", "job.error", "rendezvous_timeout", attrs={"joined": 3, "expected": 4}),
        Seen("ssh", "host.reachable", False),
    ),
    ("USER.CODE.Illegal_Memory_Access", Seen("joblog", "job.error", "cuda_illegal_access"), XID_79),
    ("USER.CODE.Batch_Too_Large_OOM", Seen("joblog", "job.error", "cuda_oom"), Seen("procs", "proc.orphan", 60000, "gpu0")),
)


@pytest.mark.parametrize(("label", "told", "against"), OF_THE_JOB, ids=lambda value: value if isinstance(value, str) else "")
def test_what_a_log_alone_tells_of_a_job_may_be_contradicted_by_any_of_its_hosts(label: str, told: Seen, against: Seen) -> None:
    alone = look(told.on("a"), taxonomy=only(label))
    for host in ("a", "b"):
        assert look(told.on("a"), against.on(host), taxonomy=only(label)).by_label[label][0].log_odds < alone.by_label[label][0].log_odds
