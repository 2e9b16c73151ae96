"""The operations of a fault: change a node's state, and write kernel, journal and job log lines."""

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deploy.sandbox.cluster.machines.log_lines import Job, JobLine, JournalLine, KernelLine, Level, Rank
from deploy.sandbox.cluster.machines.state import ClusterState, GpuState, HcaState, NodeState
from deploy.sandbox.cluster.machines.training import format_nccl_line

# collective timeouts in seconds; the longest one that expired between the fault and now is used, else 600
COLLECTIVE_TIMEOUTS = (600, 300, 120, 60, 30, 10)


@dataclass(slots=True)
class FaultContext:
    """One fault on one node, or on all its nodes if it happens once to a job, switch or rack."""

    world: ClusterState
    nodes: Sequence[NodeState]
    gpu_number: int
    t: float
    args: Mapping[str, Any]
    dice: random.Random

    @property
    def node(self) -> NodeState:
        return self.nodes[0]

    @property
    def job(self) -> Job:
        return self.world.job

    @property
    def gpu(self) -> GpuState:
        return self.node.gpus[self.gpu_number % len(self.node.gpus)]

    def find_hca(self, default: str) -> HcaState:
        """Return the adapter that `args.hca` names, else `default`, else the last one."""
        wanted = str(self.args.get("hca", default))
        return next((hca for hca in self.node.hcas if hca.name == wanted), self.node.hcas[-1])

    def get_other_nodes(self) -> list[NodeState]:
        """Return the job's nodes without the fault."""
        return [node for node in self.world.nodes.values() if node not in self.nodes]

    def get_number(self, name: str, default: float) -> float:
        value = self.args.get(name, default)
        return float(value) if isinstance(value, int | float) else default

    def log_kernel(self, text: str, dt: float = 0.0, level: Level = "warn", node: NodeState | None = None) -> None:
        (node or self.node).kernel_log.append(KernelLine(self.t + dt, level, text))

    def log_xid(
        self,
        gpu: GpuState,
        code: int,
        text: str,
        dt: float = 0.0,
        who: str = "pid='<unknown>', name=<unknown>",
        node: NodeState | None = None,
    ) -> None:
        self.log_kernel(f"NVRM: Xid (PCI:{gpu.pci}): {code}, {who}, {text}", dt, node=node)

    def log_journal(self, unit: str, text: str, dt: float = 0.0, priority: int = 3, who: str = "systemd") -> None:
        """Log a journal line of a unit, or of systemd about it."""
        self.node.journal.append(JournalLine(self.t + dt, f"{unit}.service", who, priority, text))

    def describe_process(self, gpu: GpuState, node: NodeState | None = None) -> str:
        """Return the driver's name for the job's process on a GPU."""
        return f"pid={self.get_rank_on(gpu, node).pid}, name=python3"

    def get_rank_on(self, gpu: GpuState, node: NodeState | None = None) -> Rank:
        return self.job.of((node or self.node).name)[gpu.index]

    def choose_rank(self) -> Rank:
        """Return the rank that `args.rank` names if it is on one of the fault's nodes, else a random rank there."""
        names = {node.name for node in self.nodes}
        ranks = [rank for rank in self.job.ranks if rank.node in names]
        return next((rank for rank in ranks if rank.rank == self.args.get("rank")), self.dice.choice(ranks))

    def write_log(self, rank: Rank, *texts: str, dt: float = 0.0) -> None:
        rank.lines += [JobLine(self.t + dt, text) for text in texts]

    def write_nccl_log(self, rank: Rank, text: str, dt: float = 0.0) -> None:
        """Log a line from NCCL inside a rank."""
        self.write_log(rank, format_nccl_line(rank, text), dt=dt)

    def write_watchdog_log(self, rank: Rank, where: str, text: str, dt: float) -> None:
        """Log a line from PyTorch's C++ inside a rank."""
        rank.lines.append(JobLine(self.t + dt, f"[rank{rank.rank}]:[E%TIME% {where}] {text}", "torch"))

    def raise_exception(self, rank: Rank, error: str, frames: Iterable[tuple[str, int, str, str]] = (), dt: float = 0.5) -> None:
        """End a rank with a Python exception; `frames` are (file, line, function, code), outermost first."""
        prefix = f"[rank{rank.rank}]:"
        rank.lines.append(JobLine(self.t + dt, f"[rank{rank.rank}] ERROR this rank stops", "python"))
        self.write_log(rank, f"{prefix} Traceback (most recent call last):", dt=dt)
        for file, line, function, code in (("/workspace/train.py", 412, "<module>", "main(parse_args())"), *frames):
            self.write_log(rank, f'{prefix}   File "{file}", line {line}, in {function}', f"{prefix}     {code}", dt=dt)
        self.write_log(rank, *(f"{prefix} {line}" for line in error.splitlines()), dt=dt)

    def raise_cuda_error(self, rank: Rank, what: str, dt: float = 0.5) -> None:
        hint = (
            "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.\n"
            "For debugging consider passing CUDA_LAUNCH_BLOCKING=1"
        )
        self.raise_exception(rank, f"RuntimeError: CUDA error: {what}\n{hint}", BACKWARD, dt)

    def raise_nccl_error(self, rank: Rank, kind: str, last: str = "", dt: float = 0.5, where: int = 2251) -> None:
        """End a rank with an NCCL error; `kind` is a key of NCCL_ERRORS."""
        says, means = NCCL_ERRORS[kind]
        head = f"torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:{where}, {says}"
        error = f"{head}, NCCL version {self.get_nccl_version(rank)}\n{kind}: {means}"
        self.raise_exception(rank, f"{error}\nLast error:\n{last}" if last else error, dt=dt)

    def get_nccl_version(self, rank: Rank) -> str:
        """Return the rank's NCCL version as errors print it."""
        return ".".join(str(part) for part in self.world.nodes[rank.node].environment.image.nccl)

    def get_other_ranks(self, dead: Iterable[Rank]) -> list[Rank]:
        """Return every rank that did not die first."""
        gone = {rank.rank for rank in dead}
        return [rank for rank in self.job.ranks if rank.rank not in gone]

    def time_out_peers(self, dead: Iterable[Rank], op: str = "ALLREDUCE", seq: int | None = None) -> None:
        """Let every other rank wait in a collective until its watchdog times out."""
        limit = self.get_timeout()
        seq = seq or self.dice.randrange(8000, 90000)
        for rank in self.get_other_ranks(dead):
            late = limit + 0.02 + 0.003 * (rank.rank % 64)
            work = f"WorkNCCL(SeqNum={seq}, OpType={op}, NumelIn=16777216, NumelOut=16777216, Timeout(ms)={limit * 1000})"
            text = (
                f"[Rank {rank.rank}] Watchdog caught collective operation timeout: {work} ran for "
                f"{limit * 1000 + 20 + rank.rank} milliseconds before timing out."
            )
            self.write_watchdog_log(rank, "ProcessGroupNCCL.cpp:616", text, late)
            state = f"last enqueued NCCL work: {seq + 2}, last completed NCCL work: {seq - 1}."
            text = f"[PG ID 0 PG GUID 0(default_pg) Rank {rank.rank}] Exception (either an error or timeout) detected by watchdog at work: {seq}, {state}"
            self.write_watchdog_log(rank, "ProcessGroupNCCL.cpp:1785", text, late + 0.05)

    def disconnect_peers(self, dead: Sequence[Rank], dt: float = 2.0) -> None:
        """Let every other rank see the connection to a dead rank close."""
        gone = dead[0]
        for rank in self.get_other_ranks(dead):
            late = dt + 0.01 * (rank.rank % 64)
            self.write_nccl_log(
                rank, f"misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer {gone.node}<{gone.pid}>", late
            )
            rank.lines.append(JobLine(self.t + late, f"[rank{rank.rank}] ERROR this rank stops", "python"))
            says, means = NCCL_ERRORS["ncclRemoteError"]
            head = f"torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:2251, {says}"
            lines = (f"{head}, NCCL version {self.get_nccl_version(rank)}", f"ncclRemoteError: {means}")
            self.write_log(rank, *(f"[rank{rank.rank}]: {line}" for line in lines), dt=late + 0.2)

    def get_timeout(self) -> int:
        wanted = self.args.get("timeout")
        if isinstance(wanted, int) and wanted > 0:
            return wanted
        return next((limit for limit in COLLECTIVE_TIMEOUTS if limit + 12 <= -self.t), 600)


