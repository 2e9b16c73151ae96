"""Wrong settings in the user's launch script."""

from deploy.sandbox.cluster.faults.infiniband import completion_error, make_roce
from deploy.sandbox.cluster.faults.row import fault
from deploy.sandbox.cluster.faults.scene import Scene


def _sets(s: Scene, **variables: str) -> None:
    for node in s.world.nodes.values():
        node.env |= variables


@fault("U03", "USER.CONFIG.NCCL_IB_HCA_Wrong", "NCCL_IB_HCA names an adapter that is not for it", "job", "never starts")
def ib_hca_wrong(s: Scene) -> None:
    name = str(s.args.get("hca", "mlx5_1"))
    for node in s.world.nodes.values():
        for hca in node.hcas:
            if hca.name == name:
                hca.link_layer = "Ethernet"
                hca.rate = 100
                hca.lid = 0
                hca.sm_lid = 0
                hca.pkeys = ("0xffff",)
    _sets(s, NCCL_IB_HCA=",".join(hca.name for hca in s.node.hcas))
    for rank in s.job.ranks:
        s.warns(rank, f"transport/net_ib.cc:412 NCCL WARN NET/IB : Unable to open device {name}", 8)
        s.nccl_error(rank, "ncclSystemError", dt=9)


@fault("U04", "USER.CONFIG.NCCL_SOCKET_IFNAME_Wrong", "NCCL_SOCKET_IFNAME names the wrong interface", "job", "never starts")
def socket_ifname_wrong(s: Scene) -> None:
    name = str(s.args.get("ifname", "docker0"))
    _sets(s, NCCL_SOCKET_IFNAME=name)
    for rank in s.job.ranks:
        s.warns(rank, f"NCCL INFO Bootstrap : Using {name}:172.17.0.1<0>", 7)
        if rank.rank:
            s.warns(
                rank,
                f"misc/socket.cc:484 NCCL WARN socketStartConnect: Connect to 172.17.0.1<{40000 + rank.rank}> failed : Connection refused",
                9,
            )
        s.nccl_error(rank, "ncclSystemError", dt=10)


@fault("U05", "USER.CONFIG.CUDA_VISIBLE_DEVICES_Wrong", "CUDA_VISIBLE_DEVICES hides GPUs from the job", "job", "never starts")
def cuda_visible_devices_wrong(s: Scene) -> None:
    shown = str(s.args.get("value", "0,1,2,3"))
    _sets(s, CUDA_VISIBLE_DEVICES=shown)
    count = len(shown.split(","))
    dead = [rank for rank in s.job.ranks if rank.local >= count]
    for rank in dead:
        s.raises(
            rank,
            "RuntimeError: CUDA error: invalid device ordinal",
            (("/workspace/train.py", 268, "main", "torch.cuda.set_device(local_rank)"),),
            6,
        )
    s.peers_lose(dead or s.job.ranks[:1], 9)


@fault("U06", "USER.CONFIG.World_Size_Mismatch", "WORLD_SIZE does not fit the ranks started", "job", "never starts")
def world_size_mismatch(s: Scene) -> None:
    started = len(s.job.ranks)
    wanted = int(s.number("world_size", started + 8))
    _sets(s, WORLD_SIZE=str(wanted))
    frames = (
        (
            "/opt/venv/lib/python3.11/site-packages/torch/distributed/rendezvous.py",
            258,
            "_env_rendezvous_handler",
            "store = _create_c10d_store(",
        ),
    )
    limit = s.timeout()
    for rank in s.job.ranks:
        s.raises(
            rank,
            f"torch.distributed.DistStoreError: Timed out after {limit + 1} seconds waiting for clients. {started}/{wanted} clients joined.",
            frames,
            limit,
        )


@fault("U07", "USER.CONFIG.NCCL_IB_GID_INDEX_Wrong", "NCCL_IB_GID_INDEX does not fit the network", "job", "never starts")
def gid_index_wrong(s: Scene) -> None:
    make_roce(s)
    _sets(s, NCCL_IB_GID_INDEX=str(s.args.get("index", 0)))
    for rank in s.job.ranks:
        completion_error(s, rank, s.world.nodes[rank.node].hcas[rank.local % len(s.node.hcas)], 12 + 0.01 * rank.rank)


@fault("U11", "USER.CONFIG.NCCL_P2P_Disabled", "NVLink and shared memory switched off for NCCL", "job", "slows")
def p2p_disabled(s: Scene) -> None:
    _sets(s, NCCL_P2P_DISABLE="1", NCCL_SHM_DISABLE="1")
    total = len(s.job.ranks)
    for rank in s.job.ranks:
        rank.lines = [line for line in rank.lines if "via P2P" not in line.text]
        peer = (rank.rank + 1) % total
        s.warns(rank, "NCCL INFO NCCL_P2P_DISABLE set by environment to 1", s.job.started + 13 - s.t)
        s.warns(
            rank,
            f"NCCL INFO Channel 00/0 : {rank.rank}[{rank.local}] -> {peer}[{peer % 8}] [send] via NET/Socket/0",
            s.job.started + 16 - s.t,
        )
