"""Output of the baseline probe by which hosts are compared."""

import hashlib
from collections.abc import Iterator

from deploy.sandbox.cluster.answer import ShellAnswer, text_answer
from deploy.sandbox.cluster.render.query import Query

Row = tuple[str, str, str]  # kind, name and value

_SYSCTLS = {
    "vm.overcommit_memory": "0", "vm.max_map_count": "65530", "vm.swappiness": "60", "vm.zone_reclaim_mode": "0", "kernel.pid_max": "4194304",
    "kernel.threads-max": "16508430", "kernel.numa_balancing": "0", "fs.file-max": "9223372036854775807", "fs.nr_open": "1048576",
    "net.core.somaxconn": "4096", "net.core.rmem_max": "134217728", "net.core.wmem_max": "134217728", "net.ipv4.ip_local_port_range": "32768 60999",
    "net.ipv4.conf.all.rp_filter": "2", "net.ipv4.neigh.default.gc_thresh3": "8192", "net.netfilter.nf_conntrack_max": "262144",
}  # fmt: skip
_OTHER_SERVICES = (
    "cron",
    "dbus",
    "munge",
    "rpcbind",
    "rsyslog",
    "ssh",
    "sssd",
    "systemd-journald",
    "systemd-logind",
    "systemd-resolved",
    "containerd",
)
_CONFIG_FILES = (
    "/etc/slurm/slurm.conf",
    "/etc/slurm/gres.conf",
    "/etc/docker/daemon.json",
    "/etc/nsswitch.conf",
    "/etc/chrony/chrony.conf",
    "/etc/sysctl.d",
)
_DAEMONS = ("chronyd", "sshd", "nvidia-persiste", "nv-hostengine", "containerd", "dockerd", "slurmd", "nv-fabricmanage")
_ZERO_COUNTS = (
    "open files percent",
    "conntrack percent",
    "pids percent",
    "huge pages percent",
    "kernel memory percent",
    "io pressure",
    "memory pressure",
)


def render_host(query: Query) -> ShellAnswer:
    """`python3 -c PROBE`."""
    rows = (*_iter_system_rows(query), *_iter_software_rows(query), *_iter_surroundings_rows(query), *_iter_count_rows(query))
    return text_answer("".join(("== baseline 1\n", *(f"{kind}\t{name}\t{value}\n" for kind, name, value in rows), "== end\n")))


def _iter_system_rows(query: Query) -> Iterator[Row]:
    node = query.node
    yield "system", "kernel", node.kernel
    yield "system", "release", "Ubuntu 22.04.4 LTS"
    yield "system", "bios", "1.6.7"
    yield "system", "time zone", f"{'Etc/UTC' if node.tz == 'UTC' else node.tz} {query.now:%z}"
    yield "system", "memory", f"{node.memory_total >> 30} GiB"
    yield "system", "cpus", f"0-{2 * node.profile.cpus - 1} of 0-{2 * node.profile.cpus - 1}"
    yield "system", "cgroup", "v2"
    yield "cmdline", "iommu", "pt"
    yield "cmdline", "pci", "realloc=off"
    yield from (("sysctl", name, value) for name, value in _SYSCTLS.items())
    yield from (("module", name, node.driver if name.startswith("nvidia") else "loaded") for name in node.modules)
    yield from (("config", path, f"1211 bytes {_compute_short_digest(path)}") for path in _CONFIG_FILES)
    yield "limit", "slurmd processes", "16508430"
    yield "limit", "slurmd locked memory", "unlimited" if node.memlock_kib < 0 else str(node.memlock_kib * 1024)


def _iter_software_rows(query: Query) -> Iterator[Row]:
    node = query.node
    for name, unit in node.services.items():
        if unit.load != "not-found":
            yield "service", name, unit.active if unit.sub in ("running", "dead", "failed") else f"{unit.active} {unit.sub}"
    yield from (("service", name, "active") for name in _OTHER_SERVICES)
    running = {proc.comm for proc in node.procs if proc.ppid == 1}
    yield from (("daemon", name, "runs") for name in _DAEMONS if name in running)
    version = node.driver_user
    yield "library", "libcuda.so.1", f"libcuda.so.{version} 29453200 bytes {_compute_short_digest('cuda', version)}"
    yield "library", "libnvidia-ml.so.1", f"libnvidia-ml.so.{version} 2082456 bytes {_compute_short_digest('ml', version)}"
    yield "library", "libibverbs.so.1", f"libibverbs.so.1.14.39.0 121264 bytes {_compute_short_digest('verbs')}"
    yield "package", "slurm-smd-slurmd", "23.11.4-1"
    yield "package", "munge", "0.5.14-6"
    yield "package", "openssh-server", "1:8.9p1-3ubuntu0.10"
    if node.driver:
        yield "device", "/dev/nvidia", f"{sum(not gpu.missing for gpu in node.gpus)} device 666"
        yield "device", "/dev/nvidiactl", "1 device 666"
        yield "device", "/dev/nvidia-uvm", "1 device 666"
    if "mlx5_ib" in node.modules:
        yield "device", "/dev/infiniband/uverbs", f"{sum(hca.present for hca in node.hcas)} device 666"


def _iter_surroundings_rows(query: Query) -> Iterator[Row]:
    node = query.node
    for mount in node.mounts:
        if mount.target == "/run":
            continue
        source = f" {mount.source}" if ":" in mount.source else ""
        yield "mount", mount.target, f"{mount.fstype} {mount.options.partition(',')[0]}{source}"
    yield "route", "default", "via a gateway dev eth0"
    yield "route", "subnet of eth0", "dev eth0"
    yield "link", "eth0", "up 25000 Mb/s full"
    yield "resolver", "nameserver", "10.20.9.1"
    yield "resolver", "search", "cluster.example"
    yield "resolver", "hosts", "files dns"
    yield "hosts", "entries", "4"
    yield "hosts", "its own name", "loopback"
    no_resolver = node.environment.master == "no_name"
    yield "answer", "nameserver 10.20.9.1", "timeout" if no_resolver else "ok"
    yield "answer", "name of this host", "ok 127.0.1.1"
    server_hangs = any(mount.target in node.environment.stuck for mount in node.mounts if mount.fstype.startswith("nfs"))
    yield "answer", "name of server nfs-a", "no_answer" if no_resolver else "ok 10.20.9.7"
    port_answer = "no_name" if no_resolver else "ok"
    yield "answer", "port of server nfs-a:2049", "timeout" if server_hangs else port_answer
    yield "answer", "munge", "ok"


def _iter_count_rows(query: Query) -> Iterator[Row]:
    procs = query.node.procs
    yield "count", "processes", str(len(procs) + 2100)
    for name, letter in (("zombie", "Z"), ("blocked", "D"), ("stopped", "T")):
        yield "count", name, str(sum(proc.stat.startswith(letter) and proc.ppid != 2 for proc in procs))
    yield from (("count", name, "0") for name in _ZERO_COUNTS)


def _compute_short_digest(*parts: str) -> str:
    return hashlib.sha256(" ".join(parts).encode()).hexdigest()[:10]
