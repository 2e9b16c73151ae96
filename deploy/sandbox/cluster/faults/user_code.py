"""Errors in the user's own program."""

from deploy.sandbox.cluster.faults.context import BACKWARD, FORWARD, LOADING, FaultContext
from deploy.sandbox.cluster.faults.registry import register_fault


@register_fault("U01", "USER.CODE.Illegal_Memory_Access", "Program reads outside its memory", "job", "dies")
def illegal_memory_access(context: FaultContext) -> None:
    dead = []
    for i, node in enumerate([*context.nodes, *context.nodes][:3]):
        gpu = node.gpus[(context.gpu_number + 3 * i) % 8]
        rank = context.get_rank_on(gpu, node)
        dead.append(rank)
        address = f"0x7f{context.dice.randrange(256):02x}_{context.dice.randrange(1 << 20) << 12:08x}"
        text = (
            f"Ch 00000008, intr 00000000. MMU Fault: ENGINE GRAPHICS GPC{i + 1} GPCCLIENT_T1_{2 * i} faulted @ {address}. "
            "Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_READ"
        )
        context.log_xid(gpu, 31, text, 0.2 * i, context.describe_process(gpu, node), node)
        context.log_xid(gpu, 43, "Ch 00000008", 0.2 * i + 0.1, context.describe_process(gpu, node), node)
        context.raise_cuda_error(rank, "an illegal memory access was encountered", 0.5 + 0.2 * i)
    context.disconnect_peers(dead)


@register_fault("U02", "USER.CODE.Batch_Too_Large_OOM", "Batch too large for the GPU", "job", "never starts")
def batch_too_large(context: FaultContext) -> None:
    total = context.node.profile.memory_mib / 1024
    for rank in context.job.ranks:
        text = (
            f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 8.00 GiB. GPU {rank.local} has a total capacity of "
            f"{total:.2f} GiB of which 2.91 GiB is free. Including non-PyTorch memory, this process has {total - 2.95:.2f} GiB "
            f"memory in use. Of the allocated memory {total - 4.4:.2f} GiB is allocated by PyTorch, and 611.20 MiB is reserved "
            "by PyTorch but unallocated."
        )
        context.raise_exception(rank, text, FORWARD, 40 + 0.01 * rank.rank)


@register_fault("U08", "USER.CODE.Rank_Exception_Others_Timeout", "One rank raised, the others wait", "job", "dies")
def rank_exception(context: FaultContext) -> None:
    rank = context.choose_rank()
    key = str(context.args.get("key", "input_ids"))
    frames = (*LOADING, ("/workspace/data/collate.py", 57, "collate", f"batch = [row[{key!r}] for row in rows]"))
    context.raise_exception(rank, f"KeyError: {key!r}", frames, 0)
    context.time_out_peers([rank])


@register_fault("U10", "USER.CODE.Collective_Desync", "Ranks call different collectives", "job", "hangs")
def collective_desync(context: FaultContext) -> None:
    odd = context.choose_rank()
    seq = int(context.get_number("seq", 1041))
    context.time_out_peers([odd], seq=seq)
    limit = context.get_timeout()
    work = f"WorkNCCL(SeqNum={seq}, OpType=ALLGATHER, NumelIn=524288, NumelOut=4194304, Timeout(ms)={limit * 1000})"
    context.write_watchdog_log(
        odd,
        "ProcessGroupNCCL.cpp:616",
        f"[Rank {odd.rank}] Watchdog caught collective operation timeout: {work} ran for {limit * 1000 + 31} milliseconds before timing out.",
        limit + 0.03,
    )
    rows = [f"rank {odd.rank}: seq {seq} ALLGATHER started at /workspace/trainer.py:171 log_metrics"]
    rows += [
        f"rank {rank.rank}: seq {seq} ALLREDUCE started at /workspace/trainer.py:143 step" for rank in context.get_other_ranks([odd])[:6]
    ]
    head = f"[rank0] flight recorder: collectives mismatch at seq {seq}: rank {odd.rank} is in ALLGATHER, {len(context.job.ranks) - 1} ranks are in ALLREDUCE"
    context.write_log(context.job.ranks[0], head, *(f"[rank0] flight recorder: {row}" for row in rows), dt=limit + 1)


@register_fault("U12", "USER.CODE.Loss_NaN_Hyperparameter", "Training diverges by its own settings", "job", "dies")
def loss_nan(context: FaultContext) -> None:
    first = context.job.ranks[0]
    step = int(context.get_number("step", 12400))
    context.write_log(first, "[rank0] restart 3 from checkpoint, same settings: lr=3.0e-03 warmup=0", dt=-900)
    for i, norm in enumerate((1.9, 14.2, 381.0, 9211.4, 4.1e7)):
        context.write_log(first, f"[rank0] step={step + i} loss={2.3 * (1 + i) ** 2:.4f} grad_norm={norm:.1f} lr=3.0e-03", dt=-25.0 + 5 * i)
    context.write_log(first, f"[rank0] step={step + 5} loss=nan grad_norm=nan", dt=-1)
    for rank in context.job.ranks:
        context.raise_exception(rank, f"FloatingPointError: loss is nan at step {step + 5}, the same step as in the last 3 runs", BACKWARD)


@register_fault("U09", "USER.DATA.File_Or_Permission", "A file is missing or not readable", "job", "never starts")
def file_or_permission(context: FaultContext) -> None:
    path = str(context.args.get("path", "/data/tokens/v8/shard-00017.bin"))
    denied = context.args.get("kind") == "permission"
    error = (
        f"PermissionError: [Errno 13] Permission denied: {path!r}"
        if denied
        else f"FileNotFoundError: [Errno 2] No such file or directory: {path!r}"
    )
    for rank in context.job.ranks:
        context.raise_exception(
            rank, error, (*LOADING, ("/workspace/data/shards.py", 31, "open_shard", "return np.memmap(path, mode='r', dtype=np.uint16)")), 7
        )
