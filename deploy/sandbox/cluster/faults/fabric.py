"""NVLink, NVSwitch and the fabric manager."""

from deploy.sandbox.cluster.faults.row import fault
from deploy.sandbox.cluster.faults.scene import Scene

_FM = "nvidia-fabricmanager"
_NOT_READY = (
    "RuntimeError: Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before calling "
    "NumCudaDevices() that might have already set an error? Error 802: system not yet initialized"
)
_COUNT = (("/workspace/train.py", 262, "main", "torch.cuda.set_device(local_rank)"),)


def _fabric_manager_fails(s: Scene, result: str, status: int) -> None:
    service = s.node.services[_FM]
    service.active = "failed"
    service.sub = "failed"
    service.result = result
    service.exit_status = status
    s.node.fabric_broken = True
    for gpu in s.node.gpus:
        if gpu.fabric_state != "N/A":
            gpu.fabric_state = "In Progress"
            gpu.fabric_status = "N/A"
    dead = s.job.of(s.node.name)
    for rank in dead:
        s.raises(rank, _NOT_READY, _COUNT, 6)
    s.peers_lose(dead, 12)


@fault("S04", "SYSTEM_SOFTWARE.FABRIC.FabricManager_Down", "Fabric manager was killed", "node", "never starts")
def fabric_manager_down(s: Scene) -> None:
    s.journal(_FM, f"{_FM}.service: Main process exited, code=killed, status=9/KILL", -190)
    s.journal(_FM, f"{_FM}.service: Failed with result 'signal'.", -189.9, 4)
    _fabric_manager_fails(s, "signal", 9)


@fault(
    "S05",
    "SYSTEM_SOFTWARE.FABRIC.FabricManager_Version_Mismatch",
    "Fabric manager has another version than the driver",
    "node",
    "never starts",
)
def fabric_manager_version_mismatch(s: Scene) -> None:
    major = s.node.driver.partition(".")[0]
    s.node.fm_version = f"{major}.54.15" if major == "550" else f"{major}.86.15"
    text = (
        f"fabric manager NVIDIA GPU driver interface version {s.node.fm_version} don't match with driver version "
        f"{s.node.driver}. Please update with matching NVIDIA driver package."
    )
    s.journal(_FM, text, -190, 3, "nv-fabricmanager")
    s.journal(_FM, f"{_FM}.service: Control process exited, code=exited, status=1/FAILURE", -189.9, 4)
    s.journal(_FM, f"{_FM}.service: Failed with result 'exit-code'.", -189.8, 4)
    _fabric_manager_fails(s, "exit-code", 1)


@fault("N01", "INTERCONNECT.NVLINK.Link_Inactive", "All NVLinks of a GPU are down", "gpu", "dies")
def link_inactive(s: Scene) -> None:
    rank = s.rank_on(s.gpu)
    for link in s.gpu.links:
        link.active = False
    number = s.dice.randrange(max(len(s.gpu.links), 1))
    s.xid(s.gpu, 74, f"NVLink: fatal error detected on link {number}(0x0, 0x0, 0x10000, 0x0, 0x0, 0x0, 0x0)")
    s.warns(
        rank, f"transport/p2p.cc:212 NCCL WARN Could not enable P2P between dev {rank.local}(=bus {s.gpu.bdf[5:7]}000) and its peers", 1
    )
    s.nccl_error(rank, "ncclUnhandledCudaError", dt=1.5)
    s.peers_lose([rank])


@fault("N02", "INTERCONNECT.NVLINK.CRC_Marginal", "CRC errors grow on one NVLink", "gpu", "slows")
def crc_marginal(s: Scene) -> None:
    link = s.gpu.links[int(s.number("link", s.dice.randrange(len(s.gpu.links)))) % len(s.gpu.links)] if s.gpu.links else None
    if link is not None:
        link.crc = 184_213
        link.replay = 1_377
        link.recovery = 4


@fault("N03", "INTERCONNECT.NVSWITCH.Fatal_SXid", "NVSwitch met a fatal error", "node", "dies")
def fatal_sxid(s: Scene) -> None:
    switches = s.node.profile.switches or ("c4",)
    number, bus = 0, switches[0]
    head = f"nvidia-nvswitch{number}: SXid (PCI:0000:{bus}:00.0): 20034,"
    s.kernel(f"{head} Fatal, Link 30 LTSSM Fault Up", level="err")
    s.kernel(f"{head} Severity 1 Engine instance 30 Sub-engine instance 00", 0.001, "err")
    s.kernel(
        f"{head} Data {{0x50610002, 0x10100030, 0x00000000, 0x10100030, 0x00000000, 0x00000000, 0x00000000, 0x00000000}}", 0.002, "err"
    )
    hit = (s.node.gpus[s.picked % 8], s.node.gpus[(s.picked + 3) % 8])
    for i, gpu in enumerate(hit):
        s.xid(gpu, 74, f"NVLink: fatal error detected on link {4 + i}(0x10000, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)", 0.2 + 0.01 * i)
    text = f"detected NVSwitch fatal error 20034 on fid 0 on NVSwitch pci bus id 00000000:{bus.upper()}:00.0 physical id {number} port 30"
    s.journal(_FM, text, 0.6, 3, "nv-fabricmanager")
    s.node.fabric_broken = True
    dead = [s.rank_on(gpu) for gpu in hit]
    s.peers_time_out([])
    for rank in dead:
        s.warns(rank, "transport/nvls.cc:254 NCCL WARN Cuda failure 401 'the operation cannot be performed in the present state'", 1)
