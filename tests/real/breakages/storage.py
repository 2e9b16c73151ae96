"""File systems: hanging, full, read-only, missing, with wrong options or permissions."""

from functools import partial
from typing import Literal

from tests.real.breakages.breakage import END_BACKGROUND, GPU_HOSTS, Breakage, Step, background, base, on_one_host

SILENT = """mkdir -p {mount}; test -e /dev/fuse || mknod /dev/fuse c 10 229
cat > /root/fs.py <<'END'
import ctypes, os, time
fd = os.open("/dev/fuse", os.O_RDWR)
options = f"fd={{fd}},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
if ctypes.CDLL(None, use_errno=True).mount(b"{source}", b"{mount}", b"{kind}", 0, options):
    raise OSError(ctypes.get_errno(), "mount")
time.sleep(1800)
END
""" + background("exec python3 /root/fs.py")
MENDED = END_BACKGROUND + "; umount -l {mount}; rm -f /root/fs.py /dev/fuse; rmdir {mount}"
MOUNTED = "grep -q ' {mount} {kind} ' /proc/mounts"
# a separate disk with the kernel's real file system, unlike a container's root
SCRATCH = """test -e /dev/loop-control || mknod /dev/loop-control c 10 237
for n in $(seq 0 31); do test -e /dev/loop$n || mknod -m 600 /dev/loop$n b 7 $n; done
mkdir -p /scratch; truncate -s 16m /run/disk; mkfs.ext4 -q -N 64 /run/disk; mount -o loop /run/disk /scratch"""
NO_SCRATCH = "umount /scratch; rmdir /scratch; rm -f /run/disk /dev/loop-control /dev/loop[0-9]*"
FILE_SERVER = (
    *("STORAGE.Fuse_Mount_Silent", "STORAGE.NFS_Server_Not_Responding", "STORAGE.Parallel_FS_Degraded", "store.mount"),
    *base("/mnt/data", "/jfs"),
)
FULL = ("STORAGE.Root_FS_Full", "STORAGE.Mount_Full")
READ_ONLY = ("STORAGE.FS_Remounted_RO", "STORAGE.Mount_Options_Differ")
_of = partial(on_one_host, "storage")


def _silent(id_: str, host: str, mount: str, kind: str, report: str, *, tier: Literal[2, 3] = 3, number: int = 3) -> Breakage:
    what = {"mount": mount, "kind": kind, "source": "files.example.com:/export"}
    return Breakage(
        id=id_,
        area="storage",
        kind=number,
        tier=tier,
        report=report,
        at_fault=host,
        do=(Step(host, SILENT.format(**what)),),
        undo=(Step(host, MENDED.format(**what)),),
        sign=Step(host, MOUNTED.format(**what)),
        right=FILE_SERVER,
        settings=("RACKMEDIC_LOOK_SECONDS=8",),
    )


