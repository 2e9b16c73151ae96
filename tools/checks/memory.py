"""Host memory: `free -b`, the locked-memory limit of jobs, and the OOM kills that cgroups count.

               total        used        free      shared  buff/cache   available
Mem:   2164178862080 91234567890 ...
Swap:              0           0           0
/sys/fs/cgroup/system.slice/slurmstepd.scope/job_812/memory.events:oom 0
/sys/fs/cgroup/system.slice/slurmstepd.scope/job_812/memory.events:oom_kill 2
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from kb.needle_search import split_lines
from tools.checks.check_types import Check, Command, Format, Unreadable
from tools.fact import Fact, Status

# How much memory jobs may lock: the limit of a running job's processes, else of the daemon that would start the job.
#
# /proc/1187/comm:slurmd
# /proc/1187/status:Uid: 0 0 0 0
# /proc/1187/status:PPid: 1
# /proc/1187/limits:Max locked memory unlimited unlimited bytes
#
# Slurm gives a job its submitter's limits (PropagateResourceLimits), and a container may have its own, so both can differ
# from slurmd's or dockerd's. Any user can choose a process name, so only root's processes count as job starters.

MEMORY_CHECK = "mem"
LOCKED_MEMORY_KEY = "mem.memlock_kib"
# Start jobs and pass their limits on, likeliest first: on a Slurm node, jobs start the containers.
STARTER_PROCESSES = ("slurmd", "kubelet", "containerd", "dockerd")
# Their descendants are a job's and a container's processes. Kernel process names have at most 15 letters.
STEP_PROCESSES = ("slurmstepd",)
SHIM_PROCESSES = ("containerd-shim", "conmon")
WAITING_PROCESS = "srun"  # a job's leaf that only waits for remote tasks
_PROCESS_LINE_PATTERN = re.compile(
    r"/proc/(?P<pid>\d{1,10})/(?:comm:(?P<name>[a-z-]{1,15})|status:PPid:\s(?P<parent>\d{1,10})|status:Uid:\s(?P<uid>\d{1,10})\s.{0,40}"
    r"|cgroup:.{0,400}/(?P<extern>step_extern)\b.{0,200}"
    r"|limits:Max locked memory +(?P<soft>\d{1,20}|unlimited) +(?:\d{1,20}|unlimited) .{0,60})$"
)
_WANTED = (
    "Max locked memory .*",
    "PPid:.*",
    "Uid:.0[^0-9].*",
    ".*/step_extern.*",
    *STARTER_PROCESSES,
    *STEP_PROCESSES,
    *SHIM_PROCESSES,
    WAITING_PROCESS,
)
_FILES = ("(", "-name", "comm", "-o", "-name", "limits", "-o", "-name", "status", "-o", "-name", "cgroup", ")")
LIMITS_COMMAND = (
    *("find", "/proc", "-maxdepth", "2", "-path", "/proc/[0-9]*", *_FILES),
    *("-exec", "grep", "-sHx", *(word for name in _WANTED for word in ("-e", name)), "{}", "+"),
)


@dataclass(slots=True)
class _Processes:
    names: dict[str, str] = field(default_factory=dict)
    parents: dict[str, str] = field(default_factory=dict)
    limits: dict[str, tuple[str, str]] = field(default_factory=dict)
    roots: set[str] = field(default_factory=set)
    externs: set[str] = field(default_factory=set)

    def list_named(self, *names: str) -> list[str]:
        """Return root's processes with these names; all of them if the text has no parent pids."""
        return [pid for pid, name in self.names.items() if name in names and (not self.parents or pid in self.roots)]

    def iter_leaves(self, root: str) -> Iterator[str]:
        """Yield descendants without children, the working processes; none of Slurm's extern step."""
        children: dict[str, list[str]] = {}
        for pid, parent in self.parents.items():
            children.setdefault(parent, []).append(pid)
        waiting = list(children.get(root, ()))
        while waiting:
            pid = waiting.pop()
            waiting += children.get(pid, ())
            if pid not in children and pid in self.limits and pid not in self.externs and self.names.get(pid) != WAITING_PROCESS:
                yield pid


