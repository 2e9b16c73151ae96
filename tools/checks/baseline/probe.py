"""Prints what a host looks like, one row a line: the kind, a name, its value, tabs between. Opens files to read, asks few programs, writes nothing."""

import hashlib
import json
import os
import platform
import re
import select
import shutil
import signal
import socket
import stat
import struct
import subprocess
import time
from typing import Any

WAIT = 3.0  # seconds for all questions together; no answer by then is told as that, and not waited for
SAMPLE = 0.25
LOCAL = "ext2 ext3 ext4 xfs btrfs zfs f2fs tmpfs vfat".split()
NETWORK = re.compile(r"(nfs4?|lustre|beegfs|gpfs|wekafs|ceph|cifs|smb3|9p|afs|panfs|vast|glusterfs|fuse\..+|fuse)$")
SKIPPED = re.compile(r"/(proc|sys|run|snap|var/lib/(docker|containers|containerd|kubelet|enroot)|dev/pts)(/|$)")
VIRTUAL = re.compile(r"(veth|cali|docker|br-|cni|flannel|tunl|vxlan|lxc|kube|virbr|cilium|podman)")
OURS = "journalctl dmesg nvidia-smi lspci find grep ps dcgmi sudo sinfo scontrol squeue sacct ipmitool ibstat iblinkinfo docker df timeout".split()
DAEMONS = (
    "slurmd munged dockerd containerd kubelet sshd chronyd ntpd nv-fabricmanage nv-hostengine nvidia-persiste rpcbind automount sssd nslcd dbus-daemon"
    " systemd-journal systemd-logind systemd-resolve systemd-network NetworkManager cron crond rsyslogd auditd opensm srp_daemon lnetd beegfs-helperd"
    " irqbalance multipathd iscsid rasdaemon smartd node_exporter dcgm-exporter systemd-timesyn systemd-udevd polkitd rpc.statd rpc.gssd nfsd"
).split()
MEETING = frozenset([1234, 12355, 23456, *range(29400, 29410), *range(29500, 29520)])  # where ranks meet unless a job says otherwise
SYSCTLS = (
    "vm.overcommit_memory vm.overcommit_ratio vm.max_map_count vm.swappiness vm.zone_reclaim_mode vm.nr_hugepages vm.min_free_kbytes vm.dirty_ratio"
    " kernel.pid_max kernel.threads-max kernel.numa_balancing kernel.shmmax kernel.shmall kernel.sem kernel.msgmnb kernel.panic kernel.sched_rt_runtime_us"
    " kernel.yama.ptrace_scope kernel.randomize_va_space kernel.core_pattern kernel.perf_event_paranoid kernel.unprivileged_userns_clone kernel.nmi_watchdog"
    " user.max_user_namespaces fs.file-max fs.nr_open fs.aio-max-nr fs.inotify.max_user_instances fs.inotify.max_user_watches net.core.somaxconn"
    " net.core.rmem_max net.core.wmem_max net.core.netdev_max_backlog net.core.default_qdisc net.ipv4.ip_forward net.ipv4.ip_local_port_range"
    " net.ipv4.ip_local_reserved_ports net.ipv4.tcp_rmem net.ipv4.tcp_wmem net.ipv4.tcp_congestion_control net.ipv4.tcp_mtu_probing "
    "net.ipv4.tcp_max_syn_backlog"
    " net.ipv4.tcp_keepalive_time net.ipv4.tcp_tw_reuse net.ipv4.conf.all.rp_filter net.ipv4.conf.default.rp_filter net.ipv4.conf.all.arp_ignore"
    " net.ipv4.conf.all.arp_announce net.ipv4.neigh.default.gc_thresh1 net.ipv4.neigh.default.gc_thresh3 net.netfilter.nf_conntrack_max"
    " net.ipv6.conf.all.disable_ipv6 net.bridge.bridge-nf-call-iptables"
).split()
CONFIGS = (
    "/etc/slurm/slurm.conf /etc/slurm/gres.conf /etc/slurm/cgroup.conf /etc/slurm-llnl/slurm.conf /etc/slurm/topology.conf /run/slurm/conf/slurm.conf"
    " /etc/docker/daemon.json /etc/containerd/config.toml /etc/nvidia-container-runtime/config.toml /etc/cdi/nvidia.yaml /etc/chrony/chrony.conf"
    " /etc/chrony.conf /etc/nsswitch.conf /etc/fstab /etc/security/limits.conf /etc/ssh/sshd_config /etc/ld.so.conf /etc/ld.so.preload /etc/environment"
    " /etc/systemd/system.conf /etc/systemd/resolved.conf /etc/modprobe.d /etc/modules-load.d /etc/sysctl.d /etc/security/limits.d /etc/ld.so.conf.d"
    " /etc/profile.d /etc/udev/rules.d /etc/nccl.conf /etc/enroot/enroot.conf /etc/pam.d/sshd /etc/pam.d/common-session /etc/pam.d/system-auth"
    " /etc/passwd /etc/group /etc/idmapd.conf /etc/lustre.conf /etc/beegfs/beegfs-client.conf /etc/security/access.conf /etc/exports /etc/apt/sources.list"
    " /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt /etc/services /etc/protocols /etc/gai.conf /etc/host.conf /etc/crontab /etc/cron.d"
).split()
LIBRARIES = (
    "libcuda.so.1 libnvidia-ml.so.1 libnvidia-ptxjitcompiler.so.1 libnvidia-nvvm.so.4 libnvidia-container.so.1 libnccl.so.2 libibverbs.so.1"
    " librdmacm.so.1 libmlx5.so.1 libmunge.so.2 libpam.so.0 libnss_sss.so.2 libnss_ldap.so.2 libssl.so.3 libhwloc.so.15 libnuma.so.1 libpmix.so.2 libc.so.6"
).split()
FOLDERS = "/usr/lib/x86_64-linux-gnu /usr/lib/aarch64-linux-gnu /usr/lib64 /lib/x86_64-linux-gnu /lib64 /usr/lib /usr/local/lib".split()
PACKAGES = re.compile(
    r"(lib)?(nvidia|cuda|nccl|cudnn|cublas|mlnx|ofed|rdma|ibverbs|mlx5|ucx|slurm|munge|docker|containerd|enroot|pyxis|datacenter-gpu|dcgm|lustre|beegfs|weka"
    r"|gdrcopy|kubelet|kernel|linux-image|openmpi|pmix|chrony|openssh-server|glibc|libc6$|systemd$|python3$)"
)