STORAGE = (
    _silent("sshfs-silent", "gpu-002", "/mnt/data", "fuse.sshfs", "training on gpu-002 is stuck, ls /mnt/data never comes back", tier=2),
    _silent("juicefs-silent", "gpu-001", "/jfs", "fuse.juicefs", "first epoch never begins on gpu-001", number=0),
    _of(
        "shared-memory-full",
        "gpu-001",
        "dataloader on gpu-001 dies with a bus error",
        (
            "mount -o remount,size=1100m /dev/shm; fallocate -l 1095m /dev/shm/torch_11_old; head -c 80m /dev/zero > /dev/shm/torch_12_old 2>/dev/null || true",
            "rm /dev/shm/torch_1?_old; mount -o remount,size=10% /dev/shm",
            "test $(df --output=avail /dev/shm | tail -1) = 0",
        ),
        ("STORAGE.Shm_Full", "STORAGE.Mount_Full", "disk.used_percent:/dev/shm", *base("/dev/shm", "shm")),
        tier=2,
        kind=7,
    ),
    Breakage(
        id="disk-read-only",
        area="storage",
        kind=8,
        tier=2,
        report="jobs on gpu-003 fail at once, cannot write something",
        at_fault="gpu-003",
        do=(Step(GPU_HOSTS, SCRATCH), Step("gpu-003", "mount -o remount,ro /scratch")),
        undo=(Step(GPU_HOSTS, NO_SCRATCH),),
        sign=Step("gpu-003", "mountpoint -q /scratch && ! touch /scratch/x 2>/dev/null"),
        right=(*READ_ONLY, "disk.readonly:/scratch", *base("/scratch")),
    ),
    _of(
        "shared-folder-read-only",
        "gpu-002",
        "checkpoint save fails, only on gpu-002",
        ("mount -o remount,bind,ro /shared", "mount -o remount,bind,rw /shared", "! touch /shared/x 2>/dev/null"),
        (*READ_ONLY, "disk.readonly:/shared", *base("/shared")),
        kind=8,
    ),
    _of(
        "shared-folder-missing",
        "gpu-001",
        "FileNotFoundError on gpu-001, the very same job runs on gpu-002",
        (
            "mkdir -p /run/keep; mount --bind /shared /run/keep && umount /shared",
            "mount --bind /run/keep /shared && umount /run/keep; rmdir /run/keep",
            "! mountpoint -q /shared",
        ),
        ("STORAGE.Mount_Missing", "STORAGE.Mount_Options_Differ", *base("/shared")),
    ),
    Breakage(
        id="no-inodes-left",
        area="storage",
        report="gpu-002: no space left on device, but df shows plenty",
        at_fault="gpu-002",
        do=(
            Step(GPU_HOSTS, "mkdir -p /scratch; mount -t tmpfs -o nr_inodes=64,size=64m scratch /scratch"),
            Step("gpu-002", "for n in $(seq 200); do touch /scratch/$n 2>/dev/null || break; done"),
        ),
        undo=(Step(GPU_HOSTS, "umount /scratch; rmdir /scratch"),),
        sign=Step("gpu-002", "mountpoint -q /scratch && ! touch /scratch/x 2>/dev/null"),
        right=(*FULL, "disk.inodes_percent:/scratch", *base("inodes")),
    ),
    Breakage(
        id="disk-not-mounted",
        area="storage",
        report="/scratch is empty on gpu-001",
        at_fault="gpu-001",
        do=(
            Step(GPU_HOSTS, f"{SCRATCH}; cp -p /etc/fstab /root/; echo '/run/disk /scratch ext4 loop 0 2' >> /etc/fstab"),
            Step("gpu-001", "umount /scratch"),
        ),
        undo=(Step("gpu-001", "mount /scratch"), Step(GPU_HOSTS, f"mv /root/fstab /etc/fstab; {NO_SCRATCH}")),
        sign=Step("gpu-001", "grep -q scratch /etc/fstab && ! mountpoint -q /scratch"),
        right=("STORAGE.Mount_Missing", *base("/scratch")),
    ),
    _of(
        "root-full",
        "gpu-002",
        "gpu-002 acts up since the night, logins odd",
        (
            "head -c 2G /dev/zero > /var/log/trace.log 2>/dev/null || true",
            "rm /var/log/trace.log",
            "test $(df --output=avail / | tail -1) = 0",
        ),
        (*FULL, "disk.used_percent:/", *base("space")),
    ),
    _of(
        "full-of-a-deleted-file",
        "gpu-003",
        "df says / is full on gpu-003 and du finds nothing",
        (
            (
                "printf 'exec 3> /var/tmp/old.log\\nrm /var/tmp/old.log\\nhead -c 2G /dev/zero >&3\\nsleep 1800\\n' > /root/w.sh; "
                f"{background('exec sh /root/w.sh')}; sleep 1"
            ),
            f"{END_BACKGROUND}; rm /root/w.sh",
            "test $(df --output=avail / | tail -1) = 0",
        ),
        (*FULL, "disk.used_percent:/", *base("space")),
    ),
    _of(
        "tmp-noexec",
        "gpu-001",
        "building a torch extension fails on gpu-001: failed to map segment from shared object",
        ("mount -o remount,noexec /tmp", "mount -o remount,exec /tmp", "grep ' /tmp ' /proc/mounts | grep -q noexec"),
        ("STORAGE.Mount_Options_Differ", "STORAGE.Tmp_Unusable", *base("/tmp")),
    ),
    _of(
        "tmp-not-writable",
        "gpu-002",
        "users get permission denied all over on gpu-002, root is fine",
        ("chmod 755 /tmp", "chmod 1777 /tmp", "test $(stat -c %a /tmp) = 755"),
        ("STORAGE.Tmp_Unusable", *base("/tmp")),
    ),
)
