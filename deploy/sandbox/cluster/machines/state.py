"""The simulated cluster's state: plain dataclasses that renderers read and faults change. Times are seconds from the
case's t0, negative before it.
"""

from dataclasses import dataclass, field

from deploy.sandbox.cluster.machines.environment import NodeEnvironment
from deploy.sandbox.cluster.machines.log_lines import Job, JournalLine, KernelLine
from deploy.sandbox.cluster.machines.profiles import Profile


@dataclass(slots=True)
class EccCounts:
    """Error counts since the driver was loaded (volatile) or ever (aggregate)."""

    sram_corr: int = 0
    sram_unc_parity: int = 0
    sram_unc_secded: int = 0
    dram_corr: int = 0
    dram_unc: int = 0


@dataclass(slots=True)
class RowRemap:
    """The row remapper. Banks not counted in high, partial, low or none have all spare rows."""

    corr: int = 0
    unc: int = 0
    pending: bool = False
    failure: bool = False
    high: int = 0
    partial: int = 0
    low: int = 0
    none: int = 0


@dataclass(slots=True)
class EventReasons:
    """Reasons for reduced clocks."""

    idle: bool = False
    app_clocks: bool = False
    sw_power_cap: bool = False
    hw_slowdown: bool = False
    hw_thermal: bool = False
    hw_power_brake: bool = False
    sync_boost: bool = False
    sw_thermal: bool = False


@dataclass(slots=True)
class Link:
    active: bool = True
    crc: int = 0
    replay: int = 0
    recovery: int = 0


@dataclass(slots=True)
class GpuProcess:
    """A compute process on a GPU; the process table has a row with the same pid."""

    pid: int
    name: str
    mib: int


@dataclass(slots=True)
class GpuState:
    """One GPU.

    `missing`: not enumerated. `lost`: enumerated but silent. `hang`: queries hang. `broken`: the error of CUDA work.
    """

    index: int
    bdf: str
    uuid: str
    serial: str
    missing: bool = False
    lost: bool = False
    hang: bool = False
    broken: str = ""
    inforom_ok: bool = True
    volatile: EccCounts = field(default_factory=EccCounts)
    aggregate: EccCounts = field(default_factory=EccCounts)
    sram_threshold_exceeded: bool = False
    remap: RowRemap = field(default_factory=RowRemap)
    recovery_action: str = "None"
    sm_clock: int = 0
    mem_clock: int = 0
    app_clock: int = 0
    reasons: EventReasons = field(default_factory=EventReasons)
    temp: int = 30
    memory_temp: int = 38
    power_draw: float = 70.0
    power_unknown: bool = False
    power_limit: int = 0
    util: int = 0
    pcie_gen: int = 0
    pcie_width: int = 16
    pcie_replay: int = 0
    compute_mode: str = "Default"
    mig: bool = False
    mig_leaves: bool = False  # MIG is off after the next reset
    persistence: bool = True
    fabric_state: str = "N/A"
    fabric_status: str = "N/A"
    links: list[Link] = field(default_factory=list)
    procs: list[GpuProcess] = field(default_factory=list)
    corrupts: bool = False
    bad_sm: bool = False
    held: bool = False  # a non-compute process has the device open

    @property
    def answers(self) -> bool:
        return not (self.missing or self.lost)

    @property
    def pci(self) -> str:
        """Return the address as the driver logs it, without the function."""
        return self.bdf.rpartition(".")[0]


@dataclass(slots=True)
class HcaState:
    """One network adapter. `rising`: growing counters, increment per second."""

    name: str
    bdf: str
    guid: int
    rate: int
    lid: int
    present: bool = True
    link_layer: str = "InfiniBand"
    state: str = "Active"
    phys: str = "LinkUp"
    sm_lid: int = 1
    pkeys: tuple[str, ...] = ("0xffff", "0x8001")
    counters: dict[str, int] = field(default_factory=dict)
    hw_counters: dict[str, int] = field(default_factory=dict)
    rising: dict[str, float] = field(default_factory=dict)
    discards: int = 0


@dataclass(slots=True)
class Service:
    active: str = "active"
    sub: str = "running"
    load: str = "loaded"
    result: str = "success"
    exit_status: int = 0
    enabled: str = "enabled"


@dataclass(slots=True)
class Mount:
    target: str
    source: str
    fstype: str
    options: str
    size: int
    used: int
    inodes: int
    inodes_used: int

    def read_only(self) -> None:
        """Change `rw` to `ro`, as the kernel does after an error."""
        self.options = "ro" + self.options.removeprefix("rw")


@dataclass(slots=True)
class HostProcess:
    pid: int
    ppid: int
    user: str
    stat: str
    started: float
    cpu: float
    cgroup: str
    comm: str
    args: str


@dataclass(slots=True)
class NodeState:
    """One node.

    `driver`: version of the loaded kernel module ("" if none), `driver_user`: of its libraries, `driver_disk`: of the
    module that was built for this kernel.
    """

    name: str
    index: int
    profile: Profile
    address: str
    reachable: bool
    driver: str
    driver_user: str
    driver_disk: str
    fm_version: str
    kernel: str
    boot_id: str
    previous_boot_id: str
    booted: float
    gpus: list[GpuState]
    hcas: list[HcaState]
    services: dict[str, Service]
    modules: dict[str, int]
    dkms: list[str]
    mounts: list[Mount]
    memory_total: int
    memory_used: int
    swap_used: int
    memlock_kib: int
    oom_kills: dict[str, int]
    env: dict[str, str]
    procs: list[HostProcess]
    acs: bool = False
    tz: str = "UTC"
    skew: float = 0.0
    kit: bool = True
    dmesg_restrict: bool = True
    fabric_broken: bool = False
    kernel_log: list[KernelLine] = field(default_factory=list)
    journal: list[JournalLine] = field(default_factory=list)
    log_keep: str = ""
    environment: NodeEnvironment = field(default_factory=NodeEnvironment)
    boots: int = 0
    drain: str = ""  # reason of a drain; empty if the scheduler may start jobs
    mark: str = ""  # value of the drain annotation on the Kubernetes node object
    registered_gpus: int | None = None  # GPUs that slurmd counted at its last start (a boot); None means all
    inhibited: bool = False
    oom_hits: dict[str, int] = field(default_factory=dict)  # times a cgroup reached its memory limit, by path

    def hca(self, name: str) -> HcaState:
        return next(hca for hca in self.hcas if hca.name == name)

    def bridge(self, device: GpuState | HcaState) -> str:
        """Return the address of the PCIe switch port above a GPU or adapter."""
        slot = self.gpus.index(device) if isinstance(device, GpuState) else len(self.gpus) + self.hcas.index(device)
        return f"0000:15:{slot:02x}.0"

    def mount(self, target: str) -> Mount:
        return next(mount for mount in self.mounts if mount.target == target)


@dataclass(slots=True)
class ControllerState:
    """The host of the scheduler's commands."""

    name: str
    boot_id: str
    reachable: bool = True
    boots: int = 0


@dataclass(slots=True)
class ClusterState:
    """All nodes, their job, and the scheduler's host if there is one."""

    nodes: dict[str, NodeState]
    job: Job
    controller: ControllerState | None = None
    reported_job: str = ""  # the ticket's job id; the scheduler knows the job by it too
