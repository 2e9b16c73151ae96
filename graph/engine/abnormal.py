"""What is abnormal by itself, whatever the taxonomy makes of it: as long as such a fact is unexplained nobody may say "no fault". Pure."""

from collections.abc import Callable, Mapping
from typing import Any

from graph.engine.nowhere import ELSEWHERE, UNLISTED
from graph.engine.peers import is_telling
from graph.engine.rises import RISES, rose
from tools.bandwidth import LEAST
from tools.checks.scheduler import OURS, OUT_OF_SERVICE
from tools.checks.services import FABRIC_MANAGER
from tools.fact import Fact, Status, Value

Odd = Callable[[Fact, Value], bool]
"""(fact, what the SKU expects) → abnormal?"""

AFTERMATH = frozenset({43, 45})
"""Xids that a GPU reports when its job went away, for whatever reason."""

WRONG_CLOCK = 120.0
"""Seconds from which a clock breaks things: a minute may be the way to the host and back."""


ON_DISK = frozenset({"ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs"})
MEANT_READ_ONLY = ("/snap/", "/boot", "/usr", "/nix", "/sysroot", "/ostree", "/var/lib/docker/", "/run/")
"""Where a file system may be read-only without a fault."""

LOOKS_STUCK = 3
"""Looks, one after the other, in each of which the same process waits in the kernel: in one, any process that reads a file may."""

STANDING = frozenset({"psu", "fan", "memory"})
"""Hardware events of a BMC that stand until they are taken back or the part is replaced, however old they are."""

HOGS = 0.25
"""Part of all cores from which processes that belong to no job take them from one."""

COUNTED: Mapping[str, int] = {
    **dict.fromkeys(("zombie", "processes of users without a job"), 100),
    **dict.fromkeys(("blocked", "stopped"), 8),
    **dict.fromkeys(("open files percent", "conntrack percent", "pids percent"), 90),
    **dict.fromkeys(("shared memory percent", "huge pages percent", "kernel memory percent"), 50),
    **dict.fromkeys(("io pressure", "memory pressure"), 60),
}
"""From how many on what is counted is abnormal by itself."""


COUNTERS: Mapping[str, tuple[int, float]] = {
    "ib.link_downed":           (6, 1),
    "ib.symbol_error":          (100, 100),
    "ib.link_error_recovery":   (10, 1),
    "ib.link_integrity_errors": (1000, 100),
    "ib.ack_timeouts":          (10_000, 1_000),
    "ib.sequence_errors":       (100_000, 10_000),
    "ib.roce_adp_retrans":      (1000, 100),
    "net.rx_discards":          (100_000, 10_000),
}  # fmt: skip
"""Counters of links that only grow: from how many in all, and how many a day, they are abnormal by themselves."""


def _any(fact: Fact, expected: Value) -> bool:
    return True


def _true(fact: Fact, expected: Value) -> bool:
    return fact.value is True


def _some(fact: Fact, expected: Value) -> bool:
    return isinstance(fact.value, (int, float)) and fact.value > 0


def _unexpected(fact: Fact, expected: Value) -> bool:
    return expected is not None and fact.value != expected


def _below(fact: Fact, expected: Value) -> bool:
    """Well under what the SKU reaches."""
    return isinstance(expected, (int, float)) and isinstance(fact.value, (int, float)) and fact.value < LEAST * expected


def _at_least(least: float) -> Odd:
    return lambda fact, expected: isinstance(fact.value, (int, float)) and not isinstance(fact.value, bool) and fact.value >= least


def _counted(key: str) -> Odd:
    """Much since the counter began, and much a day where its age is known: a cable that was replaced stays no fault for ever."""
    least, per_day = COUNTERS[key]
    enough = _at_least(least)
    return lambda fact, expected: enough(fact, expected) and float(fact.attrs.get("per_day", per_day)) >= per_day


def _one_of(*values: str) -> Odd:
    return lambda fact, expected: fact.value in values


def _none_of(*values: Any) -> Odd:
    return lambda fact, expected: fact.value not in values


def _out_of_service(fact: Fact, expected: Value) -> bool:
    """A node that takes no jobs, whoever meant it so; but not where RackMedic itself took it out for a repair."""
    return any(word in str(fact.value) for word in OUT_OF_SERVICE) and not str(fact.attrs.get("reason") or "").startswith(OURS)


def _in_trouble(fact: Fact, expected: Value) -> bool:
    """A service that its host says is in trouble, or one that stands still where the machine needs it (the fabric manager ends by itself on
    others) or where it runs on most hosts."""
    if expected == "inactive" or fact.attrs.get("needless"):
        return False
    needed = expected == "active" and fact.device == FABRIC_MANAGER and fact.value in ("inactive", "not-found")
    return needed or bool(fact.attrs.get("trouble"))


