"""Ethernet faults that keep a job from finding its peers."""

from deploy.sandbox.cluster.faults.row import fault
from deploy.sandbox.cluster.faults.scene import Scene

_RENDEZVOUS = (("/opt/venv/lib/python3.11/site-packages/torch/distributed/rendezvous.py", 189, "_create_c10d_store", "return TCPStore("),)


@fault("N12", "INTERCONNECT.ETH.MTU_Mismatch", "Smaller MTU on one node", "node", "never starts")
def mtu_mismatch(s: Scene) -> None:
    s.node.around.interfaces[0].mtu = int(s.number("mtu", 1500))
    dead, limit = s.job.of(s.node.name), min(s.timeout(), 300)
    for rank in dead:
        s.says(rank, f"[rank{rank.rank}] rendezvous complete, {len(s.job.ranks)} ranks", dt=2)
        s.raises(
            rank,
            f"torch.distributed.DistStoreError: wait timeout after {limit * 1000}ms, keys: /default_pg/0//cpu//0: Socket Timeout",
            _RENDEZVOUS,
            2 + limit,
        )
    s.peers_lose(dead, 4 + limit)


@fault("N13", "INTERCONNECT.ETH.Rendezvous_Port_Blocked", "Firewall blocks the ports of the job", "node", "never starts")
def rendezvous_port_blocked(s: Scene) -> None:
    s.node.around.master = "filtered" if s.args.get("how") == "filtered" else "refused"
    master = s.world.nodes[s.job.ranks[0].node]
    dead = s.job.of(s.node.name)
    for rank in dead:
        s.warns(
            rank,
            f"misc/socket.cc:484 NCCL WARN socketStartConnect: Connect to {master.address}<{s.dice.randrange(32000, 60000)}> failed : Connection refused",
            9,
        )
        s.nccl_error(rank, "ncclSystemError", dt=9.5)
    s.peers_lose(dead, 14)


@fault("N14", "INTERCONNECT.ETH.DNS_Failure", "Name of the master does not resolve", "node", "never starts")
def dns_failure(s: Scene) -> None:
    s.node.around.master = "no_name"
    master = s.job.ranks[0].node
    dead = s.job.of(s.node.name)
    for node in s.world.nodes.values():
        node.env["MASTER_ADDR"] = master
    for rank in dead:
        s.says(
            rank,
            f"[W socket.cpp:601] [c10d] The IPv4 network addresses of ({master}, 29500) cannot be retrieved (gai error: -2 - Name or service not known).",
            dt=5,
        )
        s.raises(
            rank,
            f"torch.distributed.DistNetworkError: The client socket has failed to resolve {master}: Name or service not known",
            _RENDEZVOUS,
            6,
        )
    s.peers_lose(dead, 12)
