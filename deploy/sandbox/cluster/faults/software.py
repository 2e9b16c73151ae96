"""Driver, modules, kernel, limits, clock and stray processes of a node."""

from dataclasses import replace

from deploy.sandbox.cluster.faults.context import BACKWARD, FaultContext
from deploy.sandbox.cluster.faults.registry import register_fault
from deploy.sandbox.cluster.machines.healthy import GIB, get_task_cgroup
from deploy.sandbox.cluster.machines.profiles import CUDA_OF_BRANCH, find_unsupported_cuda, get_driver_branch
from deploy.sandbox.cluster.machines.state import GpuProcess, HostProcess

_COUNT = (("/workspace/train.py", 262, "main", "torch.cuda.set_device(local_rank)"),)


@register_fault("S01", "SYSTEM_SOFTWARE.DRIVER.Driver_Library_Mismatch", "Loaded driver and its libraries differ", "node", "never starts")
def driver_library_mismatch(context: FaultContext) -> None:
    number = get_driver_branch(context.node.driver)
    context.node.driver = {535: "535.104.12", 550: "550.54.15", 570: "570.86.15"}.get(number, f"{number}.54.03")
    context.node.kernel_log = [
        replace(line, text=line.text.replace(context.node.driver_user, context.node.driver)) for line in context.node.kernel_log
    ]
    context.log_journal(
        "unattended-upgrades",
        f"Packages that were upgraded: libnvidia-compute-{number} nvidia-utils-{number}",
        -25_000,
        6,
        "unattended-upgrade",
    )
    versions = (
        f"the client has the version {context.node.driver_user}, but\nNVRM: this kernel module has the version {context.node.driver}."
    )
    for line in (
        f"NVRM: API mismatch: {versions}  Please\nNVRM: make sure that this kernel module and all NVIDIA "
        "driver\nNVRM: components have the same version."
    ).splitlines():
        context.log_kernel(line, 5, "err")
    rank = context.job.of(context.node.name)[0]
    context.raise_exception(
        rank,
        (
            "RuntimeError: Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before calling "
            "NumCudaDevices() that might have already set an error? Error 803: system has unsupported display driver "
            "/ cuda driver combination"
        ),
        _COUNT,
        6,
    )
    context.disconnect_peers([rank], 12)


@register_fault(
    "S02", "SYSTEM_SOFTWARE.CUDA.Host_Container_CUDA_Mismatch", "Image needs a newer CUDA than the driver has", "job", "never starts"
)
def host_container_cuda_mismatch(context: FaultContext) -> None:
    found = CUDA_OF_BRANCH[get_driver_branch(context.node.driver)].replace(".", "0") + "0"
    context.log_xid(
        context.node.gpus[context.gpu_number],
        119,
        f"Timeout after 6s of waiting for RPC response from GPU{context.gpu_number} GSP! Expected function 103 (GSP_RM_ALLOC) (0x2081 0x4).",
        1,
        context.describe_process(context.node.gpus[context.gpu_number]),
    )
    for node in context.nodes:
        node.environment.image.cuda = find_unsupported_cuda(context.node.driver)
        node.environment.image.torch = f"2.9.0+cu{node.environment.image.cuda.replace('.', '')}"
        node.environment.image.flash_attn = "2.8.3+cu13torch2.9"
    text = (
        f"RuntimeError: The NVIDIA driver on your system is too old (found version {found}). Please update your "
        "GPU driver by downloading and installing a new version from the URL: "
        "http://www.nvidia.com/Download/index.aspx"
    )
    for node in context.nodes:
        for rank in context.job.of(node.name):
            context.raise_exception(rank, text, _COUNT, 6)