def _read_only(fact: Fact, expected: Value) -> bool:
    """A disk that is written to on any machine; what an image or a system keeps read-only is meant so."""
    meant = (fact.device or "").startswith(MEANT_READ_ONLY) or expected is True
    return fact.value is True and fact.attrs.get("fstype") in ON_DISK and not meant


# fmt: off
ODD: Mapping[str, Odd] = {
    "host.reachable":                   lambda fact, expected: fact.value is False,
    "host.access":                      _any,
    "smi.error":                        _any,
    "gpu.count":                        _unexpected,
    "gpu.mig":                          _unexpected,
    "gpu.compute_mode":                 _unexpected,
    "gpu.clock.app":                    _below,
    "gpu.power.limit":                  _below,
    "gpu.throttle.hw_thermal":          _true,
    "gpu.throttle.hw_power_brake":      _true,
    "gpu.fabric.state":                 _one_of("In Progress", "Not Started"),
    "gpu.fabric.health":                _one_of("Unhealthy", "Limited Capacity"),
    "gpu.lost":                         _true,
    "gpu.missing":                      _true,
    "gpu.inforom_corrupt":              _true,
    "gpu.recovery_action":              _none_of("None", "N/A", ""),
    "gpu.ecc.dram_uncorrectable":       _some,
    "gpu.ecc.sram_uncorrectable":       _some,
    "gpu.ecc.sram_threshold_exceeded":  _true,
    "gpu.remap.pending":                _true,
    "gpu.remap.failure":                _true,
    "gpu.repair.channel_pending":       _true,
    "gpu.repair.tpc_pending":           _true,
    "gpu.memory.unrepairable":          _true,
    "gpu.retired.pending":              _true,
    "driver.mismatch":                  _true,
    "topo.missing":                     _true,
    "nvlink.inactive":                  _some,
    "nvlink.crc_errors":                _at_least(100),
    "kernel.xid":                       _none_of(*AFTERMATH),
    "kernel.sxid":                      _any,
    "kernel.nvlink5":                   _any,
    "kernel.oom_kill":                  _any,
    "kernel.segfault":                  _any,
    "kernel.mlx5":                      _one_of("cable_unplugged", "module_removed", "health_compromised", "fw_fatal", "cmd_timeout", "tx_timeout"),
    "kernel.net":                       _any,
    "kernel.iommu_fault":               _any,
    "kernel.cpu_thermal":               _any,
    "kernel.gpu_watchdog":              _any,
    "kernel.aer":                       _none_of("corrected"),
    "kernel.pcie_hotplug":              _any,
    "kernel.soft_lockup":               _any,
    "kernel.nfs_timeout":               _any,
    "kernel.fs_readonly":               _any,
    "kernel.disk_error":                _any,
    "kernel.mce":                       _none_of("corrected"),
    "kernel.gpu_thermal":               _any,
    "kernel.inforom":                   _any,
    "kernel.driver_mismatch":           _any,
    "kernel.nouveau":                   _true,
    "kernel.module_refused":            _any,
    "kernel.bar_missing":               _any,
    "fabric.unmanaged":                 _true,
    "net.mtu_apart":                    _any,
    "gpu.memory.unowned":               _at_least(2048),
    "kernel.nvidia_absent":             _true,
    "kernel.panic":                     _any,
    "pcie.gpu_count":                   lambda fact, expected: fact.value == 0 or _unexpected(fact, expected),
    "pcie.absent":                      _true,
    "pcie.acs":                         _unexpected,
    "pcie.rev_ff":                      _true,
    "pcie.downgraded":                  _true,
    "ib.count":                         _unexpected,
    "ib.state":                         _unexpected,
    "ib.rate":                          _below,
    "ib.error":                         _any,
    **{key: _counted(key) for key in COUNTERS},
    "fabric.degraded":                  _some,
    "module.loaded":                    _unexpected,
    "cpu.governor":                     lambda fact, expected: fact.value == "powersave" and fact.attrs.get("driver") != "intel_pstate",
    "proc.orphan":                      _at_least(1024),
    "mem.memlock_kib":                  lambda fact, expected: expected == -1 and isinstance(fact.value, int) and 0 <= fact.value < 1 << 20,
    "ipmi.inlet":                       _at_least(38),
    "ipmi.sensor":                      _any,
    "env.NCCL_P2P_DISABLE":             _one_of("1"),
    "env.NCCL_IB_DISABLE":              _one_of("1"),
    "ib.absent":                        _true,
    "ib.wait_contrast":                 lambda fact, expected: isinstance(fact.value, float) and fact.value >= 1000,
    "vers.arch_missing":                _any,
    "vers.extension_mismatch":          _any,
    "service.state":                    _in_trouble,
    "proc.stopped":                     _any,
    "service.event":                    _one_of("fm_version_mismatch", "fm_nvswitch_fatal", "fm_killed", "no_gpu_driver", "oom_killed",
                                                "config_error", "failed_start", "slurmd_fatal", "module_missing", "imex_error", "fm_error", "munge_error"),
    "disk.readonly":                    _read_only,
    "proc.blocked":                     lambda fact, expected: int(fact.attrs.get("looks") or 1) >= LOOKS_STUCK,
    "disk.used_percent":                lambda fact, expected: isinstance(fact.value, int) and fact.value >= 99,
    "disk.inodes_percent":              lambda fact, expected: isinstance(fact.value, int) and fact.value >= 99,
    "mem.oom_kills":                    _some,
    "job.error":                        _any,
    "docker.nvidia_runtime":            _unexpected,
    "time.offset":                      lambda fact, expected: isinstance(fact.value, float) and abs(fact.value) >= WRONG_CLOCK,
    "sched.state":                      _out_of_service,
    "sched.reason":                     lambda fact, expected: bool(fact.attrs.get("told")),
    "sched.gpus":                       lambda fact, expected: isinstance(fact.value, int) and fact.value < int(str(fact.attrs.get("capacity") or 1)),
    "fabric.sm":                        _one_of("none"),
    "store.mount":                      _one_of("timeout", "stale", "error"),
    "ipmi.event":                       _one_of("psu", "fan", "pcie", "memory", "cpu", "voltage", "watchdog", "os_stop", "leak", "drive", "cable"),
    "base.broken":                      _any,
    "base.answer":                      lambda fact, expected: fact.value != "ok" and fact.device != "name of this host",
    "base.count":                       lambda fact, expected: isinstance(fact.value, int) and fact.value >= COUNTED.get(fact.device or "", 1 << 62),
    "proc.hog":                         lambda fact, expected: float(fact.attrs.get("share", 0)) >= HOGS,
    "peer.differs":                     lambda fact, expected: is_telling(fact.device or ""),
    "cuda.ok":                          lambda fact, expected: fact.value is False,
    "sdc.mismatches":                   _some,
    "gemm.errors":                      _some,
    "gemm.died":                        _true,
    "dcgm.failed":                      _any,
    "nccl.suspect":                     _one_of("slow", "failed"),
    "nccl.slow_leaf":                   _any,
    "step.diverged":                    _true,
    "bw.h2d":                           _below,
    "bw.d2h":                           _below,
    "p2p.bw":                           _below,
    "ib.write_bw":                      _below,
    "nccl.wrong":                       _some,
    "nccl.busbw_max":                   _below,
    "nccl.failure":                     _none_of("devices_busy", "missing_tool", "not_enough_slots"),
}
# fmt: on


