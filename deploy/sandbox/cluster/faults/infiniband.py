"""InfiniBand and RoCE: ports, cables, adapters, subnet manager, switches."""

from deploy.sandbox.cluster.faults.context import FaultContext
from deploy.sandbox.cluster.faults.registry import register_fault
from deploy.sandbox.cluster.machines.log_lines import Rank
from deploy.sandbox.cluster.machines.state import HcaState


def completion_error(context: FaultContext, rank: Rank, hca: HcaState, dt: float = 0.0) -> None:
    """Fail a rank's transfer over an adapter: status 12, retries exceeded."""
    peer = context.dice.choice([node for node in context.world.nodes.values() if node.name != rank.node] or [context.node])
    text = (
        "transport/net_ib.cc:1296 NCCL WARN NET/IB : Got completion from peer "
        f"{peer.address}<{context.dice.randrange(30000, 60000)}> with status=12 opcode=0 len=0 vendor err 129 (Send) hca "
        f"{hca.name}"
    )
    context.write_nccl_log(rank, text, dt)
    context.raise_nccl_error(rank, "ncclRemoteError", dt=dt + 0.4)


def _fails_over(context: FaultContext, hca: HcaState, dt: float = 0.0) -> None:
    ranks = context.job.of(context.node.name)
    rank = ranks[context.node.hcas.index(hca) * 8 // len(context.node.hcas)]
    completion_error(context, rank, hca, dt)
    context.disconnect_peers([rank], dt + 6)


@register_fault("N04", "INTERCONNECT.IB.Port_Down", "InfiniBand port down, cable out", "node", "dies")
def port_down(context: FaultContext) -> None:
    hca = context.find_hca("mlx5_3")
    hca.state = "Down"
    hca.phys = str(context.args.get("phys", "Polling"))
    hca.lid = 0
    hca.sm_lid = 0
    hca.rate = 40
    hca.counters["link_downed"] = 1
    context.log_kernel(f"mlx5_core {hca.bdf}: Port module event: module {hca.name.rpartition('_')[2]}, Cable unplugged", level="info")
    _fails_over(context, hca, 1)


@register_fault("N05", "INTERCONNECT.IB.Rate_Degraded", "InfiniBand port at a lower rate", "node", "slows")
def rate_degraded(context: FaultContext) -> None:
    context.find_hca("mlx5_5").rate = int(context.get_number("rate", 100))


@register_fault("N06", "INTERCONNECT.IB.Link_Flapping", "InfiniBand link goes down and up again", "node", "dies")
def link_flapping(context: FaultContext) -> None:
    hca = context.find_hca("mlx5_2")
    hca.counters["link_downed"] = int(context.get_number("downs", 37))
    hca.counters["link_error_recovery"] = 41
    hca.rising["link_downed"] = 1 / 90
    _fails_over(context, hca)


@register_fault("N07", "INTERCONNECT.IB.Symbol_Errors", "Symbol errors grow on an InfiniBand port", "node", "slows")
def symbol_errors(context: FaultContext) -> None:
    hca = context.find_hca("mlx5_6")
    hca.counters["symbol_error"], hca.counters["port_rcv_errors"] = 45_213, 8_121
    hca.rising |= {"symbol_error": 31, "port_rcv_errors": 6}


@register_fault("N08", "INTERCONNECT.IB.Subnet_Manager_Down", "No subnet manager in the fabric", "cluster", "never starts")
def subnet_manager_down(context: FaultContext) -> None:
    for node in context.nodes:
        node.environment.manager = False
        for hca in node.hcas:
            if hca.link_layer == "InfiniBand":
                hca.state = "Initializing"
                hca.sm_lid = 0
                hca.lid = 0xFFFF
    for rank in context.job.ranks:
        context.write_nccl_log(rank, "misc/ibvwrap.cc:187 NCCL WARN Call to ibv_modify_qp failed with error Invalid argument", 8)
        context.raise_nccl_error(rank, "ncclSystemError", "Call to ibv_modify_qp failed with error Invalid argument", 8.3)


@register_fault("N09", "INTERCONNECT.IB.PKey_Mismatch", "Partition key missing on a node", "node", "never starts")
def pkey_mismatch(context: FaultContext) -> None:
    for hca in context.node.hcas:
        hca.pkeys = tuple(key for key in hca.pkeys if key != "0x8001")
    _fails_over(context, context.find_hca("mlx5_0"), 9)


@register_fault("N10", "INTERCONNECT.IB.HCA_Firmware_Fatal", "Firmware of an adapter died", "node", "dies")
def hca_firmware_fatal(context: FaultContext) -> None:
    hca = context.find_hca("mlx5_4")
    context.log_kernel(f"mlx5_core {hca.bdf}: poll_health:852:(pid 0): device's health compromised - reached miss count", level="err")
    context.log_kernel(f"mlx5_core {hca.bdf}: print_health_info:458:(pid 0): synd 0x8: unrecoverable hardware error", 0.001, "err")
    context.log_kernel(f"mlx5_core {hca.bdf}: E-Switch: Disable: mode(LEGACY), nvfs(0), necvfs(0), active vports(0)", 4, "info")
    hca.present = False
    _fails_over(context, hca, 1)


@register_fault("N11", "INTERCONNECT.ROCE.PFC_Misconfigured", "RoCE leaf drops packets, flow control is off", "switch", "slows")
def pfc_misconfigured(context: FaultContext) -> None:
    make_roce(context)
    for node in context.nodes:
        for hca in node.hcas:
            hca.hw_counters |= {"out_of_sequence": 912_334, "roce_adp_retrans": 71_204, "packet_seq_err": 40_118}
            hca.rising |= {"out_of_sequence": 540, "roce_adp_retrans": 44, "discards": 310}
            hca.discards = 830_112


@register_fault("N15", "INTERCONNECT.SWITCH.Leaf_Degraded", "Leaf switch with a degraded uplink", "switch", "slows")
def leaf_degraded(context: FaultContext) -> None:
    for node in context.nodes:
        node.environment.leaf = str(context.args.get("leaf", "leaf-L2"))
        node.environment.uplinks = [2, 4, 4, 4]
        for hca in node.hcas:
            hca.counters["port_xmit_wait"] = 7_312_004_118 + context.dice.randrange(10**8)
            hca.rising["port_xmit_wait"] = 4_100_000


def make_roce(context: FaultContext) -> None:
    """Turn all adapters of the job's nodes into RoCE v2."""
    for node in context.world.nodes.values():
        for hca in node.hcas:
            hca.link_layer = "Ethernet"
            hca.lid = 0
            hca.sm_lid = 0
            hca.pkeys = ("0xffff",)
