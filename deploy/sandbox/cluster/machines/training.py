"""The incident's job: rank placement and the log of a healthy run."""

from collections.abc import Sequence

from deploy.sandbox.cluster.machines.log_lines import Job, JobLine, Rank
from deploy.sandbox.cluster.machines.state import HcaState, NodeState
from deploy.sandbox.cluster.seeded_random import make_random, make_token

GPUS_PER_NODE = 8
STEP_SECONDS = 4.2
LOG_INTERVAL_SECONDS = 42.0
LOGGED_STEPS = 24
NCCL_VERSION = "2.21.5"


def create_job(names: Sequence[str], seed: int, *, started: float, ended: float | None, run: int = 0) -> Job:
    """Return the job with silent ranks. A later `run` has other pids."""
    random = make_random(seed, "job", run) if run else make_random(seed, "job")
    ranks = []
    for index, name in enumerate(names):
        first_pid = 40000 + 1000 * (index % 20) + random.randrange(900)
        ranks += [Rank(index * GPUS_PER_NODE + local, name, local, first_pid + local) for local in range(GPUS_PER_NODE)]
    return Job(str(random.randrange(21000, 98000)), started, ended, ranks)


def write_healthy_log(job: Job, nodes: dict[str, NodeState], seed: int, *, trained: bool) -> None:
    """Write every rank's start-up lines and, if `trained`, the last steps."""
    for rank in job.ranks:
        node = nodes[rank.node]
        rank.lines += _build_startup_lines(job, rank, node, seed)
        if trained:
            rank.lines += _build_connected_lines(job, rank, node, seed)
    if trained:
        _write_steps(job, seed)


def format_nccl_line(rank: Rank, text: str) -> str:
    """Return a line as NCCL prints it."""
    return f"{rank.node}:{rank.pid}:{rank.pid + 311} [{rank.local}] {text}"


def format_using_ib_line(hcas: Sequence[HcaState], address: str) -> str:
    """Return NCCL's line that lists the chosen adapters."""
    kind = "IB" if hcas and hcas[0].link_layer == "InfiniBand" else "RoCE"
    adapters = " ".join(f"[{i}]{hca.name}:1/{kind}" for i, hca in enumerate(hcas))
    return f"NCCL INFO NET/IB : Using {adapters} [RO]; OOB eth0:{address}<0>"


def _build_startup_lines(job: Job, rank: Rank, node: NodeState, seed: int) -> list[JobLine]:
    at = job.started
    random = make_random(seed, "startup", rank.rank)
    lines = [
        JobLine(at + 4, f"[rank{rank.rank}] INFO world_size={len(job.ranks)} local_rank={rank.local} host={rank.node}", "python"),
        JobLine(at + 9, f"[rank{rank.rank}] INFO opened shard index, {random.randrange(400, 900)} files under /data/tokens/v7", "python"),
        JobLine(at + 12, format_nccl_line(rank, f"NCCL INFO Bootstrap : Using eth0:{node.address}<0>")),
        JobLine(at + 12, format_nccl_line(rank, "NCCL INFO cudaDriverVersion 12040")),
    ]
    if rank.rank == 0:
        lines.append(JobLine(at + 12, f"NCCL version {NCCL_VERSION}+cuda12.4"))
    return lines


def _build_connected_lines(job: Job, rank: Rank, node: NodeState, seed: int) -> list[JobLine]:
    at, total = job.started + 14, len(job.ranks)
    init = f"comm 0x55{make_token(seed, 'comm', rank.rank)[:10]} rank {rank.rank}"
    done = f"busId {node.gpus[rank.local].bdf[5:7]}000 commId 0x{make_token(seed, 'comm')[:12]} - Init COMPLETE"
    return [
        JobLine(at, format_nccl_line(rank, format_using_ib_line(node.hcas, node.address))),
        JobLine(at, format_nccl_line(rank, "NCCL INFO Using network IB")),
        JobLine(at, format_nccl_line(rank, f"NCCL INFO {init} nRanks {total} nNodes {total // GPUS_PER_NODE} localRanks 8 localRank {rank.local} MNNVL 0")),
        *(JobLine(at + 1, format_nccl_line(rank, f"NCCL INFO NET/IB : GPU Direct RDMA Enabled for HCA {i} '{hca.name}'")) for i, hca in enumerate(node.hcas)),
        JobLine(at + 2, format_nccl_line(rank, f"NCCL INFO Channel 00/0 : {rank.rank}[{rank.local}] -> {rank.rank ^ 1}[{rank.local ^ 1}] via P2P/CUMEM")),
        JobLine(at + 4, format_nccl_line(rank, "NCCL INFO Connected all rings")),
        JobLine(at + 6, format_nccl_line(rank, f"NCCL INFO ncclCommInitRank {init} nranks {total} cudaDev {rank.local} nvmlDev {rank.local} {done}")),
    ]  # fmt: skip


def _write_steps(job: Job, seed: int) -> None:
    """Write the last steps: all on rank 0, the last two elsewhere.

    Steps are slower from `slow_from` to `slow_until`, and there are none after `silent_from`.
    """
    last = min(0.0 if job.ended is None else job.ended, 0.0 if job.silent_from is None else job.silent_from)
    first = max(job.started + 60, last - LOGGED_STEPS * LOG_INTERVAL_SECONDS, -30000.0 if job.slow_factor == 1 else job.started + 60)
    random = make_random(seed, "steps")
    loss, t, step = 2.31, first, int((first - job.started) / STEP_SECONDS)
    slow_until = 1.0 if job.slow_until is None else job.slow_until
    steps: list[tuple[float, str]] = []
    while t < last - 1:
        slow_factor = job.slow_factor if job.slow_from <= t < slow_until else 1.0
        loss -= 0.0007 + random.uniform(-0.002, 0.002)
        speed = 1_048_576 * len(job.ranks) / 8 / (STEP_SECONDS * slow_factor)
        text = (
            f"step={step} loss={loss:.4f} lr=1.20e-04 grad_norm={random.uniform(0.31, 0.58):.3f} tokens/s={speed:.0f} "
            f"step_time={STEP_SECONDS * slow_factor + random.uniform(-0.04, 0.04):.2f}s"
        )
        steps.append((t, text))
        step += 10
        t += LOG_INTERVAL_SECONDS * slow_factor
    for rank in job.ranks:
        for t, text in steps if rank.rank == 0 else steps[-2:]:
            logged_text = text if rank.rank == 0 else text.partition(" ")[0]
            rank.lines.append(JobLine(t + 0.01 * rank.rank, f"[rank{rank.rank}] INFO {logged_text}", "python"))