def say(kind: str, name: Any, value: Any) -> None:
    words = (re.sub(r"[\x00-\x1f\x7f]", " ", str(word))[:most].strip() for word, most in ((name, 160), (value, 240)))
    print(kind + "\t" + "\t".join(words))


def read(path: str, most: int = 65536) -> str:
    try:
        with open(path, "rb") as file:
            return file.read(most).decode("utf-8", "replace")
    except (OSError, ValueError):
        return ""


def inside(folder: str) -> Any:
    try:
        return sorted(os.listdir(folder))[:4096]
    except OSError:
        return []


def said(*argv: str) -> Any:
    """What a program prints, None where it did not answer."""
    program = shutil.which(argv[0], path="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
    if not program:
        return ""
    child = subprocess.Popen([program, *argv[1:]], stdin=-3, stdout=-1, stderr=-3, start_new_session=True)
    try:
        return child.communicate(timeout=WAIT - 0.5)[0].decode("utf-8", "replace")[:400000]
    except subprocess.TimeoutExpired:
        child.kill()
        return None


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:10]


class Questions:
    """Questions whose answer may never come, each in a process of its own that nobody waits for."""

    def __init__(self) -> None:
        self.open: Any = {}
        self.until = 0.0

    def ask(self, name: str, work: Any, *given: Any) -> None:
        if len(self.open) >= 24 or name in self.open:
            return
        ours, theirs = os.pipe()
        pid = os.fork()
        if not pid:
            self.answer(theirs, work, given)
        os.close(theirs)
        self.open[name] = (pid, ours)
        self.until = time.time() + WAIT

    def answer(self, theirs: int, work: Any, given: Any) -> None:
        try:
            os.closerange(0, 3)
            os.write(theirs, json.dumps(work(*given)).encode()[:4000])
        except BaseException as why:
            os.write(theirs, json.dumps("error " + type(why).__name__).encode())
        os._exit(0)

    def answers(self) -> Any:
        """Each question with its answer, `timeout` where none came."""
        for name, (pid, ours) in self.open.items():
            ready = select.select([ours], [], [], max(0.0, self.until - time.time()))[0]
            text = os.read(ours, 4096).decode("utf-8", "replace") if ready else ""
            os.close(ours)
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, os.WNOHANG)
            yield name, json.loads(text) if text else "timeout"


def resolve(name: str) -> str:
    try:
        found = {row[4][0] for row in socket.getaddrinfo(name, None, 0, socket.SOCK_STREAM)}
        return "ok " + " ".join(sorted(map(str, found))[:4])
    except socket.gaierror as why:
        return {socket.EAI_NONAME: "no_name", socket.EAI_AGAIN: "no_answer"}.get(why.args[0], "error " + str(why.args[1]))


