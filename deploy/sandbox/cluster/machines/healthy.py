"""A healthy node with the incident's job: the starting point of every fault."""

from deploy.sandbox.cluster.machines.environment import NodeEnvironment
from deploy.sandbox.cluster.machines.log_lines import Job
from deploy.sandbox.cluster.machines.noise import build_boot_lines, build_harmless_journal, build_harmless_lines
from deploy.sandbox.cluster.machines.profiles import DEFAULT_DRIVER, DEFAULT_KERNEL, Profile
from deploy.sandbox.cluster.machines.state import GpuProcess, GpuState, HcaState, HostProcess, Link, Mount, NodeState, Service
from deploy.sandbox.cluster.seeded_random import make_random, make_token, make_uuid

GIB = 1 << 30
TIB = 1 << 40
DAY = 86400.0
SHM_PATH = "/dev/shm"  # noqa: S108  # a path on the simulated node

COUNTERS = (
    "VL15_dropped", "excessive_buffer_overrun_errors", "link_downed", "link_error_recovery", "local_link_integrity_errors",
    "port_rcv_constraint_errors", "port_rcv_data", "port_rcv_errors", "port_rcv_packets", "port_rcv_remote_physical_errors",
    "port_rcv_switch_relay_errors", "port_xmit_constraint_errors", "port_xmit_data", "port_xmit_discards", "port_xmit_packets",
    "port_xmit_wait", "symbol_error",
)  # fmt: skip
HW_COUNTERS = (
    "duplicate_request", "implied_nak_seq_err", "local_ack_timeout_err", "np_cnp_sent", "np_ecn_marked_roce_packets", "out_of_buffer",
    "out_of_sequence", "packet_seq_err", "req_cqe_error", "resp_cqe_error", "rnr_nak_retry_err", "roce_adp_retrans",
    "roce_slow_restart", "rp_cnp_handled", "rx_icrc_encapsulated",
)  # fmt: skip
TRAFFIC = ("port_rcv_data", "port_rcv_packets", "port_xmit_data", "port_xmit_packets")

# units that `systemctl show` is asked about
UNITS = ("nvidia-fabricmanager", "nvidia-persistenced", "nvidia-dcgm", "docker", "openibd", "chronyd", "chrony", "slurmd")


def build_node(
    profile: Profile, name: str, index: int, seed: int, *, driver: str = DEFAULT_DRIVER, job: Job, age: float = 0.0
) -> NodeState:
    """Return a healthy node, busy while the job runs. `age` moves its past back by seconds."""
    booted = -9 * DAY - index * 137.0 - age
    return NodeState(
        name=name,
        index=index,
        profile=profile,
        address=get_address(index),
        reachable=True,
        driver=driver,
        driver_user=driver,
        driver_disk=driver,
        fm_version=driver,
        kernel=DEFAULT_KERNEL,
        boot_id=make_token(seed, name, "boot")[:32],
        previous_boot_id=make_token(seed, name, "boot before")[:32],
        booted=booted,
        gpus=[_build_gpu(profile, name, i, seed, job) for i in range(len(profile.buses))],
        hcas=[_build_hca(profile, name, index, i, seed) for i in range(len(profile.hca_buses))],
        services=_build_services(profile),
        modules=_build_modules(profile),
        dkms=[f"nvidia/{driver}, {DEFAULT_KERNEL}, x86_64: installed"],
        mounts=_build_mounts(profile, seed, name),
        memory_total=profile.memory_gib * GIB - 11 * GIB,
        memory_used=profile.memory_gib * GIB // (5 if job.ended is None else 24),
        swap_used=0,
        memlock_kib=-1,
        oom_kills=_build_oom_kills(job),
        env=_build_job_environment(job, profile),
        procs=_build_processes(profile, name, booted, job),
        kernel_log=build_boot_lines(profile, name, booted, driver) + build_harmless_lines(name, seed, age),
        journal=build_harmless_journal(profile, booted, driver, job),
        environment=NodeEnvironment(leaf=f"leaf-{index // 2 + 1}"),
    )


def get_address(index: int) -> str:
    """Return the node's address on the management network."""
    return f"10.20.{index // 200}.{11 + index % 200}"


def get_task_cgroup(job: str, task: int) -> str:
    """Return the cgroup of one Slurm task of a job."""
    return f"/system.slice/slurmstepd.scope/job_{job}/step_0/user/task_{task}"


def make_idle(gpu: GpuState, profile: Profile, variation: float = 0.0) -> None:
    """Set a GPU idle. `variation` (0 to 1) shifts its temperature and power.

    PCIe stays at its full generation, because persistence mode keeps the link up.
    """
    gpu.sm_clock = profile.idle_sm
    gpu.mem_clock = profile.mem_clock
    gpu.util = 0
    gpu.temp = 29 + int(4 * variation)
    gpu.memory_temp = 37 + int(5 * variation)
    gpu.power_draw = round(profile.idle_watts + 6 * variation, 2)
    gpu.reasons.idle = True
    gpu.procs.clear()


