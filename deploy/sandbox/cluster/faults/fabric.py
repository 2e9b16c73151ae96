"""NVLink, NVSwitch and the fabric manager."""

from deploy.sandbox.cluster.faults.context import FaultContext
from deploy.sandbox.cluster.faults.registry import register_fault

_FM = "nvidia-fabricmanager"
_NOT_READY = (
    "RuntimeError: Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before calling "
    "NumCudaDevices() that might have already set an error? Error 802: system not yet initialized"
)
_COUNT = (("/workspace/train.py", 262, "main", "torch.cuda.set_device(local_rank)"),)


def _fabric_manager_fails(context: FaultContext, result: str, status: int) -> None:
    service = context.node.services[_FM]
    service.active = "failed"
    service.sub = "failed"
    service.result = result
    service.exit_status = status
    context.node.fabric_broken = True
    for gpu in context.node.gpus:
        if gpu.fabric_state != "N/A":
            gpu.fabric_state = "In Progress"
            gpu.fabric_status = "N/A"
    dead = context.job.of(context.node.name)
    for rank in dead:
        context.raise_exception(rank, _NOT_READY, _COUNT, 6)
    context.disconnect_peers(dead, 12)


@register_fault("S04", "SYSTEM_SOFTWARE.FABRIC.FabricManager_Down", "Fabric manager was killed", "node", "never starts")
def fabric_manager_down(context: FaultContext) -> None:
    context.log_journal(_FM, f"{_FM}.service: Main process exited, code=killed, status=9/KILL", -190)
    context.log_journal(_FM, f"{_FM}.service: Failed with result 'signal'.", -189.9, 4)
    _fabric_manager_fails(context, "signal", 9)


@register_fault(
    "S05",
    "SYSTEM_SOFTWARE.FABRIC.FabricManager_Version_Mismatch",
    "Fabric manager has another version than the driver",
    "node",
    "never starts",
)
def fabric_manager_version_mismatch(context: FaultContext) -> None:
    major = context.node.driver.partition(".")[0]
    context.node.fm_version = f"{major}.54.15" if major == "550" else f"{major}.86.15"
    text = (
        f"fabric manager NVIDIA GPU driver interface version {context.node.fm_version} don't match with driver version "
        f"{context.node.driver}. Please update with matching NVIDIA driver package."
    )
    context.log_journal(_FM, text, -190, 3, "nv-fabricmanager")
    context.log_journal(_FM, f"{_FM}.service: Control process exited, code=exited, status=1/FAILURE", -189.9, 4)
    context.log_journal(_FM, f"{_FM}.service: Failed with result 'exit-code'.", -189.8, 4)
    _fabric_manager_fails(context, "exit-code", 1)


@register_fault("N01", "INTERCONNECT.NVLINK.Link_Inactive", "All NVLinks of a GPU are down", "gpu", "dies")
def link_inactive(context: FaultContext) -> None:
    rank = context.get_rank_on(context.gpu)
    for link in context.gpu.links:
        link.active = False
    number = context.dice.randrange(max(len(context.gpu.links), 1))
    context.log_xid(context.gpu, 74, f"NVLink: fatal error detected on link {number}(0x0, 0x0, 0x10000, 0x0, 0x0, 0x0, 0x0)")
    context.write_nccl_log(
        rank,
        f"transport/p2p.cc:212 NCCL WARN Could not enable P2P between dev {rank.local}(=bus {context.gpu.bdf[5:7]}000) and its peers",
        1,
    )
    context.raise_nccl_error(rank, "ncclUnhandledCudaError", dt=1.5)
    context.disconnect_peers([rank])


@register_fault("N02", "INTERCONNECT.NVLINK.CRC_Marginal", "CRC errors grow on one NVLink", "gpu", "slows")
def crc_marginal(context: FaultContext) -> None:
    link = (
        context.gpu.links[int(context.get_number("link", context.dice.randrange(len(context.gpu.links)))) % len(context.gpu.links)]
        if context.gpu.links
        else None
    )
    if link is not None:
        link.crc = 184_213
        link.replay = 1_377
        link.recovery = 4


@register_fault("N03", "INTERCONNECT.NVSWITCH.Fatal_SXid", "NVSwitch met a fatal error", "node", "dies")
def fatal_sxid(context: FaultContext) -> None:
    switches = context.node.profile.switches or ("c4",)
    number, bus = 0, switches[0]
    head = f"nvidia-nvswitch{number}: SXid (PCI:0000:{bus}:00.0): 20034,"
    context.log_kernel(f"{head} Fatal, Link 30 LTSSM Fault Up", level="err")
    context.log_kernel(f"{head} Severity 1 Engine instance 30 Sub-engine instance 00", 0.001, "err")
    context.log_kernel(
        f"{head} Data {{0x50610002, 0x10100030, 0x00000000, 0x10100030, 0x00000000, 0x00000000, 0x00000000, 0x00000000}}", 0.002, "err"
    )
    hit = (context.node.gpus[context.gpu_number % 8], context.node.gpus[(context.gpu_number + 3) % 8])
    for i, gpu in enumerate(hit):
        context.log_xid(gpu, 74, f"NVLink: fatal error detected on link {4 + i}(0x10000, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)", 0.2 + 0.01 * i)
    text = f"detected NVSwitch fatal error 20034 on fid 0 on NVSwitch pci bus id 00000000:{bus.upper()}:00.0 physical id {number} port 30"
    context.log_journal(_FM, text, 0.6, 3, "nv-fabricmanager")
    context.node.fabric_broken = True
    dead = [context.get_rank_on(gpu) for gpu in hit]
    context.time_out_peers([])
    for rank in dead:
        context.write_nccl_log(
            rank, "transport/nvls.cc:254 NCCL WARN Cuda failure 401 'the operation cannot be performed in the present state'", 1
        )
