"""How much memory jobs may lock: the limit of a running job's processes, else of the daemon that would start the job.

/proc/1187/comm:slurmd
/proc/1187/status:Uid: 0 0 0 0
/proc/1187/status:PPid: 1
/proc/1187/limits:Max locked memory unlimited unlimited bytes

Slurm gives a job its submitter's limits (PropagateResourceLimits), and a container may have its own, so both can differ
from slurmd's or dockerd's. Any user can choose a process name, so only root's processes count as job starters.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from kb.needle_search import split_lines
from tools.fact import Fact, Status

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
    for match in filter(None, map(_PROCESS_LINE_PATTERN.match, split_lines(text))):
        pid = match["pid"]
        if match["name"]:
            processes.names.setdefault(pid, match["name"])
        elif match["parent"]:
            processes.parents.setdefault(pid, match["parent"])
        elif match["uid"]:
            processes.roots |= {pid} if match["uid"] == "0" else set()
        elif match["extern"]:
            processes.externs.add(pid)
        else:
            processes.limits.setdefault(pid, (match["soft"], match[0].strip()))
    return processes


def _build_least_limit_fact(processes: _Processes, pids: Sequence[str], of: str, starter: str) -> Fact:
    pid = min(pids, key=lambda pid: (convert_to_kib(processes.limits[pid][0]) < 0, convert_to_kib(processes.limits[pid][0]), int(pid)))
    soft, line = processes.limits[pid]
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