def connect(host: str, port: int) -> str:
    try:
        socket.create_connection((host, port), WAIT - 0.5).close()
        return "ok"
    except socket.gaierror:
        return "no_name"
    except ConnectionRefusedError:
        return "refused"
    except OSError as why:
        return "timeout" if "timed out" in str(why) else "error " + str(why.strerror)


def nameserver(address: str, name: str) -> str:
    """Whether a server answers a question for the address of this host, whatever it says."""
    labels = b"".join(struct.pack("B", len(part)) + part.encode() for part in name.split(".") if 0 < len(part) < 64)
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as line:
        line.settimeout((WAIT - 0.6) / 2)
        for _ in range(2):
            try:
                line.connect((address, 53))
                line.send(struct.pack(">6H", 4711, 256, 1, 0, 0, 0) + labels + struct.pack(">BHH", 0, 1, 1))
                code = line.recv(512)[3] & 15
                return {0: "ok", 2: "servfail", 3: "ok", 5: "ok refused"}.get(code, f"ok code {code}")
            except TimeoutError:
                continue
            except OSError as why:
                return "refused" if isinstance(why, ConnectionRefusedError) else "error " + str(why.strerror)
    return "timeout"


def munge() -> str:
    text = said("munge", "-n")
    return "timeout" if text is None else "ok" if text.startswith("MUNGE:") else "refused"


def system() -> None:
    about = platform.uname()
    say("system", "kernel", about.release)
    say("system", "kernel build", about.version)
    for name, path in (("bios", "bios_version"), ("board", "board_name"), ("model", "product_name")):
        say("system", name, read("/sys/class/dmi/id/" + path))
    named = re.search(r"(?m)^PRETTY_NAME=\"?([^\"\n]*)", read("/etc/os-release"))
    say("system", "release", named.group(1) if named else "")
    zone = os.path.realpath("/etc/localtime").partition("zoneinfo/")[2]
    say("system", "time zone", (zone or read("/etc/timezone").strip() or "UTC") + time.strftime(" %z"))
    total = re.search(r"MemTotal: +(\d+)", read("/proc/meminfo"))
    kib = int(total.group(1)) if total else 0
    step = 1 << max(0, kib.bit_length() - 7)
    say("system", "memory", f"{(kib + step // 2) // step * step >> 20} GiB")
    say("system", "cpus", read("/sys/devices/system/cpu/online").strip() + " of " + read("/sys/devices/system/cpu/present").strip())
    say("system", "smt", read("/sys/devices/system/cpu/smt/control").strip())
    say("system", "huge pages", read("/sys/kernel/mm/transparent_hugepage/enabled").strip())
    say("system", "cgroup", "v2" if os.path.exists("/sys/fs/cgroup/cgroup.controllers") else "v1")
    say("system", "security", "selinux " + (read("/sys/fs/selinux/enforce").strip() or "off"))
    say("system", "swap", "{} areas".format(max(0, read("/proc/swaps").count("\n") - 1)))
    for word in read("/proc/cmdline").split():
        name, _, value = word.partition("=")
        if not re.match(
            r"(root|BOOT_IMAGE|initrd|ip|hostname|resume|rd\..*uuid|rd\.luks.*|cryptdevice|nfsroot|BOOTIF|systemd\.machine_id)$", name
        ):
            say("cmdline", name, value or "set")
    for word in SYSCTLS:
        text = read("/proc/sys/" + word.replace(".", "/")).split()
        if text:
            say("sysctl", word, " ".join(text))


def modules() -> None:
    for line in read("/proc/modules", 400000).split("\n"):
        name = line.partition(" ")[0]
        if name:
            say("module", name, read(f"/sys/module/{name}/version").strip() or "loaded")
    for line in read("/proc/driver/nvidia/params").split("\n"):
        name, _, value = line.partition(": ")
        if value:
            say("driver", name, value)


