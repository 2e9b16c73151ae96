"""What a node has around its GPUs: interfaces, clock, processors, container, scheduler's word, leaf switch and BMC. Healthy by default."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class Interface:
    """One Ethernet interface. `adapter` is False for what software made."""

    name: str
    mtu: int
    kind: str = "ether"
    adapter: bool = True
    discards: int = 0
    pauses: int = 0
    rising: float = 0.0


@dataclass(slots=True)
class Image:
    """What stands in the job's container."""

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
class Leftover:
    """A file that nobody writes to any more. `dated`: when it was last written to, as `ls` has it."""

    path: str
    size: int
    owner: str
    hours: float
    dated: str

    @property
    def blocks(self) -> int:
        """What it takes, in blocks of 512 bytes."""
        return -(-self.size // 4096) * 8


CRASHES = tuple(Leftover(f"/var/crash/_usr_bin_python3.{n}.crash", 18211, "root", 1900.0, "Mar  2  2026") for n in (0, 2071))


@dataclass(slots=True)
class Around:
    """`master`: what reaching the job's master gives. `last_job`: how the scheduler ended the job here, empty for what became of it.

    `store`, `tracker`: what the site's services say, `ok`, `throttled` or `refused`.
    `not_responding`: the scheduler misses the node now and then. `stuck`: mounts that do not answer. `uplinks`: widths of the leaf's links.
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
    configured: bool = False
    """The NVIDIA runtime stands in the engine's configuration, and counts from its next start."""
    image: Image = field(default_factory=Image)
    shm_bytes: int = 64 << 30
    devices_lost: bool = False
    inlet: int = 24
    psu_lost: bool = False
    bmc: list[BmcEvent] = field(default_factory=list)
    leftovers: tuple[Leftover, ...] = CRASHES