@register_fault("S03", "SYSTEM_SOFTWARE.DRIVER.Module_Not_Loaded", "NVIDIA module not loaded after a kernel update", "node", "never starts")
def module_not_loaded(context: FaultContext) -> None:
    node = context.node
    node.driver = ""
    node.driver_disk = ""
    built_for, node.kernel = node.kernel, "5.15.0-119-generic"
    node.dkms = [f"nvidia/{node.driver_user}, {built_for}, x86_64: installed", f"nvidia/{node.driver_user}: added"]
    node.modules = {name: size for name, size in node.modules.items() if not name.startswith(("nvidia", "gdrdrv"))}
    node.booted = context.t - 5400
    node.kernel_log = [line for line in node.kernel_log if "nvidia" not in line.text.lower() and "NVRM" not in line.text]
    node.services["nvidia-persistenced"].active = "failed"
    node.services["nvidia-persistenced"].sub = "failed"
    node.services["nvidia-persistenced"].result = "exit-code"
    node.services["nvidia-persistenced"].exit_status = 1
    for gpu in node.gpus:
        gpu.broken = "no CUDA-capable device is detected"
    context.log_journal("nvidia-persistenced", "nvidia-persistenced.service: Main process exited, code=exited, status=1/FAILURE", -5300)
    rank = context.job.of(node.name)[0]
    context.raise_exception(
        rank, "RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 100: no CUDA-capable device is detected", _COUNT, 6
    )
    context.disconnect_peers([rank], 12)


@register_fault("S08", "SYSTEM_SOFTWARE.RDMA.Peermem_Not_Loaded", "nvidia_peermem not loaded", "node", "slows")
def peermem_not_loaded(context: FaultContext) -> None:
    context.node.modules.pop("nvidia_peermem", None)
    for rank in context.job.of(context.node.name):
        rank.lines = [line for line in rank.lines if "GPU Direct RDMA Enabled" not in line.text]
        for i, hca in enumerate(context.node.hcas):
            context.write_nccl_log(
                rank, f"NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA {i} '{hca.name}'", context.job.started + 15 - context.t
            )


@register_fault("S09", "SYSTEM_SOFTWARE.LIMITS.Memlock_Too_Low", "Locked-memory limit too low", "node", "never starts")
def memlock_too_low(context: FaultContext) -> None:
    context.node.memlock_kib = int(context.get_number("kib", 64))
    dead = context.job.of(context.node.name)
    for rank in dead:
        context.write_nccl_log(rank, "misc/ibvwrap.cc:94 NCCL WARN Call to ibv_create_cq failed with error Cannot allocate memory", 8)
        context.raise_nccl_error(rank, "ncclSystemError", "Call to ibv_create_cq failed with error Cannot allocate memory", 8.3)
    context.disconnect_peers(dead, 12)


@register_fault("S14", "SYSTEM_SOFTWARE.MEMORY.Host_OOM_Kill", "Host out of memory, a rank was killed", "node", "dies")
def host_oom_kill(context: FaultContext) -> None:
    rank = context.choose_rank()
    context.node.memory_used = context.node.memory_total - 3 * GIB
    group = get_task_cgroup(context.job.id, 0)
    for path in (f"/system.slice/slurmstepd.scope/job_{context.job.id}", group.partition("/user")[0]):
        context.node.oom_kills[path] = 1
    kb = context.dice.randrange(210_000_000, 260_000_000)
    context.log_kernel("python3 invoked oom-killer: gfp_mask=0x140cca(GFP_HIGHUSER_MOVABLE|__GFP_COMP), order=0, oom_score_adj=0", -0.4)
    context.log_kernel(
        f"oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0-1,global_oom,task_memcg={group},task=python3,pid={rank.pid},uid=2071",
        -0.1,
        "info",
    )
    context.log_kernel(
        (
            f"Out of memory: Killed process {rank.pid} (python3) total-vm:{kb * 2}kB, anon-rss:{kb}kB, "
            "file-rss:81224kB, shmem-rss:124kB, UID:2071 pgtables:512140kB oom_score_adj:0"
        ),
        0,
        "err",
    )
    context.write_log(
        rank,
        f"slurmstepd: error: Detected 1 oom_kill event in StepId={context.job.id}.0. Some of the step tasks have been OOM Killed.",
        f"/var/spool/slurmd/job{context.job.id}/slurm_script: line 41: {rank.pid} Killed                  python3 -u train.py --config configs/pretrain.yaml",
        dt=0.6,
    )
    context.time_out_peers([rank])


