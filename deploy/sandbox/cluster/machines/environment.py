"""A node's environment: interfaces, clock, CPUs, container, scheduler, leaf switch and BMC. Healthy by default."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class Interface:
    """One Ethernet interface. `adapter` is False for virtual ones."""

    name: str
    mtu: int
    kind: str = "ether"
    adapter: bool = True
    discards: int = 0
    pauses: int = 0
    rising: float = 0.0


@dataclass(slots=True)
class Image:
    """Library versions in the job's container."""

    torch: str = "2.5.1+cu124"
    cuda: str = "12.4"
    cudnn: int = 90100
    cudnn_error: str = ""
    nccl: tuple[int, int, int] = (2, 21, 5)
    archs: str = "sm_50 sm_60 sm_70 sm_75 sm_80 sm_86 sm_89 sm_90 compute_90"
    flash_attn: str = "2.6.3+cu124torch2.5"


@dataclass(frozen=True, slots=True)
class BmcEvent:
    """One row of the BMC's event log. `t`: seconds from t0."""

    t: float
    sensor: str
    text: str


@dataclass(frozen=True, slots=True)
class AbandonedFile:
    """An abandoned file. `hours`: its age; `dated`: last write as `ls` prints it."""

    path: str
    size: int
    owner: str
    hours: float
    dated: str

    @property
    def blocks(self) -> int:
        """Return the size in 512-byte blocks."""
        return -(-self.size // 4096) * 8


DEFAULT_CRASH_FILES = tuple(
    AbandonedFile(f"/var/crash/_usr_bin_python3.{n}.crash", 18211, "root", 1900.0, "Mar  2  2026") for n in (0, 2071)
)


@dataclass(slots=True)
class NodeEnvironment:
    """The surroundings of one node.

    `master`: result of reaching the job's master. `last_job`: the job's final state in the scheduler's accounting, empty
    for the actual one. `store`, `tracker`: state of the site's services, `ok`, `throttled` or `refused`.
    `not_responding`: the scheduler misses the node now and then. `stuck`: mounts that hang. `uplinks`: widths of the leaf
    switch's links.
    """

    interfaces: list[Interface] = field(default_factory=lambda: [Interface("eth0", 9000), Interface("docker0", 1500, adapter=False)])
    governor: str = "performance"
    mhz: int = 3500
    synchronised: bool = True
    master: str = "ok"
    store: str = "ok"
    tracker: str = "ok"
    manager: bool = True
    leaf: str = "leaf-1"
    uplinks: list[int] = field(default_factory=lambda: [4, 4, 4, 4])
    not_responding: bool = False
    last_job: str = ""
    stuck: set[str] = field(default_factory=set)
    runtimes: tuple[str, ...] = ("io.containerd.runc.v2", "nvidia", "runc")
    configured: bool = False  # the engine's configuration names the NVIDIA runtime, effective from its next start
    image: Image = field(default_factory=Image)
    shm_bytes: int = 64 << 30
    devices_lost: bool = False
    inlet: int = 24
    psu_lost: bool = False
    bmc: list[BmcEvent] = field(default_factory=list)
    leftovers: tuple[AbandonedFile, ...] = DEFAULT_CRASH_FILES
