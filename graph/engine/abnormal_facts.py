"""Rules for facts that are abnormal in themselves; while one is unexplained, the outcome is never `no_fault`. Pure."""

from collections.abc import Callable, Mapping
from typing import Any

from graph.engine.expected_devices import ELSEWHERE_ATTRIBUTE, UNLISTED
from graph.engine.fact_history import MIN_COUNTER_RISES, has_risen
from graph.engine.peer_differences import is_telling
from tools.bandwidth import MIN_BANDWIDTH_RATIO
from tools.checks.scheduler import OUT_OF_SERVICE_WORDS, OWN_REASON_PREFIX
from tools.checks.services import FABRIC_MANAGER
from tools.fact import Fact, Status, Value

AbnormalRule = Callable[[Fact, Value], bool]  # (fact, value the SKU expects) → whether the fact is abnormal

AFTERMATH_XIDS = frozenset({43, 45})  # Xids that a GPU reports when its job ended, for any reason

WRONG_CLOCK_SECONDS = 120.0  # clock offset from which it causes faults; up to a minute may be network delay


DISK_FILESYSTEMS = frozenset({"ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs"})
# mounts that may be read-only without a fault
READ_ONLY_MOUNT_PREFIXES = ("/snap/", "/boot", "/usr", "/nix", "/sysroot", "/ostree", "/var/lib/docker/", "/run/")

# consecutive observations in which the same process is blocked in the kernel; in one, any reader of a file may be
MIN_BLOCKED_OBSERVATIONS = 3

# BMC hardware events that hold, at any age, until they are cleared or the part is replaced
PERSISTENT_BMC_EVENTS = frozenset({"psu", "fan", "memory"})

# share of all cores that processes outside any job take from one
MIN_HOG_CPU_SHARE = 0.25  # share of all cores that processes outside any job take

# count from which the counted thing is abnormal
COUNT_LIMITS: Mapping[str, int] = {
    **dict.fromkeys(("zombie", "processes of users without a job"), 100),
    **dict.fromkeys(("blocked", "stopped"), 8),
    **dict.fromkeys(("open files percent", "conntrack percent", "pids percent"), 90),
    **dict.fromkeys(("shared memory percent", "huge pages percent", "kernel memory percent"), 50),
    **dict.fromkeys(("io pressure", "memory pressure"), 60),
}


# cumulative link counters: (limit in total, limit per day); both must be reached
# cumulative link counters: (limit in total, limit per day where the rate is known); both must be reached
LINK_COUNTER_LIMITS: Mapping[str, tuple[int, float]] = {
    "ib.link_downed":           (6, 1),
    "ib.symbol_error":          (100, 100),
    "ib.link_error_recovery":   (10, 1),
    "ib.link_integrity_errors": (1000, 100),
    "ib.ack_timeouts":          (10_000, 1_000),
    "ib.sequence_errors":       (100_000, 10_000),
    "ib.roce_adp_retrans":      (1000, 100),
    "net.rx_discards":          (100_000, 10_000),
}  # fmt: skip


def _is_always_abnormal(fact: Fact, expected: Value) -> bool:
    return True


def _is_true(fact: Fact, expected: Value) -> bool:
    return fact.value is True


def _is_positive(fact: Fact, expected: Value) -> bool:
    return isinstance(fact.value, (int, float)) and fact.value > 0


def _is_unexpected(fact: Fact, expected: Value) -> bool:
    return expected is not None and fact.value != expected


def _is_below_expected(fact: Fact, expected: Value) -> bool:
    return isinstance(expected, (int, float)) and isinstance(fact.value, (int, float)) and fact.value < MIN_BANDWIDTH_RATIO * expected


def _build_minimum_rule(least: float) -> AbnormalRule:
    return lambda fact, expected: isinstance(fact.value, (int, float)) and not isinstance(fact.value, bool) and fact.value >= least


