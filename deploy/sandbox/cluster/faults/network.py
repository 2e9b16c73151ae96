"""Ethernet faults that keep a job from finding its peers."""

from deploy.sandbox.cluster.faults.context import FaultContext
from deploy.sandbox.cluster.faults.registry import register_fault

_RENDEZVOUS = (("/opt/venv/lib/python3.11/site-packages/torch/distributed/rendezvous.py", 189, "_create_c10d_store", "return TCPStore("),)


@register_fault("N12", "INTERCONNECT.ETH.MTU_Mismatch", "Smaller MTU on one node", "node", "never starts")
def mtu_mismatch(context: FaultContext) -> None:
    context.node.environment.interfaces[0].mtu = int(context.get_number("mtu", 1500))
    dead, limit = context.job.of(context.node.name), min(context.get_timeout(), 300)
    for rank in dead:
        context.write_log(rank, f"[rank{rank.rank}] rendezvous complete, {len(context.job.ranks)} ranks", dt=2)
        context.raise_exception(
            rank,
            f"torch.distributed.DistStoreError: wait timeout after {limit * 1000}ms, keys: /default_pg/0//cpu//0: Socket Timeout",
            _RENDEZVOUS,
            2 + limit,
        )
    context.disconnect_peers(dead, 4 + limit)


@register_fault("N13", "INTERCONNECT.ETH.Rendezvous_Port_Blocked", "Firewall blocks the ports of the job", "node", "never starts")
def rendezvous_port_blocked(context: FaultContext) -> None:
    context.node.environment.master = "filtered" if context.args.get("how") == "filtered" else "refused"
    master = context.world.nodes[context.job.ranks[0].node]
    dead = context.job.of(context.node.name)
    for rank in dead:
        context.write_nccl_log(
            rank,
            f"misc/socket.cc:484 NCCL WARN socketStartConnect: Connect to {master.address}<{context.dice.randrange(32000, 60000)}> failed : Connection refused",
            9,
        )
        context.raise_nccl_error(rank, "ncclSystemError", dt=9.5)
    context.disconnect_peers(dead, 14)


@register_fault("N14", "INTERCONNECT.ETH.DNS_Failure", "Name of the master does not resolve", "node", "never starts")
def dns_failure(context: FaultContext) -> None:
    context.node.environment.master = "no_name"
    master = context.job.ranks[0].node
    dead = context.job.of(context.node.name)
    for node in context.world.nodes.values():
        node.env["MASTER_ADDR"] = master
    for rank in dead:
        context.write_log(
            rank,
            f"[W socket.cpp:601] [c10d] The IPv4 network addresses of ({master}, 29500) cannot be retrieved (gai error: -2 - Name or service not known).",
            dt=5,
        )
        context.raise_exception(
            rank,
            f"torch.distributed.DistNetworkError: The client socket has failed to resolve {master}: Name or service not known",
            _RENDEZVOUS,
            6,
        )
    context.disconnect_peers(dead, 12)
