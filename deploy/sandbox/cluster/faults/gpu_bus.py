"""A GPU and its place on the PCIe bus."""

from deploy.sandbox.cluster.faults.row import fault
from deploy.sandbox.cluster.faults.scene import Scene
from deploy.sandbox.cluster.machines.around import BmcEvent


@fault("G07", "GPU.BUS.Fallen_Off_Bus", "GPU fell off the bus", "gpu", "dies")
def fallen_off_bus(s: Scene) -> None:
    rank = s.rank_on(s.gpu)
    s.gpu.lost = True
    s.gpu.broken = "unspecified launch failure"
    for link in s.gpu.links:
        link.active = False
    s.xid(s.gpu, 79, "GPU has fallen off the bus.")
    s.kernel(f"NVRM: GPU {s.gpu.bdf}: GPU has fallen off the bus.", 0.0002, "err")
    s.kernel("NVRM: krcRcAndNotifyAllChannels_IMPL: RC all channels for critical error 79.", 0.001)
    s.cuda_error(rank, "unspecified launch failure")
    s.peers_lose([rank])


@fault("G08", "GPU.BUS.Not_Enumerated", "GPU is not on the bus at all", "gpu", "never starts")
def not_enumerated(s: Scene) -> None:
    rank = s.rank_on(s.gpu)
    s.gpu.missing = True
    head = f"pcieport {s.node.bridge(s.gpu)}: pciehp: Slot({s.gpu.index + 16})"
    s.kernel(f"{head}: Link Down", -5400, "info")
    s.kernel(f"{head}: Card not present", -5399.9, "info")
    s.node.around.bmc.append(BmcEvent(s.t - 5400, f"Critical Interrupt GPU baseboard slot {s.gpu.index + 16}", "PCIe fatal error"))
    last = s.job.of(s.node.name)[-1]
    s.raises(last, "RuntimeError: CUDA error: invalid device ordinal", _SET_DEVICE, dt=6)
    s.peers_lose([last] if last is not rank else [rank], 12)


@fault("G09", "GPU.BUS.PCIe_Link_Downgraded", "PCIe link of a GPU trained down", "gpu", "slows")
def pcie_link_downgraded(s: Scene) -> None:
    s.gpu.pcie_gen = 3
    s.gpu.pcie_width = 8
    s.gpu.pcie_replay = 1873
    root = s.node.bridge(s.gpu)
    for i in range(6):
        kind = ("[ 6] BadTLP", "[ 7] BadDLLP")[i % 2]
        s.kernel(f"pcieport {root}: AER: Corrected error received: {s.gpu.bdf}", i * 61.0)
        s.kernel(f"nvidia {s.gpu.bdf}: PCIe Bus Error: severity=Corrected, type=Data Link Layer, (Receiver ID)", i * 61.0 + 0.001)
        s.kernel(f"nvidia {s.gpu.bdf}:    {kind}", i * 61.0 + 0.002)


_SET_DEVICE = (("/workspace/train.py", 268, "main", "torch.cuda.set_device(local_rank)"),)