def mounts(questions: Questions) -> None:
    targets = set()
    for line in read("/proc/self/mountinfo", 1 << 20).split("\n"):
        before, _, after = line.partition(" - ")
        if not after:
            continue
        target, options = before.split()[4:6]
        kind, source = after.split()[:2]
        target = target.replace("\\040", " ")
        if (kind not in LOCAL and not NETWORK.match(kind) and kind != "overlay") or SKIPPED.match(target):
            continue
        targets.add(target)
        own = set(options.split(",")) | set(after.split()[2].split(","))
        kept = sorted(
            word
            for word in own
            if re.match(r"(ro|noexec|nodev|nosuid|soft|hard|nolock|vers|proto|sec|size|nconnect|rsize|wsize|sync|flock|mode)(=|$)", word)
        )
        writes = [] if "ro" in own or target.startswith("/boot") else ["rw"]
        say("mount", target, " ".join([kind, *writes, *kept] + ([source] if NETWORK.match(kind) else [])))
        if kind.startswith("nfs") and ":" in source:
            server = source.rpartition(":/")[0].strip("[]")
            questions.ask("name of server " + server, resolve, server)
            questions.ask(f"port of server {server}:2049", connect, server, 2049)
    for folder in ("/dev/shm", "/tmp", "/var/tmp"):
        try:
            mode = stat.S_IMODE(os.stat(folder).st_mode)
        except OSError:
            say("broken", folder, "missing")
            continue
        if mode != 0o1777:
            say("broken", folder, f"mode {mode:o}")
    if "/dev/shm" not in targets:
        say("broken", "/dev/shm", "not_mounted")
    wanted = [row.split() for row in read("/etc/fstab").split("\n") if row.strip() and not row.lstrip().startswith("#")]
    for row in wanted:
        if len(row) > 3 and row[1].startswith("/") and row[1] not in targets and "noauto" not in row[3] and not SKIPPED.match(row[1]):
            say("broken", "mount " + row[1], "not_mounted")


def network(questions: Questions) -> None:
    own: Any = {}
    for line in (said("ip", "-o", "-4", "addr", "show") or "").split("\n"):
        row = line.split()
        if len(row) > 3:
            own[row[3].partition("/")[0]] = row[1]
    for line in (said("ip", "-o", "route", "show", "table", "all") or "").split("\n"):
        route(line, own)
    for line in (said("ip", "-o", "rule") or "").split("\n"):
        number, _, what = line.partition(":")
        if what:
            say("route", "rule " + number, what.strip())
    for line in read("/proc/net/arp").split("\n")[1:]:
        row = line.split()
        if len(row) > 5 and int(row[2], 16) & 4:
            say("route", "neighbour " + row[0], "permanent " + row[3])
    for name in inside("/sys/class/net"):
        if os.path.exists(f"/sys/class/net/{name}/device"):
            cells = [read(f"/sys/class/net/{name}/{cell}").strip() for cell in ("operstate", "speed", "duplex")]
            say("link", name, "{} {} Mb/s {}".format(*cells))
    for line in (said("ip", "-o", "link", "show") or "").split("\n"):
        interface = re.match(r"\d+: ([^:@\s]{1,30})[^<]{0,60}<([^>]{0,200})> mtu (\d{1,6})", line)
        if interface and interface.group(1) == "lo" and "UP" not in interface.group(2).split(","):
            say("broken", "interface lo", "down")
        elif interface and interface.group(1) != "lo" and not VIRTUAL.match(interface.group(1)):
            say("link", interface.group(1) + " mtu", interface.group(3))
    names(questions, own)


def route(line: str, own: Any) -> None:
    words = line.replace("\\", " ").split()
    if not words or words[0] in ("local", "broadcast", "anycast", "multicast") or ":" in words[0] or words[0].startswith(("fe80", "ff00")):
        return
    bad = words[0] if words[0] in ("blackhole", "unreachable", "prohibit", "throw") else ""
    rest = words[1:] if bad else words
    after = dict(zip(rest[1::1], rest[2::1]))
    table = " table " + after["table"] if "table" in after else ""
    if not rest or ":" in rest[0] or (bad and after.get("proto") in ("bird", "80", "cilium")):
        return
    if VIRTUAL.match(after.get("dev", "")):
        return
    linked = after.get("scope") == "link" and after.get("src") in own
    target = "subnet of {}".format(after.get("dev")) if linked and table == "" else rest[0]
    via = "via a gateway " if "via" in after else ""
    say("route", target + table, bad or "{}dev {}".format(via, after.get("dev", "?")))
    if bad:
        say("broken", "route " + target, bad)


