"""The commands a simulated node knows: the argv of every check and precondition, matched whole, and the node kit's own
commands. The caller refuses and counts anything else.
"""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tools.checks import job_log_owners
from tools.checks.baseline.rows import PROBE as BASELINE
from tools.checks.exclusive import cuda, nccl_pairs, step
from tools.checks.kernel import KERNEL_GREP_PATTERN
from tools.checks.storage import SHARED_FILE_SYSTEMS
from tools.checks.versions import PROBE
from tools.ssh.batch import BATCH_SCRIPT

KIT_LOOK = ("sudo", "-n", "/usr/local/sbin/rackmedic-look")
KIT_ACT = ("sudo", "-n", "/usr/local/sbin/rackmedic-act")

# the site's services as the simulated inventory names them
SITE_SERVICES: Mapping[str, str] = {"object_store": "https://objects.svc.cluster/shards", "tracker": "https://tracker.svc.cluster/"}

_SLOT_PATTERNS = {name: re.escape(address) for name, address in SITE_SERVICES.items()} | {
    "gpus": r"[1-9][0-9]?",
    "job_logs": r"/[A-Za-z0-9._/-]+",
    "nccl_tests": r"/?[A-Za-z0-9._/-]+",
    "gpu_burn": r"/[A-Za-z0-9._/-]+",
    "hca": r"[a-z][a-z0-9_]*",
    "gpu": r"[0-9]{1,2}",
    "peer": r"[A-Za-z0-9.-]+",
    "hosts": r"[A-Za-z0-9.-]+:[0-9]+(,[A-Za-z0-9.-]+:[0-9]+)*",
    "nodes": r"[A-Za-z0-9.-]+(,[A-Za-z0-9.-]+)*",
    "ranks": r"[0-9]+",
    "count": r"[0-9]",
    "bdf": r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]",
    "watts": r"[0-9]+(\.[0-9]+)?",
    "signal": r"TERM|KILL",
    "module": r"nvidia[a-z_-]*|gdrdrv",
    "unit": r"nvidia-(dcgm|persistenced|fabricmanager)|docker|chronyd?",
    "verb": r"start|stop|restart",
    "instances": r"-dci|-dgi",
    "container": r"[0-9a-f]{64}",
    "older_than": r"\+[1-9][0-9]{3,4}",
    "hours": r"[1-9][0-9]{1,2}",
    "pid": r"[0-9]{1,10}",
    "node": r"[A-Za-z0-9][A-Za-z0-9._-]*",
    "job": r"[0-9]+(_[0-9]+)?",
    "reason": r"[A-Za-z0-9:._-]+",
    "format": r"(%[A-Za-z]|[ |,;:=])+",
}

_JOURNAL_UNITS = ("nvidia-fabricmanager", "nvidia-persistenced", "docker", "openibd", "slurmd", "unattended-upgrades", "apt-daily-upgrade")
_UNITS = tuple(
    f"{unit}.service"
    for unit in (
        *("nvidia-fabricmanager", "nvidia-persistenced", "nvidia-dcgm", "docker", "openibd", "chronyd", "chrony", "slurmd"),
        *("munge", "containerd", "crio", "kubelet", "sssd", "nvidia-imex", "slurmctld", "slurmdbd", "autofs", "systemd-resolved"),
        *("systemd-timesyncd", "ntpd", "ntpsec", "opensm", "beegfs-client", "weka-agent", "gpfs"),
    )
)
_UNIT_FIELDS = "Id,LoadState,ActiveState,SubState,Result,ExecMainStatus,UnitFileState,FreezerState,NRestarts,ConditionResult"
_COUNTER_FILES = ("(", "-path", "*/counters/*", "-o", "-path", "*/hw_counters/*", "-o", "-path", "*/pkeys/*", ")")


def _split_words(line: str) -> tuple[str, ...]:
    return tuple(line.split())


_KERNEL_JOURNAL = ("journalctl", "-o", "json", "--output-fields=MESSAGE,_BOOT_ID,PRIORITY,SYSLOG_IDENTIFIER,SYSLOG_FACILITY", "--no-pager")
_NEWEST_FIRST_OPTIONS = ("--reverse", "--case-sensitive=true", f"--grep={KERNEL_GREP_PATTERN}", "_TRANSPORT=kernel")
_ALL_GATHER = _split_words("<nccl_tests>/all_gather_perf -b 1G -e 1G -g 1 -c 1 -n 20")