def _make_busy(gpu: GpuState, profile: Profile, variation: float) -> None:
    gpu.sm_clock = profile.sm_max - 15 * int(3 * variation)
    gpu.mem_clock = profile.mem_clock
    gpu.util = 97 + int(3 * variation)
    gpu.temp = 58 + int(9 * variation)
    gpu.memory_temp = 66 + int(9 * variation)
    gpu.power_draw = round(profile.busy_watts + 40 * variation, 2)


def _build_gpu(profile: Profile, name: str, index: int, seed: int, job: Job) -> GpuState:
    gpu = GpuState(
        index=index,
        bdf=f"0000:{profile.buses[index]}:00.0",
        uuid=f"GPU-{make_uuid(seed, name, 'gpu', index)}",
        serial=f"165{make_random(seed, name, 'serial', index).randrange(10**10):010d}",
        power_limit=profile.power_limit,
        app_clock=profile.app_clock,
        pcie_gen=profile.pcie_gen,
        links=[Link() for _ in range(profile.links)],
    )
    if profile.fabric:
        gpu.fabric_state = "Completed"
        gpu.fabric_status = "Success"
    variation = make_random(seed, name, "load", index).random()
    if job.ended is None:
        _make_busy(gpu, profile, variation)
        gpu.procs.append(GpuProcess(job.of(name)[index].pid, "/usr/bin/python3", int(profile.memory_mib * (0.74 + 0.02 * variation))))
    else:
        make_idle(gpu, profile, variation)
    return gpu


def _build_hca(profile: Profile, name: str, node_index: int, index: int, seed: int) -> HcaState:
    random = make_random(seed, name, "hca", index)
    counters = dict.fromkeys(COUNTERS, 0) | {key: random.randrange(10**12, 9 * 10**13) for key in TRAFFIC}
    return HcaState(
        name=f"mlx5_{index}",
        bdf=f"0000:{profile.hca_buses[index]}:00.0",
        guid=0xA088C20300000000 | random.randrange(1 << 24) << 8 | index,
        rate=profile.hca_rate,
        lid=16 + node_index * len(profile.hca_buses) + index,
        counters=counters | {"port_xmit_wait": random.randrange(900, 4000)},
        hw_counters=dict.fromkeys(HW_COUNTERS, 0) | {"out_of_buffer": random.randrange(3)},
        rising={"port_rcv_data": 48_000_000_000, "port_xmit_data": 47_000_000_000},
    )


def _build_services(profile: Profile) -> dict[str, Service]:
    services = {unit: Service() for unit in UNITS}
    services["openibd"] = Service("active", "exited")
    services["chrony"] = Service("inactive", "dead", "not-found")  # the unit's name on Debian
    if not profile.switches:
        services["nvidia-fabricmanager"] = Service("inactive", "dead", "not-found")
    return services


def _build_modules(profile: Profile) -> dict[str, int]:
    return {
        "nvidia_uvm": 1515520, "nvidia_drm": 77824, "nvidia_modeset": 1306624, "nvidia_peermem": 16384, "nvidia": 56778752,
        "gdrdrv": 24576, "mlx5_ib": 475136, "ib_uverbs": 192512, "ib_core": 507904, "rdma_ucm": 32768, "rdma_cm": 131072,
        "ib_ipoib": 159744, "mlx5_core": 2088960, "mlxfw": 36864, "psample": 20480, "overlay": 151552, "br_netfilter": 32768,
        "nfsv4": 675840, "nfs": 401408, "sunrpc": 589824, "ipmi_si": 73728, "ipmi_msghandler": 122880, "nvme": 49152,
        "nvme_core": 139264, "ext4": 925696, "xfs": 1753088, "drm": 622592,
    }  # fmt: skip