def is_process_limits(text: str) -> bool:
    return any(_PROCESS_LINE_PATTERN.match(line) for line in split_lines(text[:65536]))


def parse_process_limits(text: str) -> Sequence[Fact]:
    """Return the least soft limit of a job's processes, else of containers that agree, else of the job starter.

    Other processes, such as our session, are ignored.
    """
    processes = _parse_processes(text)
    starter_pid = next((pid for name in STARTER_PROCESSES for pid in processes.list_named(name) if pid in processes.limits), "")
    starter = f"{processes.names[starter_pid]}: {processes.limits[starter_pid][1]}" if starter_pid else ""
    job = [pid for step in processes.list_named(*STEP_PROCESSES) for pid in processes.iter_leaves(step)]
    if job:
        return [_build_least_limit_fact(processes, job, "job", starter)]
    boxed = [pid for shim in processes.list_named(*SHIM_PROCESSES) for pid in processes.iter_leaves(shim)]
    softs = {processes.limits[pid][0] for pid in boxed}
    if len(softs) > 1:
        note = f"containers here may lock different amounts ({', '.join(sorted(softs))}), and which of them a job is in is not known"
        return [Fact(MEMORY_CHECK, LOCKED_MEMORY_KEY, status=Status.ABSENT, line=note[:300])]
    if boxed:
        return [_build_least_limit_fact(processes, boxed, "container", starter)]
    if starter_pid:
        return [
            Fact(
                MEMORY_CHECK,
                LOCKED_MEMORY_KEY,
                convert_to_kib(processes.limits[starter_pid][0]),
                unit="KiB",
                line=starter[:300],
                attrs={"of": processes.names[starter_pid]},
            )
        ]
    return [
        Fact(
            MEMORY_CHECK,
            LOCKED_MEMORY_KEY,
            status=Status.ABSENT,
            line=f"no job runs here, and none of {', '.join(STARTER_PROCESSES)}, so none is started by one",
        )
    ]


def _parse_processes(text: str) -> _Processes:
    processes = _Processes()
    for row in filter(None, map(_PROCESS_LINE_PATTERN.match, split_lines(text))):
        pid = row["pid"]
        if row["name"]:
            processes.names.setdefault(pid, row["name"])
        elif row["parent"]:
            processes.parents.setdefault(pid, row["parent"])
        elif row["uid"]:
            processes.roots |= {pid} if row["uid"] == "0" else set()
        elif row["extern"]:
            processes.externs.add(pid)
        else:
            processes.limits.setdefault(pid, (row["soft"], row[0].strip()))
    return processes


def _build_least_limit_fact(seen: _Processes, pids: Sequence[str], of: str, starter: str) -> Fact:
    pid = min(pids, key=lambda pid: (convert_to_kib(seen.limits[pid][0]) < 0, convert_to_kib(seen.limits[pid][0]), int(pid)))
    soft, line = seen.limits[pid]
    description = f"{of}: {line}" + (f"; {starter}" if starter else "")
    return Fact(
        MEMORY_CHECK,
        LOCKED_MEMORY_KEY,
        convert_to_kib(soft),
        unit="KiB",
        line=description[:300],
        attrs={"of": of, "pid": int(pid), "processes": len(pids)},
    )


def convert_to_kib(soft: str) -> int:
    """Convert bytes to KiB; -1 if unlimited."""
    return -1 if soft == "unlimited" or int(soft) >= 1 << 62 else int(soft) // 1024


_EVENT_PATTERN = re.compile(r"(/sys/fs/cgroup/.{0,400}?)/?memory\.events(?:\.local)?:(oom|oom_kill|oom_group_kill) (\d{1,12})\s*$")
_PRLIMIT_PATTERN = re.compile(r"\s*(\d{1,20}|unlimited)\s+(\d{1,20}|unlimited)\s*")


def is_free(text: str) -> bool:
    return bool(re.search(r"(?m)^Mem: +\d", text[:4096]))