_KUBE_NODE = _split_words("kubectl get node <node> -o")
_KUBE_PODS = (*_split_words("kubectl get pods --all-namespaces --no-headers --field-selector"),
              "spec.nodeName=<node>,status.phase!=Succeeded,status.phase!=Failed", "-o")  # fmt: skip
_KUBE_MARK = '{{ with .metadata.annotations }}{{ with index . "rackmedic/drained" }}'

# commands any user may run; `<slot>` is a value from the inventory
UNPRIVILEGED_COMMANDS: Mapping[str, tuple[str, ...]] = {
    "smi.query": _split_words("nvidia-smi -q -x"),
    "topo.matrix": _split_words("nvidia-smi topo -m"),
    "nvlink.status": _split_words("nvidia-smi nvlink -s"),
    "nvlink.errors": _split_words("nvidia-smi nvlink -e"),
    "dmesg.boot": _split_words("cat /proc/sys/kernel/random/boot_id"),
    "ibstat.ports": ("ibstat",),
    "ibstat.counters": ("find", "-L", "/sys/class/infiniband", "-maxdepth", "5", "-type", "f", *_COUNTER_FILES, "-exec", "grep", "-H", ".", "{}", "+"),
    "ibstat.addresses": _split_words("ls -l /sys/class/infiniband"),
    "sysd.units": ("systemctl", "show", "--no-pager", "-p", _UNIT_FIELDS, *_UNITS),
    "mods.loaded": ("lsmod",),
    "mods.module": _split_words("cat /proc/driver/nvidia/version"),
    "mods.installed": _split_words("modinfo -F version nvidia"),
    "mods.dkms": _split_words("dkms status"),
    "mods.kernel": _split_words("uname -r"),
    "mods.manager": _split_words("nv-fabricmanager --version"),
    "disk.space": (*_split_words("df -P -T -B1"), *(f"-x{kind}" for kind in SHARED_FILE_SYSTEMS)),
    "disk.inodes": (*_split_words("df -P -i"), *(f"-x{kind}" for kind in SHARED_FILE_SYSTEMS)),
    "disk.shared": (*_split_words("timeout -k 1 4 df -B1 --output=source,fstype,ipcent,size,avail,pcent,target"), *(f"-t{kind}" for kind in SHARED_FILE_SYSTEMS)),
    "disk.mounts": _split_words("findmnt -J -o TARGET,SOURCE,FSTYPE,OPTIONS"),
    "mem.free": _split_words("free -b"),
    "mem.limits": (*_split_words("find /proc -maxdepth 2 -path /proc/[0-9]* ( -name comm -o -name limits -o -name status -o -name cgroup )"),
                   *_split_words("-exec grep -sHx -e"), "Max locked memory .*", *_split_words("-e PPid:.* -e Uid:.0[^0-9].* -e .*/step_extern.*"),
                   *_split_words("-e slurmd -e kubelet -e containerd -e dockerd -e slurmstepd -e containerd-shim -e conmon -e srun {} +")),
    "mem.events": _split_words("grep -rs --include=memory.events -H oom /sys/fs/cgroup"),
    "joblog.tail": ("python3", "-c", job_log_owners.PROBE, "<job_logs>"),
    "procs.gpus": _split_words("nvidia-smi --query-compute-apps=gpu_bus_id,pid,process_name,used_memory --format=csv,noheader,nounits"),
    "procs.list": _split_words("ps -ww -eo pid,ppid,user:32,stat,etimes,pcpu,cgroup:160,comm:32,args"),
    "vers.host": ("python3", "-c", PROBE),
    "base.host": ("python3", "-c", BASELINE),
    "cpu.cores": _split_words("lscpu -J"),
    "cpu.frequencies": _split_words("grep -rsH --include=scaling_governor --include=scaling_driver --include=scaling_cur_freq . /sys/devices/system/cpu/cpufreq"),
    "time.tracking": _split_words("chronyc -c -n tracking"),
    "time.sync": _split_words("timedatectl show -p NTP -p NTPSynchronized"),
    "time.clock": _split_words("date -u +%s.%N"),
    "net.links": _split_words("ip -j -s -d link show"),
    "net.tracker": _split_words("curl -q -sS -I --proto =http,https --max-redirs 0 --connect-timeout 3 --max-time 5 <tracker>"),
    "store.object": _split_words("curl -q -sS -I --proto =http,https --max-redirs 0 --connect-timeout 3 --max-time 5 <object_store>"),
    "sched.shown": _split_words("scontrol -o show node <node>"),
    "sched.ended": _split_words("sacct -n -P -X -N <node> -S now-1days -o JobID,State,ExitCode,Start,End"),
    "sched.running": _split_words("squeue -h -w <node> -o %A,%T,%u"),
    "sched.kubenode": _split_words("kubectl get node <node> -o json"),
    "sched.kubepods": (*_KUBE_PODS, ("custom-columns=OWNER:.metadata.ownerReferences[*].kind,NAMESPACE:.metadata.namespace,POD:.metadata.name,"
                        "GPUS:.spec.containers[*].resources.limits.nvidia\\.com/gpu")),
    "cuda.run": ("python3", "-c", cuda.PROBE),
    "bw.run": _split_words("nvbandwidth -t host_to_device_memcpy_ce device_to_host_memcpy_ce -j"),
    "p2p.run": _split_words("nvbandwidth -t device_to_device_memcpy_read_ce -j"),
    "gemm.run": _split_words("<gpu_burn>/gpu_burn -tc -stts 3 -c <gpu_burn>/compare.ptx 30"),
    "dcgm1.run": _split_words("dcgmi diag -r 1 -j"),
    "dcgm2.run": _split_words("dcgmi diag -r 2 -j"),
    "sdc.products": _split_words("<gpu_burn>/gpu_burn -tc -stts 3 -c <gpu_burn>/compare.ptx 120"),
    "sdc.sums": _split_words("<nccl_tests>/all_reduce_perf -b 1G -e 1G -g <gpus> -c 1 -n 100"),
    "e2e.run": ("python3", "-c", step.PROBE),
    "ibbw.serve": _split_words("ib_write_bw -d <hca> --report_gbits -F -D 2"),
    "ibbw.write": _split_words("ib_write_bw -d <hca> --report_gbits -F -D 2 <peer>"),
    "ibbw.servecuda": _split_words("ib_write_bw -d <hca> --report_gbits -F -D 2 --use_cuda=<gpu>"),
    "ibbw.writecuda": _split_words("ib_write_bw -d <hca> --report_gbits -F -D 2 --use_cuda=<gpu> <peer>"),
    "nccl2.mpi": ("mpirun", "--host", "<hosts>", "-np", "<ranks>", "--bind-to", "none", "-x", "LD_LIBRARY_PATH", *_ALL_GATHER),
    "nccl2.srun": (*_split_words("srun --nodes=<count> --nodelist=<nodes> --ntasks-per-node=<gpus> --gpus-per-node=<gpus>"),
                   *_split_words("--exclusive --immediate=30 --time=3 --mpi=pmix"), *_ALL_GATHER),
    "nccl2.torchrun": (*_split_words("torchrun --nnodes=<count> --nproc-per-node=<gpus> --rdzv-backend=c10d --rdzv-endpoint=<peer>:29577"),
                       *_split_words("--rdzv-conf=timeout=45 --no-python python3 -c"), nccl_pairs.PROBE),
    "nccl1.run": _split_words("<nccl_tests>/all_reduce_perf -b 512M -e 8G -f 2 -g <gpus> -c 1"),
}  # fmt: skip