def names(questions: Questions, own: Any) -> None:
    node = os.uname().nodename
    static = (read("/etc/hostname").split() or [""])[0]
    if static and not static.startswith("localhost") and static.partition(".")[0].lower() != node.partition(".")[0].lower():
        say("broken", "host name", f"changed to {node}, and {static} in /etc/hostname")
    text = read("/etc/resolv.conf")
    for word in ("nameserver", "search", "domain", "options"):
        found = re.findall(rf"(?m)^\s*{word}\s+(.+)$", text)
        say("resolver", word, "; ".join(part.strip() for part in found) or "none")
    for address in re.findall(r"(?m)^\s*nameserver\s+([0-9a-fA-F.:]{3,45})\s*$", text)[:3]:
        questions.ask("nameserver " + address, nameserver, address, node)
    for line in read("/etc/nsswitch.conf").split("\n"):
        if re.match(r"(hosts|passwd|group):", line):
            say("resolver", line.split(":")[0], " ".join(line.split(":")[1].split()))
    entries = [line.split("#")[0].split() for line in read("/etc/hosts", 400000).split("\n")]
    entries = [row for row in entries if len(row) > 1]
    say("hosts", "entries", len(entries))
    for row in entries[:300]:
        for name in row[1:4]:
            mine = name.partition(".")[0] == node.partition(".")[0]
            if mine:
                whose = "loopback" if row[0].startswith("127.") or row[0] == "::1" else "its own" if row[0] in own else "of another host"
                say("hosts", "its own name", whose)
                if whose == "of another host" and own and ":" not in row[0]:
                    say("broken", "/etc/hosts " + name, "another_address " + row[0])
                if whose == "its own":  # its peers name it too
                    say("hosts", name, row[0])
            elif not re.match(r"(ip6-|ff0|fe00)", row[0]) and row[0] not in own:
                say("hosts", name, row[0])
    questions.ask("name of this host", resolve, node)
    questions.ask("name localhost", resolve, "localhost")


def scheduler(questions: Questions) -> None:
    conf = "\n".join(read(path, 400000) for path in CONFIGS if path.endswith("/slurm.conf"))
    ports = re.search(r"(?mi)^\s*SlurmctldPort\s*=\s*(\d+)", conf)
    for host in re.findall(r"(?mi)^\s*(?:SlurmctldHost|ControlMachine)\s*=\s*([A-Za-z0-9.-]+)", conf)[:2]:
        questions.ask("name of controller " + host, resolve, host)
        questions.ask(f"port of controller {host}", connect, host, int(ports.group(1)) if ports else 6817)
    if conf.strip() and shutil.which("munge", path="/usr/bin:/usr/local/bin"):  # other hosts may have it and need it not
        questions.ask("munge", munge)


def devices() -> None:
    counts: Any = {}
    for folder in ("/dev", "/dev/infiniband", "/dev/nvidia-caps"):
        for name in inside(folder):
            if re.match(
                r"(nvidia|gdrdrv|infiniband|uverbs|umad|issm|rdma_cm|fuse$|null$|zero$|random$|urandom$|full$|tty$|ptmx$|shm$|kvm$|mem$)",
                name,
            ):
                path = folder + "/" + name
                kind = kind_of(path)
                counts.setdefault((path.rstrip("0123456789"), kind), []).append(path)
    for (name, kind), paths in sorted(counts.items()):
        say("device", name, f"{len(paths)} {kind}")
    for name, number in (("null", (1, 3)), ("zero", (1, 5)), ("urandom", (1, 9)), ("random", (1, 8)), ("ptmx", (5, 2)), ("tty", (5, 0))):
        if not is_device("/dev/" + name, number):
            say("broken", "/dev/" + name, "no_device")
    if "nvidia" in inside("/proc/driver"):
        for gpu in inside("/proc/driver/nvidia/gpus"):
            minor = re.search(r"Device Minor:\s*(\d+)", read(f"/proc/driver/nvidia/gpus/{gpu}/information"))
            if minor and not is_device("/dev/nvidia" + minor.group(1)):
                say("broken", "/dev/nvidia" + minor.group(1), "no_device")
        for name in ("nvidiactl", "nvidia-uvm"):
            if not is_device("/dev/" + name):
                say("broken", "/dev/" + name, "no_device")
    for name in inside("/sys/class/infiniband_verbs"):
        if name.startswith("uverbs") and not is_device("/dev/infiniband/" + name):
            say("broken", "/dev/infiniband/" + name, "no_device")


def kind_of(path: str) -> str:
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return "gone"
    kinds = ((stat.S_ISCHR, "device"), (stat.S_ISDIR, "folder"), (stat.S_ISLNK, "link"), (stat.S_ISREG, "file"))
    return "{} {:o}".format(next((word for test, word in kinds if test(mode)), "other"), stat.S_IMODE(mode))


def is_device(path: str, number: Any = None) -> bool:
    try:
        about = os.stat(path)
    except OSError:
        return False
    return stat.S_ISCHR(about.st_mode) and number in (None, (os.major(about.st_rdev), os.minor(about.st_rdev)))