# PyTorch's wording of NCCL results: on the first line, and after the result's name
NCCL_ERRORS = {
    "ncclSystemError": (
        "unhandled system error (run with NCCL_DEBUG=INFO for details)",
        "System call (e.g. socket, malloc) or external library call failed or device error.",
    ),
    "ncclRemoteError": (
        "remote process exited or there was a network error",
        "A call failed possibly due to a network error or a remote process exiting prematurely.",
    ),
    "ncclUnhandledCudaError": (
        "unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
        "Call to CUDA function failed.",
    ),
    "ncclInvalidUsage": (
        "invalid usage (run with NCCL_DEBUG=WARN for details)",
        "This usually reflects invalid usage of NCCL library.",
    ),
}

BACKWARD = (
    ("/workspace/train.py", 287, "main", "trainer.step(batch)"),
    ("/workspace/trainer.py", 143, "step", "loss.backward()"),
)
FORWARD = (
    ("/workspace/train.py", 287, "main", "trainer.step(batch)"),
    ("/workspace/trainer.py", 139, "step", "loss = self.model(batch)"),
)
LOADING = (
    ("/workspace/train.py", 281, "main", "for batch in loader:"),
    ("/opt/venv/lib/python3.11/site-packages/torch/utils/data/dataloader.py", 701, "__next__", "data = self._next_data()"),
)