# commands that need root; on a node with the kit they run as `sudo -n rackmedic-look NAME`
PRIVILEGED_COMMANDS: Mapping[str, tuple[str, ...]] = {
    "dmesg.ring": _split_words("dmesg --decode --time-format iso"),
    "dmesg.journal": (*_KERNEL_JOURNAL, "--since=-24h", "-p", "warning", "_TRANSPORT=kernel"),
    "dmesg.newest": (*_KERNEL_JOURNAL, "--boot", *_NEWEST_FIRST_OPTIONS),
    "dmesg.recent": (*_KERNEL_JOURNAL, "--since=-24h", "-p", "warning", *_NEWEST_FIRST_OPTIONS),
    "lspci.gpus": _split_words("lspci -D -vvv -d 10de:"),
    "lspci.bridges": _split_words("lspci -D -vvv -d ::0604"),
    "sysd.journal": ("journalctl", "-o", "json", "--output-fields=MESSAGE,_SYSTEMD_UNIT,SYSLOG_IDENTIFIER,PRIORITY", "--no-pager", "--since=-24h",
                     "-n", "400", *(word for unit in _JOURNAL_UNITS for word in ("-u", unit))),
    "env.job": _split_words("rackmedic-look env"),
    "docker.info": (*_split_words("docker info --format"), "{{json .}}"),
    "docker.list": (*_split_words("docker ps --no-trunc --format"), "{{json .}}"),
    "docker.inspected": _split_words("rackmedic-look containers"),
    "docker.devices": _split_words("rackmedic-look inside nvidia-smi -L"),
    "vers.images": ("rackmedic-look", "inside", "python3", "-c", PROBE),
    "net.adapters": _split_words("rackmedic-look adapters"),
    "net.master": _split_words("rackmedic-look masters"),
    "fabric.manager": ("sminfo",),
    "fabric.links": _split_words("iblinkinfo -l -n 2"),
    "store.mounts": _split_words("rackmedic-look mounts"),
    "ipmi.events": _split_words("ipmitool sel elist last 200"),
    "ipmi.temperatures": _split_words("ipmitool sdr type Temperature"),
    "ipmi.fans": _split_words("ipmitool sdr type Fan"),
    "ipmi.power": ("ipmitool", "sdr", "type", "Power Supply"),
}  # fmt: skip