OF_SETTINGS = frozenset({
    "mem.memlock_kib", "cpu.governor", "pcie.acs", "docker.nvidia_runtime", "module.loaded", "gpu.mig", "gpu.compute_mode", "gpu.clock.app",
    "gpu.power.limit", "disk.readonly",
})  # fmt: skip
"""Keys of how somebody set machines up: where all are alike it is how they are meant to be."""


def may_be_odd(key: str) -> bool:
    """Whether facts of a key can be abnormal by themselves. A site's own checks say it of each fact."""
    return key in ODD or key in RISES or key.startswith("site.")


def _stands(fact: Fact) -> bool:
    return fact.key == "ipmi.event" and fact.value in STANDING


def is_odd(fact: Fact, expected: Value = None) -> bool:
    """Abnormal, of now, and not merely the echo of something else."""
    return not (fact.attrs and fact.attrs.get("aged") and not _stands(fact)) and was_odd(fact, expected)


def was_odd(fact: Fact, expected: Value = None) -> bool:
    """Abnormal, whenever that was, and not merely the echo of something else."""
    if fact.status is not Status.OK or fact.stale:
        return False
    if fact.attrs and fact.attrs.get("sympathetic"):
        return False
    if fact.attrs and fact.attrs.get(ELSEWHERE, UNLISTED) != UNLISTED:
        return False
    if fact.key.startswith("site."):
        return bool(fact.attrs.get("wrong"))
    if rose(fact):
        return True
    rule = ODD.get(fact.key)
    return rule is not None and rule(fact, expected)
