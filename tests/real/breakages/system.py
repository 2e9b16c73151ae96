"""Processes, limits, accounts, system files, libraries and driver device files."""

from typing import Literal

from tests.real.breakages.breakage import END_BACKGROUND, GPU_HOSTS, Breakage, Step, background, base, on_one_host
from tests.real.breakages.network import KEEP, RESTORE

SLURMD_SETTING = (
    "mkdir -p /etc/systemd/system/slurmd.service.d; printf '[Service]\\n{0}\\n' > /etc/systemd/system/slurmd.service.d/10-site.conf; "
    "systemctl daemon-reload; systemctl restart slurmd"
)
SLURMD_DEFAULT = "rm -r /etc/systemd/system/slurmd.service.d; systemctl daemon-reload; systemctl restart slurmd"
SLURMD_LIMIT = "systemctl show -P {0} slurmd | grep -qx '{1}'"

ZOMBIES = """cat > /root/p.py <<'END'
import os, time
for _ in range(400):
    if os.fork() == 0:
        os._exit(0)
time.sleep(1800)
END
""" + background("exec python3 /root/p.py")
BLOCKED = background('for n in 1 2 3 4 5 6; do perl -e "syscall(58); sleep 1800" & done; wait')
LEFTOVERS = """cat > /var/tmp/p.py <<'END'
import os, time
for _ in range(300):
    if os.fork() == 0:
        break
time.sleep(1800)
END
""" + background("exec runuser -u trainer -- python3 /var/tmp/p.py")
LIBRARIES = """for n in cuda nvidia-ml nvidia-ptxjitcompiler; do
cp -L /usr/lib/x86_64-linux-gnu/libm.so.6 /usr/lib/x86_64-linux-gnu/lib$n.so.535.161.08
ln -sf lib$n.so.535.161.08 /usr/lib/x86_64-linux-gnu/lib$n.so.1; done"""
NO_LIBRARIES = "cd /usr/lib/x86_64-linux-gnu && rm -f libcuda.so.* libnvidia-ml.so.* libnvidia-ptxjitcompiler.so.*"
DEVICES = (
    "for n in 0 1 2 3 4 5 6 7; do mknod -m 666 /dev/nvidia$n c 195 $n; done; mknod -m 666 /dev/nvidiactl c 195 255; "
    "mknod -m 666 /dev/nvidia-uvm c 511 0"
)
LISTENER = """cat > /var/tmp/l.py <<'END'
import socket, time
s = socket.create_server(("", 29500))
time.sleep(1800)
END
""" + background("exec runuser -u trainer -- python3 /var/tmp/l.py")


def _libraries(id_: str, host: str, report: str, size: int, *, tier: Literal[2, 3] = 3) -> Breakage:
    """Return a breakage: all GPU hosts have the driver's libraries, one host has one of another size."""
    path = "/usr/lib/x86_64-linux-gnu/libcuda.so.535.161.08"
    return Breakage(
        id=id_,
        area="system",
        kind=9,
        tier=tier,
        report=report,
        at_fault=host,
        do=(Step(GPU_HOSTS, LIBRARIES), Step(host, f"truncate -s {size} {path}")),
        undo=(Step(GPU_HOSTS, NO_LIBRARIES),),
        sign=Step(host, f"test -e {path} && test $(stat -c %s {path}) = {size}"),
        right=("DRIVER.Library_Damaged", "PACKAGE.Library_Damaged", "PACKAGE.Library_Differs", *base("librar", "libcuda")),
    )