# commands that preconditions and proposals of remedies read
PRECONDITION_COMMANDS: Mapping[str, tuple[str, ...]] = {
    "sched.node": _split_words("sinfo -h -N -n <node> -o <format>"),
    "sched.standing": _split_words("sinfo -h -N -n <node> -O StateLong:20,StateComplete:80"),
    "sched.nodes": _split_words("sinfo -h -n <node> -o <format>"),
    "sched.job": _split_words("squeue -h -j <job> -o <format>"),
    "sched.tasks": _split_words("squeue -h -r -j <job> -o <format>"),
    "sched.jobs": _split_words("squeue -h -w <node> -o <format>"),
    "sched.show_node": _split_words("scontrol show node <node>"),
    "sched.show_job": _split_words("scontrol show job <job>"),
    "sched.accounted": _split_words("sacct -n -P -X -a -j <job> -o JobID,State,NodeList"),
    "sched.kube_standing": (
        *_KUBE_NODE,
        (
            "go-template={{ if .spec.unschedulable }}cordoned{{ else }}schedulable{{ end }}"
            f"{_KUBE_MARK} by {{{{ . }}}}{{{{ end }}}}{{{{ end }}}}"
        ),
    ),
    "sched.kube_mark": (*_KUBE_NODE, f"go-template={_KUBE_MARK}{{{{ . }}}}{{{{ end }}}}{{{{ end }}}}"),
    "sched.kube_owners": (
        *_KUBE_PODS,
        "custom-columns=OWNER:.metadata.ownerReferences[*].kind,NAMESPACE:.metadata.namespace,POD:.metadata.name",
    ),
    "procs.stat": _split_words("cat /proc/<pid>/stat"),
    "procs.users": _split_words("nvidia-smi --query-compute-apps=pid --format=csv,noheader"),
    "procs.users_of": _split_words("nvidia-smi --query-compute-apps=pid --format=csv,noheader -i <bdf>"),
    "mods.table": _split_words("cat /proc/modules"),
    "disk.root": _split_words("df --output=pcent,ipcent /"),
    "ipmi.status": _split_words("ipmitool chassis power status"),
}

# previews of a remedy's effect: run through the kit only, with the remedy's arguments
PREVIEW_COMMANDS: Mapping[str, tuple[str, ...]] = {"cleanup.preview": ("<hours>",)}