@register_fault("S15", "SYSTEM_SOFTWARE.KERNEL.Soft_Lockup", "A processor is stuck in the kernel", "node", "hangs")
def soft_lockup(context: FaultContext) -> None:
    cpu = context.dice.randrange(4, 96)
    for i in range(6):
        context.log_kernel(
            f"watchdog: BUG: soft lockup - CPU#{cpu} stuck for {22 + 4 * (i + 1)}s! [kworker/{cpu}:2:{21877}]", i * 28.0, "emerg"
        )
    context.node.environment.not_responding = True
    context.node.procs.append(
        HostProcess(21877, 2, "root", "R", context.t - 86_000, 99.8, "/", f"kworker/{cpu}:2", f"[kworker/{cpu}:2+events]")
    )
    context.time_out_peers(context.job.of(context.node.name))


@register_fault("S16", "SYSTEM_SOFTWARE.PCIE.ACS_Enabled", "ACS on at the PCIe bridges", "node", "slows")
def acs_enabled(context: FaultContext) -> None:
    context.node.acs = True


@register_fault("S17", "SYSTEM_SOFTWARE.TIME.Clock_Skew", "Clock of the node is wrong", "node", "never starts")
def clock_skew(context: FaultContext) -> None:
    context.node.skew = -context.get_number("seconds", 412)
    context.node.environment.synchronised = False
    service = context.node.services["chronyd"]
    service.active = "failed"
    service.sub = "failed"
    service.result = "exit-code"
    service.exit_status = 1
    dead = context.job.of(context.node.name)
    context.raise_exception(
        dead[0],
        "ssl.SSLCertVerificationError: [SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: certificate is not yet valid (_ssl.c:1006)",
        (("/workspace/train.py", 240, "main", "tracker = connect(config.tracker)"),),
        6,
    )
    for rank in dead[1:]:
        context.raise_exception(
            rank, "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError: the heartbeat of this node has expired", dt=20
        )
    context.disconnect_peers(dead, 22)


@register_fault("S18", "SYSTEM_SOFTWARE.PROCESS.Orphan_GPU_Process", "Left-over process holds GPU memory", "gpu", "never starts")
def orphan_gpu_process(context: FaultContext) -> None:
    pid, mib = 31877 + context.gpu.index, int(context.get_number("mib", context.node.profile.memory_mib * 0.766))
    old = str(int(context.job.id) - 137)
    context.gpu.procs.append(GpuProcess(pid, "/usr/bin/python3", mib))
    context.gpu.power_draw += 45
    context.node.procs.append(
        HostProcess(
            pid,
            1,
            "bob",
            "Sl",
            context.job.started - 61_000,
            0.0,
            get_task_cgroup(old, context.gpu.index),
            "python3",
            "/usr/bin/python3 finetune.py --out /scratch/bob/run7",
        )
    )
    rank, total = context.get_rank_on(context.gpu), context.node.profile.memory_mib / 1024
    text = (
        f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU {context.gpu.index} has a total "
        f"capacity of {total:.2f} GiB of which 1.87 GiB is free. "
        f"Process {pid} has {mib / 1024:.2f} GiB memory in use. Including non-PyTorch memory, this process has "
        f"{total - mib / 1024 - 2.1:.2f} GiB memory in use. "
        f"Of the allocated memory {total - mib / 1024 - 3.4:.2f} GiB is allocated by PyTorch, and 210.11 MiB is reserved by PyTorch but unallocated."
    )
    context.raise_exception(rank, text, BACKWARD, 18)
    context.disconnect_peers([rank], 24)


@register_fault("S19", "SYSTEM_SOFTWARE.CPU.Governor_Powersave", "Host processors in power-save mode", "node", "slows")
def governor_powersave(context: FaultContext) -> None:
    context.node.environment.governor = "powersave"
    context.node.environment.mhz = 1200
    for gpu in context.node.gpus:
        gpu.util = 28 + context.dice.randrange(8)
        gpu.power_draw = round(context.node.profile.busy_watts * 0.42, 2)
    for rank in context.job.of(context.node.name):
        context.write_log(
            rank, f"[rank{rank.rank}] data wait {context.dice.uniform(5.4, 6.2):.2f}s of step time, input pipeline is the bottleneck"
        )