def parse_free(text: str) -> Sequence[Fact]:
    """Find columns by the header: older free has no `available`."""
    head = next((line.split() for line in split_lines(text) if "total" in line and "used" in line), [])
    facts: list[Fact] = []
    for line in split_lines(text):
        name, _, rest = line.partition(":")
        cells = [int(cell) for cell in rest.split() if re.fullmatch(r"[0-9]{1,18}", cell)]
        row = dict(zip(head, cells, strict=False))
        if name == "Mem" and len(cells) >= 3:
            facts += _build_memory_facts(row, line)
        elif name == "Swap" and "used" in row:
            facts.append(Fact(MEMORY_CHECK, "mem.swap_used_bytes", row["used"], unit="B", line=line))
    if not facts:
        raise Unreadable("a row of memory without its head")
    return facts


def _build_memory_facts(row: dict[str, int], line: str) -> list[Fact]:
    keys = {"total": "mem.total_bytes", "available": "mem.available_bytes"}
    return [Fact(MEMORY_CHECK, key, row[name], unit="B", line=line) for name, key in keys.items() if name in row]


def is_prlimit(text: str) -> bool:
    return _PRLIMIT_PATTERN.fullmatch(text) is not None


def parse_prlimit(text: str) -> Sequence[Fact]:
    """Parse `65536 65536` in bytes, or `unlimited`. The soft limit counts: nothing raises it for a job."""
    value = convert_to_kib(text.split()[0])
    return [Fact(MEMORY_CHECK, LOCKED_MEMORY_KEY, value, unit="KiB", line=f"memlock {text.strip()}")]


def is_events(text: str) -> bool:
    return any(_EVENT_PATTERN.match(line) for line in split_lines(text[:4096])[:5])


def parse_events(text: str) -> Sequence[Fact]:
    """Return the OOM kills of all cgroups. Only topmost groups are added, as counts include children; the deepest is
    named.

    `oom` counts how often a group reached its own limit. Kills without it mean that the host's memory was used up.
    """
    rows = [row for row in map(_EVENT_PATTERN.match, split_lines(text)) if row]
    counts = {row[1]: int(row[3]) for row in rows if row[2] == "oom_kill"}
    limits = {row[1]: int(row[3]) for row in rows if row[2] == "oom"}
    if not counts:
        raise Unreadable("no count of kills")
    top = [path for path in counts if not any(parent in counts for parent in _list_parent_groups(path))]
    total = sum(counts[path] for path in top)
    worst = max(counts, key=lambda path: (counts[path], path.count("/")))
    attrs = {"cgroup": worst.removeprefix("/sys/fs/cgroup"), "groups": sum(count > 0 for count in counts.values())} if total else {}
    if total and limits:
        attrs["limit"] = any(limits.get(path) for path in [worst, *_list_parent_groups(worst)[2:]])
    return [Fact(MEMORY_CHECK, "mem.oom_kills", total, line=f"{worst}: oom_kill {counts[worst]}"[:300], attrs=attrs)]


def _list_parent_groups(path: str) -> list[str]:
    """Outermost first."""
    parts = path.split("/")
    return ["/".join(parts[:size]) for size in range(4, len(parts))]


CHECKS = (
    Check(
        id=MEMORY_CHECK,
        asks="Is memory short, was a process killed for it, how much may jobs lock?",
        commands=(
            Command("free", ("free", "-b")),
            Command("limits", LIMITS_COMMAND, optional=True),
            Command("events", ("grep", "-rs", "--include=memory.events", "-H", "oom", "/sys/fs/cgroup"), optional=True),
        ),
        formats=(
            Format("free", is_free, parse_free),
            Format("prlimit", is_prlimit, parse_prlimit),
            Format("limits of processes", is_process_limits, parse_process_limits),
            Format("memory.events", is_events, parse_events),
        ),
        establishes=("mem.total_bytes", "mem.available_bytes", "mem.swap_used_bytes", "mem.memlock_kib", "mem.oom_kills"),
        seconds=1.0,
    ),
)
