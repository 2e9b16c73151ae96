"""Wrong settings in the user's launch script."""

from deploy.sandbox.cluster.faults.context import FaultContext
from deploy.sandbox.cluster.faults.infiniband import completion_error, make_roce
from deploy.sandbox.cluster.faults.registry import register_fault


def _sets(context: FaultContext, **variables: str) -> None:
    for node in context.world.nodes.values():
        node.env |= variables


@register_fault("U03", "USER.CONFIG.NCCL_IB_HCA_Wrong", "NCCL_IB_HCA names an adapter that is not for it", "job", "never starts")
def ib_hca_wrong(context: FaultContext) -> None:
    name = str(context.args.get("hca", "mlx5_1"))
    for node in context.world.nodes.values():
        for hca in node.hcas:
            if hca.name == name:
                hca.link_layer = "Ethernet"
                hca.rate = 100
                hca.lid = 0
                hca.sm_lid = 0
                hca.pkeys = ("0xffff",)
    _sets(context, NCCL_IB_HCA=",".join(hca.name for hca in context.node.hcas))
    for rank in context.job.ranks:
        context.write_nccl_log(rank, f"transport/net_ib.cc:412 NCCL WARN NET/IB : Unable to open device {name}", 8)
        context.raise_nccl_error(rank, "ncclSystemError", dt=9)


@register_fault("U04", "USER.CONFIG.NCCL_SOCKET_IFNAME_Wrong", "NCCL_SOCKET_IFNAME names the wrong interface", "job", "never starts")
def socket_ifname_wrong(context: FaultContext) -> None:
    name = str(context.args.get("ifname", "docker0"))
    _sets(context, NCCL_SOCKET_IFNAME=name)
    for rank in context.job.ranks:
        context.write_nccl_log(rank, f"NCCL INFO Bootstrap : Using {name}:172.17.0.1<0>", 7)
        if rank.rank:
            context.write_nccl_log(
                rank,
                f"misc/socket.cc:484 NCCL WARN socketStartConnect: Connect to 172.17.0.1<{40000 + rank.rank}> failed : Connection refused",
                9,
            )
        context.raise_nccl_error(rank, "ncclSystemError", dt=10)


@register_fault("U05", "USER.CONFIG.CUDA_VISIBLE_DEVICES_Wrong", "CUDA_VISIBLE_DEVICES hides GPUs from the job", "job", "never starts")
def cuda_visible_devices_wrong(context: FaultContext) -> None:
    shown = str(context.args.get("value", "0,1,2,3"))
    _sets(context, CUDA_VISIBLE_DEVICES=shown)
    count = len(shown.split(","))
    dead = [rank for rank in context.job.ranks if rank.local >= count]
    for rank in dead:
        context.raise_exception(
            rank,
            "RuntimeError: CUDA error: invalid device ordinal",
            (("/workspace/train.py", 268, "main", "torch.cuda.set_device(local_rank)"),),
            6,
        )
    context.disconnect_peers(dead or context.job.ranks[:1], 9)


@register_fault("U06", "USER.CONFIG.World_Size_Mismatch", "WORLD_SIZE does not fit the ranks started", "job", "never starts")
def world_size_mismatch(context: FaultContext) -> None:
    started = len(context.job.ranks)
    wanted = int(context.get_number("world_size", started + 8))
    _sets(context, WORLD_SIZE=str(wanted))
    frames = (
        (
            "/opt/venv/lib/python3.11/site-packages/torch/distributed/rendezvous.py",
            258,
            "_env_rendezvous_handler",
            "store = _create_c10d_store(",
        ),
    )
    limit = context.get_timeout()
    for rank in context.job.ranks:
        context.raise_exception(
            rank,
            f"torch.distributed.DistStoreError: Timed out after {limit + 1} seconds waiting for clients. {started}/{wanted} clients joined.",
            frames,
            limit,
        )


@register_fault("U07", "USER.CONFIG.NCCL_IB_GID_INDEX_Wrong", "NCCL_IB_GID_INDEX does not fit the network", "job", "never starts")
def gid_index_wrong(context: FaultContext) -> None:
    make_roce(context)
    _sets(context, NCCL_IB_GID_INDEX=str(context.args.get("index", 0)))
    for rank in context.job.ranks:
        completion_error(context, rank, context.world.nodes[rank.node].hcas[rank.local % len(context.node.hcas)], 12 + 0.01 * rank.rank)


@register_fault("U11", "USER.CONFIG.NCCL_P2P_Disabled", "NVLink and shared memory switched off for NCCL", "job", "slows")
def p2p_disabled(context: FaultContext) -> None:
    _sets(context, NCCL_P2P_DISABLE="1", NCCL_SHM_DISABLE="1")
    total = len(context.job.ranks)
    for rank in context.job.ranks:
        rank.lines = [line for line in rank.lines if "via P2P" not in line.text]
        peer = (rank.rank + 1) % total
        context.write_nccl_log(rank, "NCCL INFO NCCL_P2P_DISABLE set by environment to 1", context.job.started + 13 - context.t)
        context.write_nccl_log(
            rank,
            f"NCCL INFO Channel 00/0 : {rank.rank}[{rank.local}] -> {peer}[{peer % 8}] [send] via NET/Socket/0",
            context.job.started + 16 - context.t,
        )
