"""What a fault may do to the world: change a node's state, and have the kernel, a unit or a rank say something at a time."""

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deploy.sandbox.cluster.machines.lines import Job, JobLine, JournalLine, KernelLine, Level, Rank
from deploy.sandbox.cluster.machines.state import ClusterState, GpuState, HcaState, NodeState
from deploy.sandbox.cluster.machines.training import nccl

TIMEOUTS = (600, 300, 120, 60, 30, 10)
"""Collective time limits that jobs are run with; the longest that fits between the fault and now is taken, 600 where it does."""


@dataclass(slots=True)
class Scene:
    """One fault on one node (or on all of its nodes, for what happens once to a job, a switch or a rack)."""

    world: ClusterState
    nodes: Sequence[NodeState]
    picked: int
    t: float
    args: Mapping[str, Any]
    dice: random.Random

    @property
    def node(self) -> NodeState:
        """The (first) node it happens on."""
        return self.nodes[0]

    @property
    def job(self) -> Job:
        """The incident's job."""
        return self.world.job

    @property
    def gpu(self) -> GpuState:
        """The GPU it happens to."""
        return self.node.gpus[self.picked % len(self.node.gpus)]

    def hca(self, default: str) -> HcaState:
        """The adapter that `args.hca` names, else `default`, else the last one there is."""
        wanted = str(self.args.get("hca", default))
        return next((hca for hca in self.node.hcas if hca.name == wanted), self.node.hcas[-1])

    def others(self) -> list[NodeState]:
        """The job's nodes that it does not happen on."""
        return [node for node in self.world.nodes.values() if node not in self.nodes]

    def number(self, name: str, default: float) -> float:
        """A numeric argument of the case."""
        value = self.args.get(name, default)
        return float(value) if isinstance(value, int | float) else default

    def kernel(self, text: str, dt: float = 0.0, level: Level = "warn", node: NodeState | None = None) -> None:
        """The kernel says so."""
        (node or self.node).kernel_log.append(KernelLine(self.t + dt, level, text))

    def xid(
        self,
        gpu: GpuState,
        code: int,
        text: str,
        dt: float = 0.0,
        who: str = "pid='<unknown>', name=<unknown>",
        node: NodeState | None = None,
    ) -> None:
        """The driver reports an Xid."""
        self.kernel(f"NVRM: Xid (PCI:{gpu.pci}): {code}, {who}, {text}", dt, node=node)

    def journal(self, unit: str, text: str, dt: float = 0.0, priority: int = 3, who: str = "systemd") -> None:
        """A unit (or systemd about it) says so."""
        self.node.journal.append(JournalLine(self.t + dt, f"{unit}.service", who, priority, text))

    def pid_on(self, gpu: GpuState, node: NodeState | None = None) -> str:
        """How the driver names the job's process on a GPU."""
        return f"pid={self.rank_on(gpu, node).pid}, name=python3"

    def rank_on(self, gpu: GpuState, node: NodeState | None = None) -> Rank:
        """The rank that runs on a GPU."""
        return self.job.of((node or self.node).name)[gpu.index]

    def rank_of_args(self) -> Rank:
        """The rank that `args.rank` names where it is on one of the fault's nodes, else one of theirs by chance."""
        names = {node.name for node in self.nodes}
        ranks = [rank for rank in self.job.ranks if rank.node in names]
        return next((rank for rank in ranks if rank.rank == self.args.get("rank")), self.dice.choice(ranks))

    def says(self, rank: Rank, *texts: str, dt: float = 0.0) -> None:
        """A rank prints lines without a time of their own."""
        rank.lines += [JobLine(self.t + dt, text) for text in texts]

    def warns(self, rank: Rank, text: str, dt: float = 0.0) -> None:
        """NCCL inside a rank says so."""
        self.says(rank, nccl(rank, text), dt=dt)

    def watchdog(self, rank: Rank, where: str, text: str, dt: float) -> None:
        """PyTorch's C++ inside a rank says so."""
        rank.lines.append(JobLine(self.t + dt, f"[rank{rank.rank}]:[E%TIME% {where}] {text}", "torch"))

    def raises(self, rank: Rank, error: str, frames: Iterable[tuple[str, int, str, str]] = (), dt: float = 0.5) -> None:
        """A rank dies with a Python exception; `frames` are (file, line, function, code), outermost first."""
        prefix = f"[rank{rank.rank}]:"
        rank.lines.append(JobLine(self.t + dt, f"[rank{rank.rank}] ERROR this rank stops", "python"))
        self.says(rank, f"{prefix} Traceback (most recent call last):", dt=dt)
        for file, line, function, code in (("/workspace/train.py", 412, "<module>", "main(parse_args())"), *frames):
            self.says(rank, f'{prefix}   File "{file}", line {line}, in {function}', f"{prefix}     {code}", dt=dt)
        self.says(rank, *(f"{prefix} {line}" for line in error.splitlines()), dt=dt)

    def cuda_error(self, rank: Rank, what: str, dt: float = 0.5) -> None:
        """A rank dies of a CUDA error."""
        hint = (
            "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.\n"
            "For debugging consider passing CUDA_LAUNCH_BLOCKING=1"
        )
        self.raises(rank, f"RuntimeError: CUDA error: {what}\n{hint}", BACKWARD, dt)

    def nccl_error(self, rank: Rank, kind: str, last: str = "", dt: float = 0.5, where: int = 2251) -> None:
        """A rank dies because NCCL returned an error; `kind` is a row of NCCL_ERRORS."""
        says, means = NCCL_ERRORS[kind]
        head = f"torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:{where}, {says}"
        error = f"{head}, NCCL version {self.nccl_of(rank)}\n{kind}: {means}"
        self.raises(rank, f"{error}\nLast error:\n{last}" if last else error, dt=dt)

    def nccl_of(self, rank: Rank) -> str:
        """The NCCL of a rank's image, as errors print it."""
        return ".".join(str(part) for part in self.world.nodes[rank.node].around.image.nccl)

    def all_but(self, dead: Iterable[Rank]) -> list[Rank]:
        """Every rank that did not die first."""
        gone = {rank.rank for rank in dead}
        return [rank for rank in self.job.ranks if rank.rank not in gone]

    def peers_time_out(self, dead: Iterable[Rank], op: str = "ALLREDUCE", seq: int | None = None) -> None:
        """Every other rank waits in a collective until its watchdog gives up."""
        limit = self.timeout()
        seq = seq or self.dice.randrange(8000, 90000)
        for rank in self.all_but(dead):
            late = limit + 0.02 + 0.003 * (rank.rank % 64)
            work = f"WorkNCCL(SeqNum={seq}, OpType={op}, NumelIn=16777216, NumelOut=16777216, Timeout(ms)={limit * 1000})"
            text = (
                f"[Rank {rank.rank}] Watchdog caught collective operation timeout: {work} ran for "
                f"{limit * 1000 + 20 + rank.rank} milliseconds before timing out."
            )
            self.watchdog(rank, "ProcessGroupNCCL.cpp:616", text, late)
            state = f"last enqueued NCCL work: {seq + 2}, last completed NCCL work: {seq - 1}."
            text = f"[PG ID 0 PG GUID 0(default_pg) Rank {rank.rank}] Exception (either an error or timeout) detected by watchdog at work: {seq}, {state}"
            self.watchdog(rank, "ProcessGroupNCCL.cpp:1785", text, late + 0.05)

    def peers_lose(self, dead: Sequence[Rank], dt: float = 2.0) -> None:
        """Every other rank sees the connection to a dead one close."""
        gone = dead[0]
        for rank in self.all_but(dead):
            late = dt + 0.01 * (rank.rank % 64)
            self.warns(rank, f"misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer {gone.node}<{gone.pid}>", late)
            rank.lines.append(JobLine(self.t + late, f"[rank{rank.rank}] ERROR this rank stops", "python"))
            says, means = NCCL_ERRORS["ncclRemoteError"]
            head = f"torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:2251, {says}"
            lines = (f"{head}, NCCL version {self.nccl_of(rank)}", f"ncclRemoteError: {means}")
            self.says(rank, *(f"[rank{rank.rank}]: {line}" for line in lines), dt=late + 0.2)

    def timeout(self) -> int:
        """The job's collective time limit in seconds."""
        wanted = self.args.get("timeout")
        if isinstance(wanted, int) and wanted > 0:
            return wanted
        return next((limit for limit in TIMEOUTS if limit + 12 <= -self.t), 600)


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
"""NCCL's results as PyTorch words them: in the first line, and after the result's name."""

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
