"""Paths that a site's check may read or query.

Readable, by allow list: system state and a site's logs. Other places may be queried for names, sizes, owners and file
systems. Paths never go up, and a name that suggests a secret is not readable.
"""

import re

_PATH_PART = r"[A-Za-z0-9_.,:=@%+-]+"
_PATH_PATTERN = re.compile(rf"/(?:{_PATH_PART}(?:/{_PATH_PART})*/?)?")
_PARENT_STEP_PATTERN = re.compile(r"(?:^|/)\.{1,2}(?:/|$)")
# `*` within one name, `/**` a folder and everything below, `#` a number
_READABLE_GLOBS = """
/proc/cmdline /proc/cpuinfo /proc/meminfo /proc/mounts /proc/loadavg /proc/uptime /proc/version /proc/stat /proc/vmstat /proc/interrupts
/proc/softirqs /proc/modules /proc/devices /proc/partitions /proc/filesystems /proc/swaps /proc/diskstats /proc/buddyinfo /proc/zoneinfo
/proc/slabinfo /proc/iomem /proc/mdstat /proc/cgroups /proc/locks /proc/pagetypeinfo /proc/schedstat /proc/mtrr /proc/crypto
/proc/driver/** /proc/fs/** /proc/sys/** /proc/net/** /proc/irq/** /proc/pressure/* /proc/scsi/** /proc/bus/pci/devices /proc/bus/input/devices
/proc/spl/** /proc/sysvipc/*
/proc/self/mounts /proc/self/mountinfo /proc/self/mountstats /proc/self/cgroup /proc/self/limits /proc/self/status
/proc/#/status /proc/#/stat /proc/#/limits /proc/#/cgroup /proc/#/mounts /proc/#/mountinfo /proc/#/sched /proc/#/wchan /proc/#/numa_maps /proc/#/io
/sys/class/** /sys/bus/** /sys/devices/** /sys/module/** /sys/block/** /sys/fs/** /sys/hypervisor/** /sys/power/* /sys/firmware/acpi/tables
/sys/kernel/mm/** /sys/kernel/iommu_groups/** /sys/kernel/security/lockdown
/etc/os-release /etc/redhat-release /etc/centos-release /etc/rocky-release /etc/dgx-release /etc/lsb-release /etc/debian_version
/etc/fstab /etc/mtab /etc/hosts /etc/hostname /etc/resolv.conf /etc/nsswitch.conf /etc/timezone /etc/machine-id /etc/passwd /etc/group /etc/exports
/etc/chrony.conf /etc/chrony/chrony.conf /etc/ntp.conf /etc/modules /etc/modules-load.d/* /etc/modprobe.d/* /etc/sysctl.conf /etc/sysctl.d/*
/etc/security/limits.conf /etc/security/limits.d/* /etc/default/grub /etc/default/irqbalance /etc/default/cpupower /etc/multipath.conf
/etc/ld.so.conf /etc/ld.so.conf.d/* /etc/udev/rules.d/* /etc/systemd/system.conf /etc/systemd/logind.conf /etc/systemd/journald.conf
/etc/slurm/slurm.conf /etc/slurm/gres.conf /etc/slurm/cgroup.conf /etc/slurm/topology.conf /etc/slurm/node.conf /etc/docker/daemon.json /etc/cdi/*
/etc/nvidia-container-runtime/config.toml /etc/nvidia-imex/config.cfg /etc/nvidia-imex/nodes_config.cfg /usr/share/nvidia/** /etc/enroot/enroot.conf
/etc/infiniband/* /etc/rdma/** /etc/tuned/active_profile /etc/issue /etc/motd /etc/ssl/certs/* /etc/pki/tls/certs/* /etc/kubernetes/pki/*.crt
/var/log/** /run/nvidia*/** /var/run/nvidia*/** /run/reboot-required /var/run/reboot-required /var/lib/node_exporter/** /var/lib/dkms/**
/usr/lib/** /usr/lib64/** /lib/** /lib64/** /usr/share/** /usr/include/** /usr/local/** /opt/** /boot/config-* /boot/System.map-*
/scratch/** /shared/** /mnt/** /data/** /lustre/** /gpfs/** /beegfs/** /nfs/** /weka/** /fsx/**
"""
# Below /sys and /proc: reading these talks to the device or consumes data that other readers wait for.
_ACTS_WHEN_READ_PATTERN = re.compile(r".*/(?:rom|vpd|config|resource\d*(?:_wc)?|trace_pipe|kcore|kmsg)")
_SECRET_PATTERN = re.compile(
    r".*/(?:[^/]*(?:secret|passw(?!d$)|credential|token|shadow|keytab|htpasswd|private|kubeconfig)[^/]*|[^/]*_keys?|btmp[^/]*|id_[a-z0-9_]+|\.[^/]*"
    r"|[^/]*\.(?:key|p12|pfx|jks|kdbx|gpg|asc))(?:/.*)?",
    re.IGNORECASE,
)
_PERSONAL_PATH_PATTERN = re.compile(r"/(?:root|proc/(?:\d+|self|thread-self)/(?:root|cwd|fd|environ|mem|task|map_files))(?:/.*)?")


def _translate_glob(glob: str) -> str:
    marks = {"/**": "(?:/.+)?", "*": "[^/]+", "#": r"\d+"}
    return "".join(marks.get(part, re.escape(part)) for part in re.split(r"(/\*\*|\*|#)", glob))


_READABLE_PATH_PATTERN = re.compile("|".join(map(_translate_glob, _READABLE_GLOBS.split())))


def is_queryable_path(word: str) -> bool:
    """Return whether the path is absolute, never goes up, and is not private to one user or process."""
    return bool(_PATH_PATTERN.fullmatch(word)) and not _PARENT_STEP_PATTERN.search(word) and not _PERSONAL_PATH_PATTERN.fullmatch(word)


def is_readable_path(word: str) -> bool:
    """Return whether the content may be read."""
    if (
        not is_queryable_path(word)
        or _SECRET_PATTERN.fullmatch(word)
        or (word.startswith(("/sys/", "/proc/")) and _ACTS_WHEN_READ_PATTERN.fullmatch(word))
    ):
        return False
    return bool(_READABLE_PATH_PATTERN.fullmatch(word.rstrip("/")))