COMMANDS = (*UNPRIVILEGED_COMMANDS, *PRIVILEGED_COMMANDS)


@dataclass(frozen=True, slots=True)
class KnownCommand:
    """A recognised command. `as_root`: it came through the kit. `slots`: its arguments."""

    name: str
    as_root: bool = False
    slots: Mapping[str, str] = field(default_factory=dict)

    @property
    def check(self) -> str:
        return self.name.partition(".")[0]


_PATH_WRAPPER_PATTERN = re.compile(r'export PATH="\$PATH(?::/[a-z/]+)+"; exec "\$@"')  # a wrapper that only extends PATH


def recognise_command(argv: Sequence[str]) -> KnownCommand | None:
    """Return the known command of an argv, or None."""
    words = tuple(argv)
    if words[:3] == KIT_LOOK and words[3:4] and words[3] in PREVIEW_COMMANDS:
        slots = match_template(PREVIEW_COMMANDS[words[3]], words[4:])
        return None if slots is None else KnownCommand(words[3], True, slots)
    if words[:3] == KIT_LOOK:
        return KnownCommand(words[3], True) if len(words) == 4 and words[3] in PRIVILEGED_COMMANDS else None
    for name, template in (*UNPRIVILEGED_COMMANDS.items(), *PRIVILEGED_COMMANDS.items(), *PRECONDITION_COMMANDS.items()):
        slots = match_template(template, words)
        if slots is not None:
            return KnownCommand(name, False, slots)
    return None


def unwrap_command(command: str) -> tuple[tuple[str, ...], float | None]:
    """Return the argv of a command line and the limit of its `timeout -k N M sh -c 'export PATH=…; exec "$@"' sh`
    wrapper. The argv is empty if the line cannot be split.
    """
    try:
        words = tuple(shlex.split(command))
    except ValueError:
        return (), None
    if words[:2] == ("timeout", "-k") and len(words) > 4 and re.fullmatch(r"[0-9.]+", words[3]):
        with_path = words[4:6] == ("sh", "-c") and words[7:8] == ("sh",) and _PATH_WRAPPER_PATTERN.fullmatch(words[6])
        return words[8 if with_path else 4 :], float(words[3])
    return words, None


@dataclass(frozen=True, slots=True)
class TimedCommand:
    """One command of a batch: its output limit in bytes and time limit in seconds."""

    max_bytes: int
    limit: float
    argv: tuple[str, ...]


def parse_batch(command: str) -> tuple[TimedCommand, ...]:
    """Return the commands of a batch script's command line; empty for any other line."""
    try:
        words = shlex.split(command)
        if words[:4] != ["sh", "-c", BATCH_SCRIPT, "sh"]:
            return ()
        rows = [shlex.split(word) for word in words[4:]]
        return tuple(TimedCommand(int(max_bytes), float(limit), tuple(argv)) for max_bytes, limit, *argv in rows)
    except ValueError:
        return ()


KIT_COMMANDS: Mapping[tuple[str, ...], tuple[str, ...]] = {KIT_ACT: ("start", "settle", "version"), KIT_LOOK: ("version",)}


def get_kit_words(argv: Sequence[str]) -> tuple[str, ...]:
    """Return the node kit's script and its arguments, or () if the argv runs something else."""
    script, words = tuple(argv[:3]), tuple(argv[3:])
    kit_commands = KIT_COMMANDS.get(script, ())
    return (script[2].rpartition("/")[2], *words) if words[:1] and words[0] in kit_commands else ()


def match_template(template: tuple[str, ...], words: Sequence[str]) -> Mapping[str, str] | None:
    """Return the slot values if the words match the template, else None."""
    if len(template) != len(words):
        return None
    slots: dict[str, str] = {}
    for expected, word in zip(template, words, strict=True):
        if expected == word:
            continue
        pattern = re.sub(r"<([a-z_]+)>", lambda found: f"(?P<{found[1]}>{_SLOT_PATTERNS[found[1]]})", expected) if "<" in expected else None
        found = re.fullmatch(pattern, word) if pattern else None
        if found is None or ".." in word:
            return None
        slots |= found.groupdict()
    return slots