def sampled(path: str) -> Any:
    """Size, a digest of both ends, and what is wrong with a library."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        head = file.read(65536)
        file.seek(max(0, size - 65536))
        ends = digest(head + file.read(65536))
    return size, ends, "empty" if size == 0 else "" if head.startswith((b"\x7fELF", b"/*")) else "no_library"


def libraries() -> None:
    seen = set()
    for folder in FOLDERS:
        for name in LIBRARIES:
            path = folder + "/" + name
            real = os.path.realpath(path)
            if real in seen or not os.path.lexists(path):
                continue
            seen.add(real)
            library(name, path, real)
        for name in inside(folder):
            if (
                re.match(r"lib(cuda|nvidia|nccl)[\w-]*\.so\.[\d.]+$", name)
                and os.path.isfile(folder + "/" + name)
                and not os.path.getsize(folder + "/" + name)
            ):
                say("broken", folder + "/" + name, "empty")


def library(name: str, path: str, real: str) -> None:
    try:
        size, ends, wrong = sampled(path)
    except FileNotFoundError:
        size, ends, wrong = 0, "", "dangling"
    except OSError:
        size, ends, wrong = 0, "", "no_permission"
    say("library", name, "{} {} bytes {}".format(real.rpartition("/")[2], size, ends))
    if wrong:
        say("broken", path, wrong)


def packages() -> None:
    text = read("/var/lib/dpkg/status", 40000000)
    for block in text.split("\n\n") if text else ():
        name = re.match(r"Package: (\S+)", block)
        if name and PACKAGES.match(name.group(1)):
            state = re.search(r"(?m)^Status: (.*)$", block)
            version = re.search(r"(?m)^Version: (.*)$", block)
            words = state.group(1).split() if state else []
            if words[2:] == ["installed"]:
                say("package", name.group(1), version.group(1) if version else "?")
            elif words[2:] and words[2] not in ("config-files", "not-installed"):
                say("broken", "package " + name.group(1), words[2])
    if not text and shutil.which("rpm"):
        rows = said("rpm", "-qa", "--qf", "%{NAME}\t%{VERSION}-%{RELEASE}\n")
        for line in (rows or "").split("\n"):
            name_, _, version_ = line.partition("\t")
            if PACKAGES.match(name_):
                say("package", name_, version_)


def configs() -> None:
    for path in CONFIGS:
        files = [path + "/" + name for name in inside(path)[:64]] if os.path.isdir(path) else [path]
        own = os.uname().nodename.partition(".")[0].encode()
        data = [read(file, 1 << 20).encode() for file in files if os.path.isfile(file)]
        if data:
            say("config", path, "{} bytes {}".format(sum(map(len, data)), digest(b"\n".join(data).replace(own, b"HOST"))))
    for path in ("/etc/nologin", "/run/nologin", "/var/run/nologin"):
        if os.path.exists(path) and os.path.realpath(path) == path:
            say("broken", path, "nobody may log in")
    if read("/etc/ld.so.preload").strip():
        say("broken", "/etc/ld.so.preload", "preloads " + " ".join(read("/etc/ld.so.preload").split()))
    folder = "/etc/security/limits.d"
    for path in ["/etc/security/limits.conf"] + [folder + "/" + name for name in inside(folder)]:
        for line in read(path).split("\n"):
            row = line.split("#")[0].split()
            if len(row) == 4:
                say("limit", " ".join(row[:3]), row[3])
                if row[2] == "nproc" and row[0] != "root" and row[3].isdigit() and int(row[3]) < 1024:
                    say("broken", "{}: {}".format(path, " ".join(row[:3])), "process_limit " + row[3])


def services() -> None:
    text = said("systemctl", "list-units", "--all", "--plain", "--no-legend", "--no-pager", "--type=service,automount,swap,socket")
    if text is None:
        say("answer", "systemd", "timeout")
    for line in (text or "").split("\n"):
        row = line.split(None, 4)
        if len(row) > 3 and not re.match(
            r"(user@|user-runtime|session-|getty@|serial-getty|run-|dev-|ifup@|systemd-fsck@|docker-|modprobe@|snap)", row[0]
        ):
            name = row[0][:-8] if row[0].endswith(".service") else row[0]
            state = row[1] if row[1] == "masked" else row[2] if row[3] in ("dead", "failed", "running", row[2]) else row[2] + " " + row[3]
            if row[1] != "not-found":
                say("service", name, state)


class Process:
    """A process as /proc shows it: its name, state, parent, owner, threads, ticks and group."""

    def __init__(self, pid: str) -> None:
        text = read(f"/proc/{pid}/stat", 4096)
        self.name, _, rest = text.partition("(")[2].rpartition(")")[0], 0, text.rpartition(")")[2].split()
        self.pid, self.state, self.parent = pid, rest[0], rest[1]
        self.ticks, self.threads, self.kernel = int(rest[11]) + int(rest[12]), int(rest[17]), int(rest[6]) & 0x200000
        self.owner = os.stat("/proc/" + pid).st_uid

    def ours(self) -> bool:
        """Whether the look itself may have started it."""
        return self.name in OURS or 0 < self.owner == os.getuid() or str(os.getpid()) in (self.pid, self.parent)

    def of_job(self) -> bool:
        group = read(f"/proc/{self.pid}/cgroup", 4096)
        return re.search(r"job_\d|kubepods|docker[-/]|libpod|containerd|slurm/uid", group) is not None


def all_processes() -> Any:
    found = {}
    for pid in inside("/proc"):
        if pid.isdigit():
            try:
                found[pid] = Process(pid)
            except (OSError, IndexError, ValueError):
                continue
    return found


def processes() -> None:
    first, began = all_processes(), time.time()
    states(first)
    owners(first)
    without_job(first)
    time.sleep(SAMPLE)
    seconds = time.time() - began
    busy: Any = {}
    for pid, now in all_processes().items():
        was = first.get(pid)
        if was and was.name == now.name and not now.kernel and not now.ours():
            share = (now.ticks - was.ticks) / (os.sysconf("SC_CLK_TCK") * seconds)
            if share >= 0.1 and not now.of_job():
                row = busy.setdefault((now.name, now.owner), [0.0, 0])
                row[0], row[1] = row[0] + share, row[1] + 1
    for (name, owner), (share, many) in sorted(busy.items(), key=lambda row: -row[1][0])[:4]:
        if share >= 0.5:
            say("hog", name, f"{share:.1f} of {os.cpu_count()} cores, {many} processes of uid {owner}")


def without_job(found: Any) -> None:
    """Processes of users that belong to no job, and which of them listen where jobs meet."""
    left = [row for row in found.values() if 1000 <= row.owner < 65534 and not row.ours() and not row.of_job() and not belongs(row, found)]
    kinds: Any = {}
    for row in left:
        kinds[(row.name, row.owner)] = kinds.get((row.name, row.owner), 0) + 1
    most = sorted(kinds.items(), key=lambda kind: -kind[1])[:3]
    say(
        "count",
        "processes of users without a job",
        "{} {}".format(len(left), ", ".join(f"{many} {name} of uid {owner}" for (name, owner), many in most)),
    )
    jobs = {row.owner for row in found.values() if row.of_job() or belongs(row, found)}
    for path in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in read(path, 1 << 20).split("\n")[1:]:
            row = line.split()
            port = int(row[1].rpartition(":")[2], 16) if len(row) > 9 and row[3] == "0A" else 0
            owner = int(row[7]) if port in MEETING else 0
            if owner >= 1000 and owner not in jobs:
                say("broken", f"port {port}", f"taken by uid {owner}, who has no job here")


def belongs(row: Any, found: Any) -> bool:
    """Whether a job, a container or a person who is logged in started it."""
    for _ in range(64):
        if row is None or row.name in ("slurmstepd", "srun", "sshd", "sshd-session", "login") or "shim" in row.name:
            return True
        if row.pid == "1" or row.name == "systemd":
            return bool(row.pid != "1")
        row = found.get(row.parent)
    return True


def states(found: Any) -> None:
    counts = {"zombie": "Z", "blocked": "D", "stopped": "T"}
    say("count", "processes", len(found))
    for name, letter in counts.items():
        rows = [row for row in found.values() if row.state == letter and not (row.kernel and letter == "D") and not row.ours()]
        kinds: Any = {}
        for row in rows:
            above = found.get(row.parent)
            who = "{} below {}".format(row.name, above.name if above else "?") if letter == "Z" else row.name
            kinds[who] = kinds.get(who, 0) + 1
        most = sorted(kinds, key=lambda who: -kinds[who])[:3]
        say("count", name, "{} {}".format(len(rows), ", ".join(f"{kinds[who]} {who}" for who in most)))
    for row in found.values():
        if row.state in "Tt" and row.name in DAEMONS and row.parent in ("1", "2"):
            say("broken", "daemon " + row.name, "frozen")
    running = {row.name for row in found.values() if row.parent == "1" and row.name in DAEMONS}
    for name in sorted(running):
        say("daemon", name, "runs")


def owners(found: Any) -> None:
    threads: Any = {}
    for row in found.values():
        if row.owner >= 1000 and not row.kernel:
            held = threads.setdefault(row.owner, [0, row.pid])
            held[0] += row.threads
    for owner, (many, pid) in sorted(threads.items())[:256]:
        limit = re.search(r"Max processes +(\d+)", read(f"/proc/{pid}/limits"))
        if limit and many >= 0.9 * int(limit.group(1)):
            say("broken", f"uid {owner}", f"process_limit {many} of {limit.group(1)}")
    for row in found.values():
        if row.name in ("slurmd", "dockerd", "containerd", "kubelet", "sshd") and row.parent == "1":
            limits = read(f"/proc/{row.pid}/limits")
            for what in ("processes", "open files", "locked memory", "stack size", "address space", "core file size"):
                limit = re.search(rf"Max {what} +(\S+)", limits)
                if limit:
                    say("limit", f"{row.name} {what}", limit.group(1))
    for group in [
        "system.slice/slurmd.service",
        "system.slice/docker.service",
        "system.slice/ssh.service",
        "system.slice/sshd.service",
        "user.slice",
    ] + ["user.slice/" + name for name in inside("/sys/fs/cgroup/user.slice") if name.endswith(".slice")]:
        pids("/sys/fs/cgroup/" + group, group.rpartition("/")[2])


def pids(folder: str, name: str) -> None:
    most, now = read(folder + "/pids.max").strip(), read(folder + "/pids.current").strip()
    if most and not name.startswith("user-"):
        say("limit", "tasks of " + name, most)
    if most.isdigit() and now.isdigit() and (int(now) >= 0.9 * int(most) or int(most) < 256):
        say("broken", "tasks of " + name, f"process_limit {now} of {most}")


def numbers() -> None:
    def share(now: str, most: str) -> int:
        return 100 * int(now) // int(most) if now.isdigit() and most.isdigit() and int(most) else 0

    files = read("/proc/sys/fs/file-nr").split()
    say("count", "open files percent", share(files[0], files[2]) if len(files) > 2 else 0)
    tracked = [read("/proc/sys/net/netfilter/nf_conntrack_" + word).strip() for word in ("count", "max")]
    say("count", "conntrack percent", share(*tracked))
    load = read("/proc/loadavg").split()
    if len(load) > 3:
        say("count", "load percent of cpus", int(100 * float(load[1]) / (os.cpu_count() or 1)))
        say("count", "pids percent", share(load[3].partition("/")[2], read("/proc/sys/kernel/pid_max").strip()))
    memory = dict(re.findall(r"(?m)^(\w+): +(\d+)", read("/proc/meminfo")))
    total = memory.get("MemTotal", "0")
    say("count", "shared memory percent", share(memory.get("Shmem", ""), total))
    say("count", "huge pages percent", share(memory.get("Hugetlb", ""), total))
    say("count", "kernel memory percent", share(memory.get("SUnreclaim", ""), total))
    for what in ("cpu", "io", "memory"):
        stalled = re.search(r"some avg10=[\d.]+ avg60=([\d.]+)", read("/proc/pressure/" + what))
        if stalled:
            say("count", what + " pressure", int(float(stalled.group(1))))
    for name in inside("/sys/devices/system/edac/mc"):
        wrong = read(f"/sys/devices/system/edac/mc/{name}/ue_count").strip()
        if wrong.isdigit() and int(wrong):
            say("broken", "memory controller " + name, "uncorrectable " + wrong)
    for name, state in re.findall(r"(?m)^(md\d+) : .*\n.*\[([U_]+)\]", read("/proc/mdstat")):
        if "_" in state:
            say("broken", "array " + name, "degraded " + state)
    offline = read("/sys/devices/system/cpu/offline").strip()
    if offline and offline not in read("/sys/devices/system/cpu/isolated"):
        say("system", "cpus off", offline)


def main() -> None:
    print("== baseline 1")
    questions = Questions()
    parts = (
        (mounts, questions),
        (network, questions),
        (scheduler, questions),
        (system,),
        (modules,),
        (devices,),
        (libraries,),
        (packages,),
        (configs,),
    )
    for work, *given in (*parts, (services,), (processes,), (numbers,)):
        try:
            work(*given)
        except (OSError, ValueError, IndexError, KeyError, AttributeError) as why:
            say("unread", work.__name__, f"{type(why).__name__}: {why}")
    for name, answer in questions.answers():
        say("answer", name, answer)
    print("== end")


main()