def _build_mounts(profile: Profile, seed: int, name: str) -> list[Mount]:
    fill = make_random(seed, name, "disk").uniform(0.30, 0.45)
    shm = profile.memory_gib * GIB // 2
    return [
        Mount("/", "/dev/nvme0n1p2", "ext4", "rw,relatime", 1792 * GIB, int(1792 * GIB * fill), 119_537_664, 1_412_317),
        Mount(SHM_PATH, "tmpfs", "tmpfs", "rw,nosuid,nodev", shm, 3 * GIB, shm // 4096, 27),
        Mount("/run", "tmpfs", "tmpfs", "rw,nosuid,nodev,mode=755", 200 * GIB, 9_437_184, 26_000_000, 1811),
        Mount("/boot/efi", "/dev/nvme0n1p1", "vfat", "rw,relatime,fmask=0077,dmask=0077", 1_124_999_168, 6_397_952, 0, 0),
        Mount("/scratch", "/dev/md0", "xfs", "rw,noatime,attr2,inode64", 27 * TIB, int(27 * TIB * fill), 1_450_000_000, 4_221_903),
        Mount("/home", "nfs-a:/export/home", "nfs4", "rw,relatime,vers=4.2,hard,proto=tcp", 90 * TIB, 31 * TIB, 2_100_000_000, 88_120_417),
        Mount(
            "/data", "nfs-a:/export/data", "nfs4", "rw,relatime,vers=4.2,hard,proto=tcp", 800 * TIB, 512 * TIB, 4_000_000_000, 310_220_554
        ),
    ]


def _build_oom_kills(job: Job) -> dict[str, int]:
    parents = ("/system.slice", "/system.slice/docker.service", "/system.slice/slurmd.service", "/user.slice")
    steps = (f"/system.slice/slurmstepd.scope/job_{job.id}", get_task_cgroup(job.id, 0).rpartition("/user")[0])
    return dict.fromkeys((*parents, *steps), 0)


def _build_job_environment(job: Job, profile: Profile) -> dict[str, str]:
    return {
        "CUDA_VISIBLE_DEVICES": "0,1,2,3,4,5,6,7",
        "LD_LIBRARY_PATH": "/usr/local/cuda/lib64:/opt/venv/lib",
        "MASTER_ADDR": get_address(0),
        "MASTER_PORT": "29500",
        "NCCL_DEBUG": "INFO",
        "NCCL_IB_HCA": ",".join(f"mlx5_{i}" for i in range(len(profile.hca_buses))),
        "NCCL_SOCKET_IFNAME": "eth0",
        "OMP_NUM_THREADS": "8",
        "SLURM_JOB_ID": job.id,
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1",
        "WORLD_SIZE": str(len(job.ranks)),
    }


def _build_processes(profile: Profile, name: str, booted: float, job: Job) -> list[HostProcess]:
    daemons = [
        (1, 0, "systemd", "/sbin/init"), (2, 0, "kthreadd", "[kthreadd]"), (14, 2, "ksoftirqd/0", "[ksoftirqd/0]"),
        (1187, 1, "chronyd", "/usr/sbin/chronyd -F 1"), (1203, 1, "sshd", "sshd: /usr/sbin/sshd -D [listener] 0 of 10-100 startups"),
        (1322, 1, "nvidia-persiste", "/usr/bin/nvidia-persistenced --user nvidia-persistenced --verbose"),
        (1410, 1, "nv-hostengine", "/usr/bin/nv-hostengine -n --service-account nvidia-dcgm"),
        (1466, 1, "containerd", "/usr/bin/containerd"), (1502, 1, "dockerd", "/usr/bin/dockerd -H fd://"),
        (1611, 1, "slurmd", "/usr/sbin/slurmd -D -s"),
    ]  # fmt: skip
    if profile.switches:
        daemons.append((1377, 1, "nv-fabricmanage", "/usr/bin/nv-fabricmanager -c /usr/share/nvidia/nvswitch/fabricmanager.cfg"))
    processes = [
        HostProcess(pid, ppid, "root", "S" if ppid == 2 or pid == 2 else "Ss", booted, 0.1, _get_daemon_cgroup(comm, ppid), comm, args)
        for pid, ppid, comm, args in daemons
    ]
    return processes + _build_job_processes(name, job)


def _get_daemon_cgroup(comm: str, ppid: int) -> str:
    return "/" if ppid != 1 else f"/system.slice/{comm}.service"


def _build_job_processes(name: str, job: Job) -> list[HostProcess]:
    """Return the job's processes: step and launcher last as long as the allocation, ranks while the job runs."""
    ranks = job.of(name)
    step = ranks[0].pid - 7
    processes = [
        HostProcess(
            step,
            1,
            "root",
            "Sl",
            job.started,
            0.0,
            get_task_cgroup(job.id, 0).partition("/user")[0],
            "slurmstepd",
            f"slurmstepd: [{job.id}.0]",
        ),
        HostProcess(
            step + 2,
            step,
            "alice",
            "Sl",
            job.started,
            0.3,
            get_task_cgroup(job.id, 0),
            "torchrun",
            "/opt/venv/bin/python3 -m torch.distributed.run train.py",
        ),
    ]
    for rank in ranks if job.ended is None else ():
        args = "/usr/bin/python3 -u train.py --config configs/pretrain.yaml"
        processes.append(HostProcess(rank.pid, step + 2, "alice", "Rl", job.started + 4, 99.1, get_task_cgroup(job.id, 0), "python3", args))
    return processes
