"""Tests between nodes: all-gather over several, RDMA writes between two adapters."""

from deploy.sandbox.cluster.answer import ShellAnswer, text_answer
from deploy.sandbox.cluster.machines import speeds
from deploy.sandbox.cluster.machines.state import HcaState, NodeState
from deploy.sandbox.cluster.render.nccl import COLUMNS, NCCL_TESTS_FOLDER
from deploy.sandbox.cluster.render.query import Query
from deploy.sandbox.cluster.seeded_random import make_random

MESSAGE_BYTES = 1 << 30
_LINE = "-" * 87 + "\n"


def render_all_gather(query: Query) -> ShellAnswer:
    """Render nccl-tests' `all_gather_perf` over the command's nodes."""
    slots = query.slots
    folder = slots.get("nccl_tests", NCCL_TESTS_FOLDER)
    if folder.rstrip("/") != NCCL_TESTS_FOLDER:
        return text_answer(
            "", 127, f"mpirun was unable to find the specified executable file: {folder}/all_gather_perf: No such file or directory\n"
        )
    names = [word.partition(":")[0] for word in (slots.get("hosts") or slots.get("nodes") or query.node.name).split(",")]
    nodes_by_name = query.nodes or {query.node.name: query.node}
    missing = [name for name in names if name not in nodes_by_name]
    nodes = [nodes_by_name[name] for name in names if name in nodes_by_name]
    if missing or not all(node.reachable for node in nodes):
        return text_answer(
            "",
            1,
            f"ssh: connect to host {(missing or names)[0]} port 22: No route to host\nORTE was unable to reliably start one or more daemons.\n",
        )
    if error := speeds.explain_failed_group(nodes, 8):
        return text_answer(
            f"# nThread 1 nGpus 1 minBytes {MESSAGE_BYTES} maxBytes {MESSAGE_BYTES}\n#\n",
            3,
            f"{error}\n .. {nodes[0].name} pid 48811: Test failure common.cu:891\n",
        )
    ranks = sum(len(node.gpus) for node in nodes)
    devices = "".join(
        f"#  Rank {i * 8 + gpu.index:2} Group  0 Pid {48811 + gpu.index:6} on {node.name:>10} device {gpu.index:2} [0x{gpu.bdf[5:7]}] {node.profile.product}\n"
        for i, node in enumerate(nodes)
        for gpu in node.gpus
    )
    busbw = speeds.get_all_gather_rate(nodes) * (1 + make_random(query.seed, "pair", *names).uniform(-0.02, 0.02))
    algbw = busbw * ranks / (ranks - 1)
    cells = f"{MESSAGE_BYTES / algbw / 1000:8.0f} {algbw:7.2f} {busbw:7.2f} {0:6}"
    line = f"{MESSAGE_BYTES:12} {MESSAGE_BYTES // 4 // ranks:13}     float    none      -1 {cells} {cells}\n"
    tail = f"# Out of bounds values : 0 OK\n# Avg bus bandwidth    : {busbw:.3f}\n#\n"
    return text_answer(
        f"# nThread 1 nGpus 1 minBytes {MESSAGE_BYTES} maxBytes {MESSAGE_BYTES}\n#\n# Using devices\n{devices}{COLUMNS}{line}{tail}"
    )


def render_rdma(query: Query) -> ShellAnswer:
    """Render `ib_write_bw` from host memory. Without a peer argument it is the server, which waits."""
    return _render_write_test(query, cuda=False)


def render_rdma_cuda(query: Query) -> ShellAnswer:
    """Render `ib_write_bw` from GPU memory."""
    return _render_write_test(query, cuda=True)


def _render_write_test(query: Query, *, cuda: bool) -> ShellAnswer:
    node = query.node
    name = query.slots.get("hca", node.hcas[0].name)
    hca = _find_adapter(node, name)
    if hca is None or not hca.present:
        return text_answer("", 1, f"IB device {name} not found\n Unable to find the Infiniband/RoCE device\n")
    if hca.state != "Active":
        return text_answer(
            "", 1, f" Port number 1 state is {hca.state}\n Couldn't set the link layer\n Couldn't get context for the device\n"
        )
    if cuda and "nvidia_peermem" not in node.modules:
        return text_answer("", 1, "Couldn't allocate MR\nfailed to create mr\nFailed to create MR\n Couldn't create IB resources\n")
    if "peer" not in query.slots:
        return text_answer(
            "\n************************************\n* Waiting for client to connect... *\n************************************\n"
        )
    peer = next((candidate for candidate in query.nodes.values() if query.slots["peer"] in (candidate.name, candidate.address)), None)
    peer_hca = _find_adapter(peer, name) if peer else None
    if peer is None or peer_hca is None or speeds.explain_missing_rdma(peer_hca) or (cuda and "nvidia_peermem" not in peer.modules):
        return text_answer(
            "",
            1,
            f"Couldn't connect to {query.slots['peer']}:18515\n Unable to open file descriptor for socket connection\n Unable to init the socket connection\n",
        )
    if peer is not node and hca.pkeys != peer_hca.pkeys:
        return text_answer("", 1, " Completion with error at client\n Failed status 12: wr_id 0 syndrom 0x81\nscnt=128, ccnt=0\n")
    return text_answer(_format_report(query, node, hca, peer_hca))


def _find_adapter(node: NodeState, name: str) -> HcaState | None:
    return next((hca for hca in node.hcas if hca.name == name), None)


def _format_report(query: Query, node: NodeState, hca: HcaState, peer_hca: HcaState) -> str:
    gbit_per_second = speeds.get_rdma_write_rate(hca, peer_hca) * (
        1 + make_random(query.seed, node.name, hca.name, "write").uniform(-0.004, 0.004)
    )
    kind = "IB" if hca.link_layer == "InfiniBand" else "Ethernet"
    return (
        f"{_LINE}                    RDMA_Write BW Test\n"
        f" Dual-port       : OFF\t\tDevice         : {hca.name}\n Number of qps   : 1\t\tTransport type : IB\n"
        f" Connection type : RC\t\tUsing SRQ      : OFF\n Mtu             : 4096[B]\n Link type       : {kind}\n{_LINE}"
        f" local address: LID {hca.lid:#06x} QPN 0x0107 PSN 0xb264f8\n remote address: LID {peer_hca.lid:#06x} QPN 0x0107 PSN 0x7bdb93\n{_LINE}"
        " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n"
        f" 65536      {int(gbit_per_second * 3800)}          0.00               {gbit_per_second:.2f}             {gbit_per_second / 524.288:.6f}\n{_LINE}"
    )