def _build_counter_rule(key: str) -> AbnormalRule:
    """Require the daily rate too, where known: a replaced cable does not stay a fault forever."""
    least, per_day = LINK_COUNTER_LIMITS[key]
    enough = _build_minimum_rule(least)
    return lambda fact, expected: enough(fact, expected) and float(fact.attrs.get("per_day", per_day)) >= per_day


def _build_one_of_rule(*values: str) -> AbnormalRule:
    return lambda fact, expected: fact.value in values


def _build_none_of_rule(*values: Any) -> AbnormalRule:
    return lambda fact, expected: fact.value not in values


def _is_out_of_service(fact: Fact, expected: Value) -> bool:
    """Exclude nodes that RackMedic itself drained for a remediation."""
    return any(word in str(fact.value) for word in OUT_OF_SERVICE_WORDS) and not str(fact.attrs.get("reason") or "").startswith(
        OWN_REASON_PREFIX
    )


def _is_service_in_trouble(fact: Fact, expected: Value) -> bool:
    """Count a stopped fabric manager only where the SKU needs it; elsewhere it exits on its own."""
    if expected == "inactive" or fact.attrs.get("needless"):
        return False
    needed = expected == "active" and fact.device == FABRIC_MANAGER and fact.value in ("inactive", "not-found")
    return needed or bool(fact.attrs.get("trouble"))


def _is_unexpectedly_read_only(fact: Fact, expected: Value) -> bool:
    is_read_only_expected = (fact.device or "").startswith(READ_ONLY_MOUNT_PREFIXES) or expected is True
    return fact.value is True and fact.attrs.get("fstype") in DISK_FILESYSTEMS and not is_read_only_expected


