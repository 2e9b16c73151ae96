"""`lspci -D -vvv`: NVIDIA functions, and the bridges above them."""

from deploy.sandbox.cluster.answer import ShellAnswer, text_answer
from deploy.sandbox.cluster.machines.state import GpuState, HcaState, NodeState
from deploy.sandbox.cluster.render.query import Query

_SPEEDS = {1: "2.5GT/s", 2: "5GT/s", 3: "8GT/s", 4: "16GT/s", 5: "32GT/s"}
_CONTROL = (
    "\tControl: I/O- Mem+ BusMaster+ SpecCycle- MemWINV- VGASnoop- ParErr+ Stepping- SERR+ FastB2B- DisINTx+\n"
    "\tStatus: Cap+ 66MHz- UDF- FastB2B- ParErr- DEVSEL=fast >TAbort- <TAbort- <MAbort- >SERR- <PERR- INTx-\n"
    "\tLatency: 0\n"
)


def render_gpus(query: Query) -> ShellAnswer:
    """`lspci -D -vvv -d 10de:`: GPUs and NVSwitches in bus order."""
    node = query.node
    text_by_address = {gpu.bdf: _render_gpu(query, gpu) for gpu in node.gpus if not gpu.missing}
    for bus in node.profile.switches:
        text_by_address[f"0000:{bus}:00.0"] = _render_switch(query, f"0000:{bus}:00.0")
    return text_answer("\n".join(text_by_address[bdf] for bdf in sorted(text_by_address)) + "\n")


def render_bridges(query: Query) -> ShellAnswer:
    """`lspci -D -vvv -d ::0604`: the port above each GPU and each adapter."""
    node = query.node
    devices: list[GpuState | HcaState] = [*node.gpus, *node.hcas]
    bridges = [_render_bridge(query, node.bridge(device), device.bdf[5:7]) for device in devices]
    return text_answer("\n".join(bridges) + "\n")


def _render_gpu(query: Query, gpu: GpuState) -> str:
    node = query.node
    head = f"{gpu.bdf} 3D controller: NVIDIA Corporation {node.profile.chip}"
    if gpu.lost:
        return f"{head} (rev ff) (prog-if ff)\n\t!!! Unknown header type 7f\n" + _render_driver(node)
    body = f"{head} (rev a1)\n\tSubsystem: NVIDIA Corporation Device {node.profile.pci_subsystem}\n" + _CONTROL
    body += f"\tInterrupt: pin A routed to IRQ {18 + gpu.index}\n\tNUMA node: {gpu.index // 4}\n"
    body += f"\tRegion 0: Memory at {0xA2000000 + gpu.index * 0x4000000:x} (64-bit, prefetchable) [size=64M]\n"
    return body + _render_link(query, node.profile.pcie_gen, 16, gpu.pcie_gen, gpu.pcie_width, "Endpoint, MSI 00") + _render_driver(node)


def _render_driver(node: NodeState) -> str:
    if not node.driver:
        return "\tKernel modules: nvidiafb, nouveau\n"
    return "\tKernel driver in use: nvidia\n\tKernel modules: nvidiafb, nouveau, nvidia_drm, nvidia\n"


def _render_switch(query: Query, bdf: str) -> str:
    chip = "GH100 [H100 NVSwitch] (rev a1)" if query.node.profile.fabric else "GA100 [A100 NVSwitch] (rev a1)"
    return (
        f"{bdf} Bridge: NVIDIA Corporation {chip}\n"
        + _CONTROL
        + _render_link(query, 4, 2, 4, 2, "Endpoint, MSI 00")
        + "\tKernel driver in use: nvidia-nvswitch\n"
    )


def _render_bridge(query: Query, bdf: str, bus: str) -> str:
    text = f"{bdf} PCI bridge: Broadcom / LSI PEX890xx PCIe Gen 5 Switch (rev b0) (prog-if 00 [Normal decode])\n" + _CONTROL
    text += f"\tBus: primary=15, secondary={bus}, subordinate={bus}, sec-latency=0\n"
    text += _render_link(query, 5, 16, 5, 16, "Downstream Port (Slot+), MSI 00")
    if not query.as_root:
        return text
    sign = "+" if query.node.acs else "-"
    caps = "\t\tACSCap:\tSrcValid+ TransBlk+ ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans+\n"
    control = f"\t\tACSCtl:\tSrcValid{sign} TransBlk- ReqRedir{sign} CmpltRedir{sign} UpstreamFwd{sign} EgressCtrl- DirectTrans-\n"
    return text + "\tCapabilities: [148 v1] Access Control Services\n" + caps + control + "\tKernel driver in use: pcieport\n"


def _render_link(query: Query, gen_max: int, width_max: int, gen: int, width: int, kind: str) -> str:
    """Return link capability and status; only root may read them from configuration space."""
    if not query.as_root:
        return "\tCapabilities: <access denied>\n"
    speed = _SPEEDS[gen] + (" (downgraded)" if gen < gen_max else "")
    lanes = f"x{width}" + (" (downgraded)" if width < width_max else "")
    return (
        f"\tCapabilities: [60] Express (v2) {kind}\n"
        f"\t\tLnkCap:\tPort #0, Speed {_SPEEDS[gen_max]}, Width x{width_max}, ASPM not supported\n"
        "\t\t\tClockPM+ Surprise- LLActRep- BwNot- ASPMOptComp+\n"
        "\t\tLnkCtl:\tASPM Disabled; RCB 64 bytes, Disabled- CommClk+\n"
        "\t\t\tExtSynch- ClockPM- AutWidDis- BWInt- AutBWInt-\n"
        f"\t\tLnkSta:\tSpeed {speed}, Width {lanes}\n"
        "\t\t\tTrErr- Train- SlotClk+ DLActive- BWMgmt- ABWMgmt-\n"
    )
