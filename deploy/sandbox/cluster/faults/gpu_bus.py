"""A GPU and its place on the PCIe bus."""

from deploy.sandbox.cluster.faults.context import FaultContext
from deploy.sandbox.cluster.faults.registry import register_fault
from deploy.sandbox.cluster.machines.environment import BmcEvent


@register_fault("G07", "GPU.BUS.Fallen_Off_Bus", "GPU fell off the bus", "gpu", "dies")
def fallen_off_bus(context: FaultContext) -> None:
    rank = context.get_rank_on(context.gpu)
    context.gpu.lost = True
    context.gpu.broken = "unspecified launch failure"
    for link in context.gpu.links:
        link.active = False
    context.log_xid(context.gpu, 79, "GPU has fallen off the bus.")
    context.log_kernel(f"NVRM: GPU {context.gpu.bdf}: GPU has fallen off the bus.", 0.0002, "err")
    context.log_kernel("NVRM: krcRcAndNotifyAllChannels_IMPL: RC all channels for critical error 79.", 0.001)
    context.raise_cuda_error(rank, "unspecified launch failure")
    context.disconnect_peers([rank])


@register_fault("G08", "GPU.BUS.Not_Enumerated", "GPU is not on the bus at all", "gpu", "never starts")
def not_enumerated(context: FaultContext) -> None:
    rank = context.get_rank_on(context.gpu)
    context.gpu.missing = True
    head = f"pcieport {context.node.bridge(context.gpu)}: pciehp: Slot({context.gpu.index + 16})"
    context.log_kernel(f"{head}: Link Down", -5400, "info")
    context.log_kernel(f"{head}: Card not present", -5399.9, "info")
    context.node.environment.bmc.append(
        BmcEvent(context.t - 5400, f"Critical Interrupt GPU baseboard slot {context.gpu.index + 16}", "PCIe fatal error")
    )
    last = context.job.of(context.node.name)[-1]
    context.raise_exception(last, "RuntimeError: CUDA error: invalid device ordinal", _SET_DEVICE, dt=6)
    context.disconnect_peers([last] if last is not rank else [rank], 12)


@register_fault("G09", "GPU.BUS.PCIe_Link_Downgraded", "PCIe link of a GPU trained down", "gpu", "slows")
def pcie_link_downgraded(context: FaultContext) -> None:
    context.gpu.pcie_gen = 3
    context.gpu.pcie_width = 8
    context.gpu.pcie_replay = 1873
    root = context.node.bridge(context.gpu)
    for i in range(6):
        kind = ("[ 6] BadTLP", "[ 7] BadDLLP")[i % 2]
        context.log_kernel(f"pcieport {root}: AER: Corrected error received: {context.gpu.bdf}", i * 61.0)
        context.log_kernel(
            f"nvidia {context.gpu.bdf}: PCIe Bus Error: severity=Corrected, type=Data Link Layer, (Receiver ID)", i * 61.0 + 0.001
        )
        context.log_kernel(f"nvidia {context.gpu.bdf}:    {kind}", i * 61.0 + 0.002)


_SET_DEVICE = (("/workspace/train.py", 268, "main", "torch.cuda.set_device(local_rank)"),)
