"""Whether a command that a site wrote down only reads. Refuses with the reason; what is not plainly harmless is not run. Pure.

Nothing can prove that a program only reads. So shells, interpreters, programs that start others, and programs that write are refused
by name; tools that do both are held to their reading words; and no word may look like a part of a shell line, a file to write or an
action to take. A site's own program is run as it is: whoever installs it as root answers for it.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

_PROGRAM = re.compile(r"(?:/(?:usr/)?(?:local/)?s?bin/|/opt/(?:[A-Za-z0-9][A-Za-z0-9._+-]*/)+)?[A-Za-z0-9][A-Za-z0-9._+-]*")
_SHELL = re.compile(r"[|<>;&`\n\r\0]|\$[({A-Za-z_]|[\x01-\x1f\x7f]")

_RUNS_OTHERS = """
sh bash dash zsh ksh mksh ash fish csh tcsh rbash busybox toybox perl python ruby lua luajit node nodejs php tclsh wish expect awk gawk mawk
nawk sed bc dc gdb lldb strace ltrace sudo su doas pkexec runuser env xargs parallel nohup setsid timeout nice ionice chrt taskset numactl chroot
unshare nsenter setpriv capsh script watch time flock stdbuf eval exec source ssh scp sftp rsync rsh telnet mosh pdsh pssh clush ansible
ansible-playbook salt systemd-run at batch crontab find fd locate make cmake git less more most man vi vim nvim view nano ed ex emacs tmux screen
mpirun mpiexec orterun srun sbatch salloc prterun torchrun ld.so prlimit choom faketime firejail bwrap
"""
_WRITES = """
rm rmdir mv cp dd tee truncate touch mkdir mknod mkfifo ln link unlink install shred split csplit sort uniq chmod chown chgrp chattr setfacl setfattr
tar gzip gunzip bzip2 xz zstd zip unzip cpio ar patch openssl gpg mkfs mkswap fdisk sfdisk gdisk parted wipefs mount umount fusermount swapon swapoff
fsck e2fsck tune2fs resize2fs xfs_repair hdparm sdparm nvme blkdiscard dmsetup losetup cryptsetup mdadm lvm lvremove vgremove pvremove kill pkill
killall killall5 skill fuser reboot shutdown poweroff halt init telinit kexec modprobe insmod rmmod depmod dkms dracut update-initramfs apt apt-get
aptitude dnf yum zypper dpkg rpm snap flatpak pip pip3 conda npm curl wget nc ncat netcat socat ftp tftp iptables ip6tables nft ebtables tc ifconfig
ifup ifdown route arp brctl nmcli useradd userdel usermod groupadd passwd chpasswd chsh visudo ldconfig update-alternatives alternatives
scancel sacctmgr crictl ctr nerdctl podman helm etcdctl redis-cli mysql psql nvflash flint mlxburn mlxfwmanager mlxfwreset mst
opensm ibportstate ibdiagnet ibdiagpath smpquery perf tcpdump wall write logger mail sendmail sync fallocate ipcrm nvidia-settings nvidia-modprobe
nvidia-bug-report mtx setterm stty reset systemd-tmpfiles
"""
_BECAUSE: Mapping[str, str] = {
    **dict.fromkeys(_RUNS_OTHERS.split(), "starts other programs, so what it does cannot be read off the command"),
    **dict.fromkeys(_WRITES.split(), "can change the host"),
}
_FAMILIES = re.compile(
    r"(?:python|perl|ruby|lua|php|tclsh)[\d.]+|ld-.*\.so.*|mkfs\..*|fsck\..*|.*\.(?:sh|bash|py|pl|rb|js)|nvidia-bug-report.*"
)

_WORD = r"[A-Za-z0-9_.,:=/@%*+-]+"
_HERE = r"(?!.*(?:^| )(?:-H|--host|-M|--machine))"
"""Not on another machine."""
_READING: Mapping[str, str] = {
    "systemctl": rf"{_HERE}(?:--no-pager |--plain |--no-legend |--all )*"
    rf"(?:status|show|is-active|is-enabled|is-failed|list-units|list-unit-files|list-timers|cat)(?: {_WORD})*",
    "nvidia-smi": r"(?:(?:-[qxLa]|-d [A-Z_,]+|-i [\w:.,-]+|--query|--list-gpus|--query-[a-z-]+=[\w.,]+|--format=[\w,]+"
    r"|--display=[A-Z_,]+|--id=[\w:.,-]+)(?: |$))*"
    r"|topo (?:-m|-p2p [a-z]+)|nvlink (?:-s|--status|-e|-c|-R)(?: -i [\w:.,-]+)?|mig -l(?:gi|ci|gip|cip)",
    "dcgmi": r"(?:discovery -[lcv]+|health -c(?: -j)?|nvlink -[se]|topo(?: -g \d+)?|version|-v)",
    "ip": r"(?:-[46jdso]+ |-json |-brief |-br )*(?:addr|a|link|l|route|r|rule|neigh|n|maddr)(?: (?:show|list|ls|get)(?: [A-Za-z0-9_.:/-]+)*)?",
    "ethtool": r"(?:-[iSakgcmTnlPx] |--show-[a-z-]+ |--statistics |--driver |--module-info )?[A-Za-z0-9_.-]+",
    "sysctl": r"(?:-n |-a$|-e )*[a-z0-9_./*-]*",
    "dmesg": r"(?:(?:-[TtxHPkuLSJ]+|--(?:decode|ctime|kernel|userspace|nopager|noescape|json)|--time-format[= ][a-z]+"
    r"|(?:-l|-f|--level|--facility)[= ][a-z,]+)(?: |$))*",
    "journalctl": rf"{_HERE}(?!.*(?:--vacuum|--rotate|--flush|--sync|--relinquish|--setup|--update|--smart|--force|--cursor-file))(?:{_WORD}(?: |$))*",
    "mlxconfig": rf"(?:-d {_WORD} |-e )*(?:query|q)(?: {_WORD})*",
    "mlxlink": r"-d [\w:./-]+(?: -p \d+| -[mce]| --json| --show_[a-z_]+)*",
    "lfs": rf"(?:df|check|quota|getstripe|osts|mdts|getname)(?: {_WORD})*",
    "lctl": rf"(?:get_param|list_param|dl|device_list|list_nids)(?: {_WORD})*",
    "beegfs-ctl": rf"--(?:list[a-z]+|getentryinfo|getquota)(?: {_WORD})*",
    "scontrol": rf"(?:-[do]+ |--json |--oneliner )*(?:show|ping|version)(?: {_WORD})*",
    "ipmitool": r"(?:sdr(?: (?:list|elist|type [\w ]+))?|sel (?:list|elist|info)(?: last \d+)?|sensor(?: list)?"
    r"|chassis status|fru(?: print)?|mc info|dcmi power reading)",
    "docker": r"(?:ps|info|version|images|inspect|stats --no-stream|system df|top|port)(?: [A-Za-z0-9_.:/={}-]+)*",
    "kubectl": rf"(?:get|describe|version|top|api-resources|cluster-info)(?! dump)(?: {_WORD})*",
    "hostname": r"(?:-[fsdiIA]|--fqdn|--short)?",
    "date": r"(?:-u ?|\+\S+|-R|--utc ?|-I\w*)*",
    "chronyc": r"(?:-n |-c )*(?:tracking|sources|sourcestats|activity|ntpdata)(?: -v)?",
    "timedatectl": r"(?:status|show|timesync-status|show-timesync)?",
    "hostnamectl": r"(?:status)?",
    "hwclock": r"(?:-r|--show)",
    "lspci": r"(?:-[A-Za-z]+|[\w:.]+)(?: (?:-[A-Za-z]+|[\w:.]+))*|",
    "perfquery": r"(?!.*(?:-[a-zA-Z]*[rR]|--reset|-R))(?:-?[\w]+(?: |$))*",
    "smartctl": r"(?:(?:-[aiHAjx]+|--all|--info|--health|--json)(?: |$))+(?:/dev/[\w/]+)?",
    "taskset": r"-p[c]? \d+",
    "findmnt": rf"(?:{_WORD}(?: |$))*",
    "swapon": r"(?:--show|-s)(?:=\w+)?",
}
"""What tools that both read and write may be told: the words after the program, joined by blanks, matched whole."""

DEVICES = ("/dev/", "/proc/sysrq-trigger", "/proc/kcore", "/proc/kmsg")
ASK_DEVICES = frozenset({"smartctl", "ls", "stat", "df", "lsblk", "blkid"})
_ACTION = re.compile(
    r"-(?:delete|exec|execdir|ok|okdir|fprint0?|fprintf|fls)|--(?:in-place|delete|remove|set|write|reset|clear|flush|vacuum|rotate|install"
    r"|upgrade|restart|stop|kill|force|apply|save|commit|exec|command|eval)(?:[-=].*)?|of=.*"
)
_OUTPUT = re.compile(r"-[oOw]|--(?:output|output-file|out|out-file|log-file|logfile|export|dump)")


def refusals(argv: Sequence[str]) -> Iterator[str]:
    """Every reason why this command is not run; none where it may be."""
    if not argv:
        yield "names no program"
        return
    if not _PROGRAM.fullmatch(argv[0]):
        yield f"{argv[0]!r} is no program: a plain name, or a path in a system's bin folder or under /opt"
    for word in argv:
        if _SHELL.search(word) or word != word.strip() or not word:
            yield f"{word!r} belongs to a shell line; commands run without a shell, each word as it stands"
    yield from _by_name(argv)
    yield from _by_words(argv)


def _by_words(argv: Sequence[str]) -> Iterator[str]:
    program = argv[0].rpartition("/")[2]
    for before, word in pairwise(argv):
        if _ACTION.fullmatch(word):
            yield f"{word!r} is an action, not a question"
        if word.startswith(DEVICES) and program not in ASK_DEVICES:
            yield f"{word!r} is a device: opening it can already do something"
        name, _, value = word.partition("=")
        target = value if _OUTPUT.fullmatch(name) else word if _OUTPUT.fullmatch(before) else ""
        if target.startswith(("/", "./", "../", "~")):
            yield f"{word!r} writes to a file"


def _by_name(argv: Sequence[str]) -> Iterator[str]:
    program = argv[0].rpartition("/")[2]
    told = " ".join(argv[1:])
    if program in _READING:
        if not re.fullmatch(_READING[program], told):
            yield f"{program} {told[:60]!r} is none of the ways to only read with {program}"
    elif program in _BECAUSE:
        yield f"{program} {_BECAUSE[program]}"
    elif _FAMILIES.fullmatch(program):
        yield f"{program} is a script or starts other programs; install what it does as a program of its own"
