"""InfiniBand and RoCE: ports, cables, adapters, subnet manager, switches."""

from deploy.sandbox.cluster.faults.row import fault
from deploy.sandbox.cluster.faults.scene import Scene
from deploy.sandbox.cluster.machines.lines import Rank
from deploy.sandbox.cluster.machines.state import HcaState


def completion_error(s: Scene, rank: Rank, hca: HcaState, dt: float = 0.0) -> None:
    """Fail a rank's transfer over an adapter: status 12, retries exceeded."""
    peer = s.dice.choice([node for node in s.world.nodes.values() if node.name != rank.node] or [s.node])
    text = (
        "transport/net_ib.cc:1296 NCCL WARN NET/IB : Got completion from peer "
        f"{peer.address}<{s.dice.randrange(30000, 60000)}> with status=12 opcode=0 len=0 vendor err 129 (Send) hca "
        f"{hca.name}"
    )
    s.warns(rank, text, dt)
    s.nccl_error(rank, "ncclRemoteError", dt=dt + 0.4)


def _fails_over(s: Scene, hca: HcaState, dt: float = 0.0) -> None:
    ranks = s.job.of(s.node.name)
    rank = ranks[s.node.hcas.index(hca) * 8 // len(s.node.hcas)]
    completion_error(s, rank, hca, dt)
    s.peers_lose([rank], dt + 6)


@fault("N04", "INTERCONNECT.IB.Port_Down", "InfiniBand port down, cable out", "node", "dies")
def port_down(s: Scene) -> None:
    hca = s.hca("mlx5_3")
    hca.state = "Down"
    hca.phys = str(s.args.get("phys", "Polling"))
    hca.lid = 0
    hca.sm_lid = 0
    hca.rate = 40
    hca.counters["link_downed"] = 1
    s.kernel(f"mlx5_core {hca.bdf}: Port module event: module {hca.name.rpartition('_')[2]}, Cable unplugged", level="info")
    _fails_over(s, hca, 1)


@fault("N05", "INTERCONNECT.IB.Rate_Degraded", "InfiniBand port at a lower rate", "node", "slows")
def rate_degraded(s: Scene) -> None:
    s.hca("mlx5_5").rate = int(s.number("rate", 100))


@fault("N06", "INTERCONNECT.IB.Link_Flapping", "InfiniBand link goes down and up again", "node", "dies")
def link_flapping(s: Scene) -> None:
    hca = s.hca("mlx5_2")
    hca.counters["link_downed"] = int(s.number("downs", 37))
    hca.counters["link_error_recovery"] = 41
    hca.rising["link_downed"] = 1 / 90
    _fails_over(s, hca)


@fault("N07", "INTERCONNECT.IB.Symbol_Errors", "Symbol errors grow on an InfiniBand port", "node", "slows")
def symbol_errors(s: Scene) -> None:
    hca = s.hca("mlx5_6")
    hca.counters["symbol_error"], hca.counters["port_rcv_errors"] = 45_213, 8_121
    hca.rising |= {"symbol_error": 31, "port_rcv_errors": 6}


@fault("N08", "INTERCONNECT.IB.Subnet_Manager_Down", "No subnet manager in the fabric", "cluster", "never starts")
def subnet_manager_down(s: Scene) -> None:
    for node in s.nodes:
        node.around.manager = False
        for hca in node.hcas:
            if hca.link_layer == "InfiniBand":
                hca.state = "Initializing"
                hca.sm_lid = 0
                hca.lid = 0xFFFF
    for rank in s.job.ranks:
        s.warns(rank, "misc/ibvwrap.cc:187 NCCL WARN Call to ibv_modify_qp failed with error Invalid argument", 8)
        s.nccl_error(rank, "ncclSystemError", "Call to ibv_modify_qp failed with error Invalid argument", 8.3)


@fault("N09", "INTERCONNECT.IB.PKey_Mismatch", "Partition key missing on a node", "node", "never starts")
def pkey_mismatch(s: Scene) -> None:
    for hca in s.node.hcas:
        hca.pkeys = tuple(key for key in hca.pkeys if key != "0x8001")
    _fails_over(s, s.hca("mlx5_0"), 9)


@fault("N10", "INTERCONNECT.IB.HCA_Firmware_Fatal", "Firmware of an adapter died", "node", "dies")
def hca_firmware_fatal(s: Scene) -> None:
    hca = s.hca("mlx5_4")
    s.kernel(f"mlx5_core {hca.bdf}: poll_health:852:(pid 0): device's health compromised - reached miss count", level="err")
    s.kernel(f"mlx5_core {hca.bdf}: print_health_info:458:(pid 0): synd 0x8: unrecoverable hardware error", 0.001, "err")
    s.kernel(f"mlx5_core {hca.bdf}: E-Switch: Disable: mode(LEGACY), nvfs(0), necvfs(0), active vports(0)", 4, "info")
    hca.present = False
    _fails_over(s, hca, 1)


@fault("N11", "INTERCONNECT.ROCE.PFC_Misconfigured", "RoCE leaf drops packets, flow control is off", "switch", "slows")
def pfc_misconfigured(s: Scene) -> None:
    make_roce(s)
    for node in s.nodes:
        for hca in node.hcas:
            hca.hw_counters |= {"out_of_sequence": 912_334, "roce_adp_retrans": 71_204, "packet_seq_err": 40_118}
            hca.rising |= {"out_of_sequence": 540, "roce_adp_retrans": 44, "discards": 310}
            hca.discards = 830_112


@fault("N15", "INTERCONNECT.SWITCH.Leaf_Degraded", "Leaf switch with a degraded uplink", "switch", "slows")
def leaf_degraded(s: Scene) -> None:
    for node in s.nodes:
        node.around.leaf = str(s.args.get("leaf", "leaf-L2"))
        node.around.uplinks = [2, 4, 4, 4]
        for hca in node.hcas:
            hca.counters["port_xmit_wait"] = 7_312_004_118 + s.dice.randrange(10**8)
            hca.rising["port_xmit_wait"] = 4_100_000


def make_roce(s: Scene) -> None:
    """Turn all adapters of the job's nodes into RoCE v2."""
    for node in s.world.nodes.values():
        for hca in node.hcas:
            hca.link_layer = "Ethernet"
            hca.lid = 0
            hca.sm_lid = 0
            hca.pkeys = ("0xffff",)
