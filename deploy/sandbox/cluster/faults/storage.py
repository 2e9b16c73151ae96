"""Disks, file systems, shared memory and file servers."""

from deploy.sandbox.cluster.faults.context import LOADING, FaultContext
from deploy.sandbox.cluster.faults.registry import register_fault
from deploy.sandbox.cluster.machines.environment import AbandonedFile
from deploy.sandbox.cluster.machines.healthy import SHM_PATH

# checkpoints left at their temporary path
FORGOTTEN = tuple(f"/tmp/ckpt-{n}.pt.tmp" for n in (18211, 40127, 77310))  # noqa: S108  # nothing is written there

_SAVE = (
    ("/workspace/train.py", 318, "main", "trainer.save(step)"),
    (
        "/opt/venv/lib/python3.11/site-packages/torch/serialization.py",
        849,
        "save",
        "_save(obj, opened_zipfile, pickle_module, pickle_protocol)",
    ),
)


@register_fault("S10", "SYSTEM_SOFTWARE.STORAGE.Root_FS_Full", "Root file system full", "node", "dies")
def root_fs_full(context: FaultContext) -> None:
    root = context.node.mount("/")
    root.used = root.size
    hours = context.get_number("hours", 100)
    context.node.environment.leftovers += tuple(AbandonedFile(path, 41875931136, "train", hours, "May 28  2026") for path in FORGOTTEN)
    rank = context.job.of(context.node.name)[0]
    context.raise_exception(
        rank, f"OSError: [Errno 28] No space left on device: '/tmp/ckpt-{context.dice.randrange(10000, 90000)}.pt.tmp'", _SAVE
    )
    context.disconnect_peers([rank])


@register_fault("S11", "SYSTEM_SOFTWARE.STORAGE.Shm_Too_Small", "Shared memory too small", "job", "dies")
def shm_too_small(context: FaultContext) -> None:
    for node in context.nodes:
        node.environment.shm_bytes = 64 << 20
        shm = node.mount(SHM_PATH)
        shm.size = 64 << 20
        shm.used = 63 << 20
        shm.options = "rw,nosuid,nodev,noexec,relatime,size=65536k"
    rank = context.choose_rank()
    pid = rank.pid + 402
    context.write_log(
        rank, "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm).", dt=0.2
    )
    context.raise_exception(
        rank,
        (
            f"RuntimeError: DataLoader worker (pid {pid}) is killed by signal: Bus error. It is possible that "
            "dataloader's workers are out of shared memory. Please try to raise your shared memory limit."
        ),
        LOADING,
    )
    context.disconnect_peers([rank])


@register_fault("S12", "SYSTEM_SOFTWARE.STORAGE.NFS_Server_Not_Responding", "File server does not answer", "cluster", "hangs")
def nfs_not_responding(context: FaultContext) -> None:
    server = str(context.args.get("server", "nfs-a"))
    for i, node in enumerate(context.nodes):
        node.environment.stuck = {mount.target for mount in node.mounts if mount.source.startswith(f"{server}:")} or {"/data"}
        for again in range(3):
            context.log_kernel(f"nfs: server {server} not responding, still trying", 3.0 * i + 181.0 * again, "err", node)
        pids = {rank.pid for rank in context.job.of(node.name)}
        for proc in node.procs:
            if proc.pid in pids:
                proc.stat = "D"
                proc.cpu = 0.0
    context.time_out_peers([])


@register_fault("S13", "SYSTEM_SOFTWARE.STORAGE.FS_Remounted_RO", "A disk failed, its file system is read-only", "node", "dies")
def fs_remounted_ro(context: FaultContext) -> None:
    scratch = context.node.mount("/scratch")
    scratch.read_only()
    scratch.fstype = "ext4"
    scratch.source = "/dev/nvme4n1"
    context.log_kernel("nvme nvme4: I/O 117 QID 12 timeout, aborting", -62)
    context.log_kernel("nvme nvme4: I/O 117 QID 12 timeout, reset controller", -31)
    context.log_kernel(
        "blk_update_request: I/O error, dev nvme4n1, sector 1946157056 op 0x1:(WRITE) flags 0x800 phys_seg 16 prio class 0", -1, "err"
    )
    context.log_kernel("EXT4-fs error (device nvme4n1): ext4_journal_check_start:83: comm python3: Detected aborted journal", -0.5, "crit")
    context.log_kernel("EXT4-fs (nvme4n1): Remounting filesystem read-only", 0, "crit")
    rank = context.choose_rank()
    context.raise_exception(rank, f"OSError: [Errno 30] Read-only file system: '/scratch/ckpt/{context.job.id}/step.pt.tmp'", _SAVE)
    context.disconnect_peers([rank])


@register_fault("F07", "FRAMEWORK.DATA.Dataloader_Worker_Leak", "Data loader workers grow until the job's limit", "job", "dies")
def dataloader_worker_leak(context: FaultContext) -> None:
    rank = context.choose_rank()
    node = context.world.nodes[rank.node]
    pid, kb = rank.pid + 377, context.dice.randrange(88_000_000, 96_000_000)
    group = f"/system.slice/slurmstepd.scope/job_{context.job.id}"
    node.oom_kills |= {path: 1 for path in node.oom_kills if path.startswith(group)}
    node.oom_hits[group] = 1
    context.log_kernel("python3 invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0", -0.3, "warn", node)
    context.log_kernel(
        f"oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0-1,oom_memcg={group},task_memcg={group}/step_0/user/task_0,task=python3,pid={pid},uid=2071",
        -0.1,
        "info",
        node,
    )
    context.log_kernel(
        (
            f"Memory cgroup out of memory: Killed process {pid} (python3) total-vm:{kb + 9_120_044}kB, "
            f"anon-rss:{kb}kB, file-rss:60212kB, shmem-rss:88kB, UID:2071 pgtables:190220kB oom_score_adj:0"
        ),
        0,
        "err",
        node,
    )
    for i in range(5):
        context.write_log(rank, f"[rank{rank.rank}] worker pid {pid} rss={2.0 * i + 78:.1f}GiB", dt=-3600.0 * (5 - i))
    context.raise_exception(rank, f"RuntimeError: DataLoader worker (pid {pid}) is killed by signal: Killed.", LOADING)
    context.disconnect_peers([rank])