# fmt: off
ABNORMAL_RULES: Mapping[str, AbnormalRule] = {
    "host.reachable":                   lambda fact, expected: fact.value is False,
    "host.access":                      _is_always_abnormal,
    "smi.error":                        _is_always_abnormal,
    "gpu.count":                        _is_unexpected,
    "gpu.mig":                          _is_unexpected,
    "gpu.compute_mode":                 _is_unexpected,
    "gpu.clock.app":                    _is_below_expected,
    "gpu.power.limit":                  _is_below_expected,
    "gpu.throttle.hw_thermal":          _is_true,
    "gpu.throttle.hw_power_brake":      _is_true,
    "gpu.fabric.state":                 _build_one_of_rule("In Progress", "Not Started"),
    "gpu.fabric.health":                _build_one_of_rule("Unhealthy", "Limited Capacity"),
    "gpu.lost":                         _is_true,
    "gpu.missing":                      _is_true,
    "gpu.inforom_corrupt":              _is_true,
    "gpu.recovery_action":              _build_none_of_rule("None", "N/A", ""),
    "gpu.ecc.dram_uncorrectable":       _is_positive,
    "gpu.ecc.sram_uncorrectable":       _is_positive,
    "gpu.ecc.sram_threshold_exceeded":  _is_true,
    "gpu.remap.pending":                _is_true,
    "gpu.remap.failure":                _is_true,
    "gpu.repair.channel_pending":       _is_true,
    "gpu.repair.tpc_pending":           _is_true,
    "gpu.memory.unrepairable":          _is_true,
    "gpu.retired.pending":              _is_true,
    "driver.mismatch":                  _is_true,
    "topo.missing":                     _is_true,
    "nvlink.inactive":                  _is_positive,
    "nvlink.crc_errors":                _build_minimum_rule(100),
    "kernel.xid":                       _build_none_of_rule(*AFTERMATH_XIDS),
    "kernel.sxid":                      _is_always_abnormal,
    "kernel.nvlink5":                   _is_always_abnormal,
    "kernel.oom_kill":                  _is_always_abnormal,
    "kernel.segfault":                  _is_always_abnormal,
    "kernel.mlx5":                      _build_one_of_rule("cable_unplugged", "module_removed", "health_compromised", "fw_fatal", "cmd_timeout", "tx_timeout"),
    "kernel.net":                       _is_always_abnormal,
    "kernel.iommu_fault":               _is_always_abnormal,
    "kernel.cpu_thermal":               _is_always_abnormal,
    "kernel.gpu_watchdog":              _is_always_abnormal,
    "kernel.aer":                       _build_none_of_rule("corrected"),
    "kernel.pcie_hotplug":              _is_always_abnormal,
    "kernel.soft_lockup":               _is_always_abnormal,
    "kernel.nfs_timeout":               _is_always_abnormal,
    "kernel.fs_readonly":               _is_always_abnormal,
    "kernel.disk_error":                _is_always_abnormal,
    "kernel.mce":                       _build_none_of_rule("corrected"),
    "kernel.gpu_thermal":               _is_always_abnormal,
    "kernel.inforom":                   _is_always_abnormal,
    "kernel.driver_mismatch":           _is_always_abnormal,
    "kernel.nouveau":                   _is_true,
    "kernel.module_refused":            _is_always_abnormal,
    "kernel.bar_missing":               _is_always_abnormal,
    "fabric.unmanaged":                 _is_true,
    "net.mtu_apart":                    _is_always_abnormal,
    "gpu.memory.unowned":               _build_minimum_rule(2048),
    "kernel.nvidia_absent":             _is_true,
    "kernel.panic":                     _is_always_abnormal,
    "pcie.gpu_count":                   lambda fact, expected: fact.value == 0 or _is_unexpected(fact, expected),
    "pcie.absent":                      _is_true,
    "pcie.acs":                         _is_unexpected,
    "pcie.rev_ff":                      _is_true,
    "pcie.downgraded":                  _is_true,
    "ib.count":                         _is_unexpected,
    "ib.state":                         _is_unexpected,
    "ib.rate":                          _is_below_expected,
    "ib.error":                         _is_always_abnormal,
    **{key: _build_counter_rule(key) for key in LINK_COUNTER_LIMITS},
    "fabric.degraded":                  _is_positive,
    "module.loaded":                    _is_unexpected,
    "cpu.governor":                     lambda fact, expected: fact.value == "powersave" and fact.attrs.get("driver") != "intel_pstate",
    "proc.orphan":                      _build_minimum_rule(1024),
    "mem.memlock_kib":                  lambda fact, expected: expected == -1 and isinstance(fact.value, int) and 0 <= fact.value < 1 << 20,
    "ipmi.inlet":                       _build_minimum_rule(38),
    "ipmi.sensor":                      _is_always_abnormal,
    "env.NCCL_P2P_DISABLE":             _build_one_of_rule("1"),
    "env.NCCL_IB_DISABLE":              _build_one_of_rule("1"),
    "ib.absent":                        _is_true,
    "ib.wait_contrast":                 lambda fact, expected: isinstance(fact.value, float) and fact.value >= 1000,
    "vers.arch_missing":                _is_always_abnormal,
    "vers.extension_mismatch":          _is_always_abnormal,
    "service.state":                    _is_service_in_trouble,
    "proc.stopped":                     _is_always_abnormal,
    "service.event":                    _build_one_of_rule("fm_version_mismatch", "fm_nvswitch_fatal", "fm_killed", "no_gpu_driver", "oom_killed",
                                                "config_error", "failed_start", "slurmd_fatal", "module_missing", "imex_error", "fm_error", "munge_error"),
    "disk.readonly":                    _is_unexpectedly_read_only,
    "proc.blocked":                     lambda fact, expected: int(fact.attrs.get("looks") or 1) >= MIN_BLOCKED_OBSERVATIONS,
    "disk.used_percent":                lambda fact, expected: isinstance(fact.value, int) and fact.value >= 99,
    "disk.inodes_percent":              lambda fact, expected: isinstance(fact.value, int) and fact.value >= 99,
    "mem.oom_kills":                    _is_positive,
    "job.error":                        _is_always_abnormal,
    "docker.nvidia_runtime":            _is_unexpected,
    "time.offset":                      lambda fact, expected: isinstance(fact.value, float) and abs(fact.value) >= WRONG_CLOCK_SECONDS,
    "sched.state":                      _is_out_of_service,
    "sched.reason":                     lambda fact, expected: bool(fact.attrs.get("told")),
    "sched.gpus":                       lambda fact, expected: isinstance(fact.value, int) and fact.value < int(str(fact.attrs.get("capacity") or 1)),
    "fabric.sm":                        _build_one_of_rule("none"),
    "store.mount":                      _build_one_of_rule("timeout", "stale", "error"),
    "ipmi.event":                       _build_one_of_rule("psu", "fan", "pcie", "memory", "cpu", "voltage", "watchdog", "os_stop", "leak", "drive", "cable"),
    "base.broken":                      _is_always_abnormal,
    "base.answer":                      lambda fact, expected: fact.value != "ok" and fact.device != "name of this host",
    "base.count":                       lambda fact, expected: isinstance(fact.value, int) and fact.value >= COUNT_LIMITS.get(fact.device or "", 1 << 62),
    "proc.hog":                         lambda fact, expected: float(fact.attrs.get("share", 0)) >= MIN_HOG_CPU_SHARE,
    "peer.differs":                     lambda fact, expected: is_telling(fact.device or ""),
    "cuda.ok":                          lambda fact, expected: fact.value is False,
    "sdc.mismatches":                   _is_positive,
    "gemm.errors":                      _is_positive,
    "gemm.died":                        _is_true,
    "dcgm.failed":                      _is_always_abnormal,
    "nccl.suspect":                     _build_one_of_rule("slow", "failed"),
    "nccl.slow_leaf":                   _is_always_abnormal,
    "step.diverged":                    _is_true,
    "bw.h2d":                           _is_below_expected,
    "bw.d2h":                           _is_below_expected,
    "p2p.bw":                           _is_below_expected,
    "ib.write_bw":                      _is_below_expected,
    "nccl.wrong":                       _is_positive,
    "nccl.busbw_max":                   _is_below_expected,
    "nccl.failure":                     _build_none_of_rule("devices_busy", "missing_tool", "not_enough_slots"),
}
# fmt: on