SYSTEM = (
    on_one_host(
        "tasks",
        "zombies",
        "gpu-001",
        "ps on gpu-001 is full of defunct, sometimes fork fails",
        (ZOMBIES, f"{END_BACKGROUND}; rm /root/p.py", "test $(ps -eo stat= | grep -c Z) -ge 300"),
        ("PROCESS.Zombies", *base("zombie")),
        tier=2,
        kind=9,
    ),
    on_one_host(
        "tasks",
        "processes-cannot-be-killed",
        "gpu-002",
        "gpu-002 has a high load and nothing runs, kill -9 does nothing",
        (
            BLOCKED,
            END_BACKGROUND,
            "test $(ps -eo stat= | grep -c '^D') -ge 3",
        ),
        ("PROCESS.Blocked_In_Kernel", "proc.blocked", *base("blocked")),
        kind=8,
    ),
    on_one_host(
        "tasks",
        "processes-left-over",
        "gpu-002",
        "gpu-002 feels cluttered, yesterday's job is still around?",
        (LEFTOVERS, f"{END_BACKGROUND}; rm /var/tmp/p.py", "test $(pgrep -cu trainer) -ge 200"),
        ("PROCESS.CPU_Hog_Beside_Job", "PROCESS.Left_Over", *base("process")),
    ),
    on_one_host(
        "tasks",
        "processor-hog",
        "gpu-001",
        "gpu-001 is half as fast as the others since noon",
        (
            background('for each in 1 2 3 4; do nice -n -19 sh -c "while :; do :; done" & done; wait'),  # the host machine may be busy
            END_BACKGROUND,
            "pgrep -f '[w]hile :' > /dev/null && sleep 2",
        ),
        ("PROCESS.CPU_Hog_Beside_Job", "proc.hog", *base("hog")),
        kind=9,
    ),
    on_one_host(
        "tasks",
        "port-taken",
        "gpu-001",
        "address already in use when I start on gpu-001",
        (LISTENER, f"{END_BACKGROUND}; rm /var/tmp/l.py", "ss -ltnH | grep -q :29500"),
        ("PROCESS.Port_Taken", *base("port", "29500")),
    ),
    on_one_host(
        "limits",
        "process-limit",
        "gpu-003",
        "fork: resource temporarily unavailable, on gpu-003 only",
        (SLURMD_SETTING.format("LimitNPROC=64"), SLURMD_DEFAULT, SLURMD_LIMIT.format("LimitNPROC", "64")),
        ("LIMITS.Process_Count_Low", "LIMITS.Limits_Differ", *base("limit")),
        kind=9,
    ),
    on_one_host(
        "limits",
        "open-files-limit",
        "gpu-001",
        "too many open files on gpu-001, same job is fine on gpu-002",
        (SLURMD_SETTING.format("LimitNOFILE=256"), SLURMD_DEFAULT, SLURMD_LIMIT.format("LimitNOFILE", "256")),
        ("LIMITS.Open_Files_Low", "LIMITS.Limits_Differ", *base("limit")),
    ),
    on_one_host(
        "limits",
        "locked-memory-limit",
        "gpu-002",
        "ibv_reg_mr fails when gpu-002 is in the job",
        (SLURMD_SETTING.format("LimitMEMLOCK=65536"), SLURMD_DEFAULT, SLURMD_LIMIT.format("LimitMEMLOCK", "65536")),
        ("LIMITS.Memlock_Too_Low", "LIMITS.Limits_Differ", "mem.memlock_kib", *base("limit")),
    ),
    on_one_host(
        "limits",
        "user-process-limit",
        "gpu-003",
        "trainer can't start more than a few processes on gpu-003",
        (
            "mkdir -p /etc/security/limits.d; echo 'trainer hard nproc 20' > /etc/security/limits.d/90-site.conf",
            "rm /etc/security/limits.d/90-site.conf",
            "test -e /etc/security/limits.d/90-site.conf",
        ),
        ("LIMITS.Process_Count_Low", "LIMITS.Limits_Differ", "CONFIG.File_Differs", *base("limit")),
        kind=9,
    ),
    on_one_host(
        "system",
        "other-time-zone",
        "gpu-003",
        "log timestamps of gpu-003 are hours off",
        (
            "cp -a /etc/localtime /root/keep.localtime 2>/dev/null; ln -sfn /usr/share/zoneinfo/America/Los_Angeles /etc/localtime",
            "rm /etc/localtime; test ! -e /root/keep.localtime -a ! -L /root/keep.localtime || mv /root/keep.localtime /etc/localtime",
            "readlink /etc/localtime | grep -q Los_Angeles",
        ),
        ("TIME.Time_Zone_Differs", *base("time zone")),
        kind=9,
    ),
    _libraries("driver-library-empty", "gpu-002", "CUDA init fails on gpu-002, nvidia-smi is fine", 0, tier=2),
    _libraries("driver-library-cut", "gpu-001", "gpu-001: error while loading shared libraries: file too short", 1000),
    Breakage(
        id="device-file-missing",
        area="system",
        kind=9,
        report="only 7 gpus usable on gpu-001, nvidia-smi shows 8",
        at_fault="gpu-001",
        do=(Step(GPU_HOSTS, DEVICES), Step("gpu-001", "rm /dev/nvidia3")),
        undo=(Step(GPU_HOSTS, "rm -f /dev/nvidia[0-7] /dev/nvidiactl /dev/nvidia-uvm"),),
        sign=Step("gpu-001", "test -e /dev/nvidia2 && ! test -e /dev/nvidia3"),
        right=("DEVICE.GPU_Nodes_Missing", "CONTAINER.Device_Nodes_Missing", *base("device", "/dev/nvidia")),
    ),
    on_one_host(
        "system",
        "user-has-another-number",
        "gpu-003",
        "trainer gets permission denied in /shared, only on gpu-003",
        (
            f"{KEEP.format('/etc/passwd')} && sed -i 's/^trainer:x:2000:2000/trainer:x:2001:2000/' /etc/passwd",
            RESTORE.format("/etc/passwd"),
            "grep -q '^trainer:x:2001' /etc/passwd",
        ),
        ("SERVICE.Users_Unknown", "CONFIG.File_Differs", *base("passwd", "trainer")),
    ),
    on_one_host(
        "system",
        "user-missing",
        "gpu-002",
        "jobs of trainer die instantly on gpu-002, invalid user or so",
        (
            f"{KEEP.format('/etc/passwd')} && sed -i '/^trainer:/d' /etc/passwd",
            RESTORE.format("/etc/passwd"),
            "! grep -q '^trainer:' /etc/passwd",
        ),
        ("SERVICE.Users_Unknown", "CONFIG.File_Differs", *base("passwd", "trainer")),
    ),
    on_one_host(
        "system",
        "preloaded-library-gone",
        "gpu-002",
        "every command on gpu-002 prints some ld.so error",
        (
            "echo /usr/lib/x86_64-linux-gnu/libjemalloc.so.2 > /etc/ld.so.preload",
            "rm /etc/ld.so.preload",
            "test -e /etc/ld.so.preload",
        ),
        ("PACKAGE.Library_Preloaded", *base("preload")),
    ),
    on_one_host(
        "system",
        "python-missing",
        "gpu-001",
        "python3: command not found on gpu-001",
        ("mv /usr/bin/python3 /root/python3", "mv /root/python3 /usr/bin/python3", "! test -e /usr/bin/python3"),
        ("PACKAGE.Versions_Differ", "PACKAGE.Half_Installed", *base("python")),
    ),
    on_one_host(
        "system",
        "null-device-is-a-file",
        "gpu-001",
        "scripts on gpu-001 behave strangely, /dev fills up",
        (
            "rm /dev/null; echo x > /dev/null; chmod 666 /dev/null",
            "rm /dev/null; mknod -m 666 /dev/null c 1 3",
            "test -f /dev/null",
        ),
        ("DEVICE.Basic_Device_Replaced", *base("/dev/null", "device null")),
    ),
    on_one_host(
        "system",
        "other-package-version",
        "gpu-003",
        "gpu-003 got something updated on the weekend and now it behaves differently",
        (
            (
                f"{KEEP.format('/var/lib/dpkg/status')} && sed -i '/^Package: libpmix2/,/^$/s/^Version: .*/Version: 5.0.1-4/' /var/lib/dpkg/status && "
                "sed -i '/^Package: slurmd$/,/^$/s/^Version: .*/Version: 23.11.4-1/' /var/lib/dpkg/status"
            ),
            RESTORE.format("/var/lib/dpkg/status"),
            "dpkg-query -W -f '${Version}' slurmd | grep -q 23.11",
        ),
        ("PACKAGE.Versions_Differ", *base("package")),
    ),
    on_one_host(
        "system",
        "package-half-configured",
        "gpu-002",
        "apt is broken on gpu-002, somebody interrupted it",
        (
            (
                f"{KEEP.format('/var/lib/dpkg/status')} && "
                "sed -i '/^Package: slurmd$/,/^$/s/^Status: .*/Status: install ok half-configured/' /var/lib/dpkg/status"
            ),
            RESTORE.format("/var/lib/dpkg/status"),
            "dpkg-query -W -f '${Status}' slurmd | grep -q half",
        ),
        ("PACKAGE.Half_Installed", *base("package")),
    ),
    on_one_host(
        "system",
        "nccl-conf-left-behind",
        "gpu-003",
        "allreduce crawls whenever gpu-003 is in",
        (
            "printf 'NCCL_IB_DISABLE=1\\nNCCL_P2P_DISABLE=1\\n' > /etc/nccl.conf",
            "rm /etc/nccl.conf",
            "test -e /etc/nccl.conf",
        ),
        ("CONFIG.File_Differs", "CONFIG.NCCL_P2P_Disabled", *base("nccl.conf")),
    ),
    on_one_host(
        "system",
        "certificates-gone",
        "gpu-001",
        "CERTIFICATE_VERIFY_FAILED for everything on gpu-001",
        (
            f"{KEEP.format('/etc/ssl/certs/ca-certificates.crt')} && : > /etc/ssl/certs/ca-certificates.crt",
            RESTORE.format("/etc/ssl/certs/ca-certificates.crt"),
            "test -e /root/keep.file && ! test -s /etc/ssl/certs/ca-certificates.crt",
        ),
        ("CONFIG.File_Differs", "PACKAGE.Half_Installed", *base("certificate")),
    ),
)