# keys of machine settings; a setting that all hosts share is intended
SETTING_KEYS = frozenset({
    "mem.memlock_kib", "cpu.governor", "pcie.acs", "docker.nvidia_runtime", "module.loaded", "gpu.mig", "gpu.compute_mode", "gpu.clock.app",
    "gpu.power.limit", "disk.readonly",
})  # fmt: skip


def can_be_abnormal(key: str) -> bool:
    """Return whether facts of a key can be abnormal in themselves. A site's own check decides that per fact."""
    return key in ABNORMAL_RULES or key in MIN_COUNTER_RISES or key.startswith("site.")


def _is_persistent_event(fact: Fact) -> bool:
    return fact.key == "ipmi.event" and fact.value in PERSISTENT_BMC_EVENTS


def is_abnormal(fact: Fact, expected: Value = None) -> bool:
    """Return whether a fact is abnormal and current (persistent BMC events always are) and no side effect of another."""
    return not (fact.attrs and fact.attrs.get("aged") and not _is_persistent_event(fact)) and was_abnormal(fact, expected)


def was_abnormal(fact: Fact, expected: Value = None) -> bool:
    """Return whether a fact is abnormal, at any age, and no side effect of another."""
    if fact.status is not Status.OK or fact.stale:
        return False
    if fact.attrs and fact.attrs.get("sympathetic"):
        return False
    if fact.attrs and fact.attrs.get(ELSEWHERE_ATTRIBUTE, UNLISTED) != UNLISTED:
        return False
    if fact.key.startswith("site."):
        return bool(fact.attrs.get("wrong"))
    if has_risen(fact):
        return True
    rule = ABNORMAL_RULES.get(fact.key)
    return rule is not None and rule(fact, expected)
