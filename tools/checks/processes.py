"""Processes on the GPUs and stuck processes: `nvidia-smi --query-compute-apps` joined with `ps`.

    00000000:9B:00.0, 41233, python3, 61234
        PID    PPID USER     STAT ELAPSED %CPU CGROUP                                          COMMAND  COMMAND
      41233       1 alice    Sl     90113 98.7 0::/user.slice/user-1000.slice/session-5.scope  python3  python3 train.py

A process is an orphan if its parent is gone and no service or running job holds it, if it is a zombie, or if the driver
lists it and the kernel does not. Names and arguments are tenant text: low trust.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from kb.needle_search import split_lines
from kb.pci_address import normalize_bdf
from kb.redact import redact
from tools.checks.check_types import Check, Command, Format
from tools.checks.output_values import parse_number
from tools.fact import Fact, Status

CHECK = "procs"
_APP_PATTERN = re.compile(
    r"([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.\d), *(\d{1,10}), *(.{0,300}?), *(\d{1,9}|\[?N/A\]?|\[[A-Za-z ]+\])(?: MiB)?\s*$"
)
_PROCESS_PATTERN = re.compile(r" *(\d{1,10}) +(\d{1,10}) (\S{1,64}) +([A-Z][A-Za-z<+]{0,9}) +(\d{1,12}) +([\d.]{1,9}) +(\S{1,300}) +(.*)$")
_HEAD_PATTERN = re.compile(r"\s*PID +PPID +USER +STAT +ELAPSED +%CPU +CGROUP +COMMAND")
_JOB_PATTERN = re.compile(
    r"(?:^|/)job_(\d{1,12})(?:/|$)|kubepods|docker-[0-9a-f]{12}|/docker/[0-9a-f]{12}|libpod|cri-containerd|slurm/uid_\d+/job_(\d{1,12})"
)
_SERVICE_PATTERN = re.compile(r"/system\.slice/(?:[^/]{1,100}/)?([^/]{1,100})\.service")
_PS_COMMAND = "ps -ww -eo pid,ppid,user:32,stat,etimes,pcpu,cgroup:160,comm:32,args"
_SESSION_DAEMONS = ("sshd", "sshd-session")
_USER_SESSION_SERVICES = ("ssh", "sshd", "cron", "crond", "atd")  # run users' own programs, which the users may stop
_COMM_CHARS = 32
_MAX_ARGS_CHARS = 300
_PROCESSES_ATTR = "rows"  # the listed processes by pid; removed before the facts leave this check


class Process(NamedTuple):
    """One row of ps."""

    ppid: int
    user: str
    state: str
    cgroup: str
    comm: str
    seconds: int = 0  # run time
    args: str = ""  # command line, cut; tenant text

    @property
    def job(self) -> str:
        """Slurm job id or `container`; empty outside both."""
        match = _JOB_PATTERN.search(self.cgroup)
        return (match[1] or match[2] or "container") if match else ""


def is_gpu_apps(text: str) -> bool:
    lines = [line for line in split_lines(text) if line.strip()]
    return bool(lines) and (lines[0].startswith("No running") or any(_APP_PATTERN.match(line) for line in lines[:3]))


def parse_gpu_apps(text: str) -> Sequence[Fact]:
    """Return the memory of each process on each GPU. It is absent if the driver prints no amount."""
    facts = []
    for line in split_lines(text):
        if app := _APP_PATTERN.match(line):
            memory = parse_number(app[4])
            status = Status.OK if memory is not None else Status.ABSENT
            attrs = {"pid": int(app[2]), "name": app[3][:100]}
            value = None if memory is None else int(memory)
            facts.append(Fact(CHECK, "proc.gpu_memory", value, normalize_bdf(app[1]), status, "MiB", line.strip()[:300], attrs))
    return facts or [Fact(CHECK, "proc.gpu_memory", status=Status.ABSENT, line="no process uses a GPU")]


def is_process_list(text: str) -> bool:
    return bool(_HEAD_PATTERN.match(text))


def parse_process_list(text: str) -> Sequence[Fact]:
    """Return blocked and stopped processes, busy kernel threads, and the process list for `join_gpu_processes`."""
    facts: list[Fact] = []
    processes: dict[int, Process] = {}
    count = 0
    for line in split_lines(text)[1:]:
        match = _PROCESS_PATTERN.match(line)
        if not match:
            continue
        count += 1
        comm, args = _split_command(match[8])
        is_kernel_thread = args.startswith("[") and match[2] in ("0", "2")
        facts += _build_stuck_facts(match, comm, args, is_kernel_thread) or _build_stopped_facts(match, comm, args)
        if not is_kernel_thread:
            pid, ppid, user, state, seconds, cgroup = int(match[1]), int(match[2]), match[3], match[4], int(match[5]), match[7]
            processes[pid] = Process(ppid, user, state, cgroup[:300], comm, seconds, args[:_MAX_ARGS_CHARS])
    own_pids = _find_own_processes(processes)
    facts = [fact for fact in facts if fact.attrs["pid"] not in own_pids]
    reported_keys = {fact.key for fact in facts}
    for key in ("proc.blocked", "proc.busy_kernel"):
        if key not in reported_keys:
            facts.append(Fact(CHECK, key, status=Status.ABSENT, line="none is listed"))
    list_attrs = {_PROCESSES_ATTR: {str(pid): list(process) for pid, process in processes.items()}}
    return [*facts, Fact(CHECK, "proc.listed", count, line=f"{count} processes", attrs=list_attrs)]


def _find_own_processes(processes: Mapping[int, Process]) -> frozenset[int]:
    """Return the pids that RackMedic's own checks started: all processes below the session daemon of its connection.

    These include the processes of checks that run in parallel. Without a session daemon only the ps process is ours.
    """
    children: dict[int, list[int]] = {}
    for pid, process in processes.items():
        children.setdefault(process.ppid, []).append(pid)
    own_pids = {pid for pid, process in processes.items() if process.args == _PS_COMMAND}
    pending_pids = [_find_session_daemon(pid, processes) for pid in own_pids]
    while pending_pids:
        pid = pending_pids.pop()
        pending_pids += [child for child in children.get(pid, ()) if child not in own_pids]
        own_pids.add(pid)
    return frozenset(own_pids)


def _find_session_daemon(pid: int, processes: Mapping[int, Process]) -> int:
    """Return the nearest sshd ancestor (`sshd-session` since OpenSSH 9.8), else the process."""
    ancestor, visited = pid, {pid}
    while (process := processes.get(ancestor)) and process.ppid in processes and process.ppid not in visited:
        ancestor = process.ppid
        visited.add(ancestor)
        if processes[ancestor].comm in _SESSION_DAEMONS:
            return ancestor
    return pid


def _split_command(text: str) -> tuple[str, str]:
    """Split name and arguments: ps pads the name to 32 characters, and it may contain blanks."""
    if len(text) > _COMM_CHARS and text[_COMM_CHARS] == " ":
        return text[:_COMM_CHARS].strip(), text[_COMM_CHARS + 1 :].strip()
    comm, _, args = text.partition(" ")
    return comm, args.strip()


def _build_stuck_facts(match: re.Match[str], comm: str, args: str, is_kernel_thread: bool) -> list[Fact]:
    """Report a process that is blocked in the kernel, or a kernel thread that keeps a core busy."""
    line = f"{match[1]} {match[4]} {match[6]}% {args or comm}"[:300]
    attrs = {"pid": int(match[1]), "user": match[3], "seconds": int(match[5])}
    if match[4].startswith("D") and not is_kernel_thread:
        return [Fact(CHECK, "proc.blocked", comm, line=line, attrs=attrs)]
    cpu_percent = parse_number(match[6])
    if is_kernel_thread and (cpu_percent or 0) >= 90:
        return [Fact(CHECK, "proc.busy_kernel", comm, line=line, attrs={**attrs, "cpu": cpu_percent})]
    return []


def _build_stopped_facts(match: re.Match[str], comm: str, args: str) -> list[Fact]:
    """Report a stopped process of a service or job: its callers wait forever, and systemd calls the unit active."""
    if not match[4].startswith("T"):
        return []
    job = Process(0, match[3], match[4], match[7], comm).job
    service = _SERVICE_PATTERN.search(match[7])
    unit = "" if job or service is None or service[1] in _USER_SESSION_SERVICES else service[1]
    if not (job or unit):
        return []
    owner = {"job": job} if job else {"unit": unit}
    attrs = {"pid": int(match[1]), "user": match[3], "seconds": int(match[5]), **owner}
    return [Fact(CHECK, "proc.stopped", comm, line=f"{match[1]} {match[4]} {args or comm}"[:300], attrs=attrs)]


def join_gpu_processes(facts: Sequence[Fact]) -> Sequence[Fact]:
    """Add parent, user and job to the GPU processes and report orphans. Without ps output return the facts unchanged."""
    list_fact = next((fact for fact in facts if fact.key == "proc.listed" and _PROCESSES_ATTR in fact.attrs), None)
    if list_fact is None:
        return facts
    processes = {int(pid): Process(*columns) for pid, columns in list_fact.attrs[_PROCESSES_ATTR].items()}
    live_jobs, own_pids = _find_live_jobs(processes), _find_own_processes(processes)
    joined_facts: list[Fact] = []
    orphan_facts: list[Fact] = []
    for fact in facts:
        if fact is list_fact:
            joined_facts.append(replace(fact, attrs={}))
            continue
        if fact.key != "proc.gpu_memory":
            joined_facts.append(fact)
            continue
        memory_fact = fact if fact.status is Status.UNREADABLE else _add_process_attrs(fact, processes)
        joined_facts.append(memory_fact)
        if orphan_fact := _build_orphan_fact(memory_fact, processes, live_jobs, own_pids):
            orphan_facts.append(orphan_fact)
    if not orphan_facts and not any(fact.status.blind for fact in facts):
        line = "every GPU process belongs to a job or service"
        orphan_facts = [replace(list_fact, key="proc.orphan", value=None, status=Status.ABSENT, unit="MiB", line=line, attrs={})]
    return [*joined_facts, *orphan_facts]


def _add_process_attrs(fact: Fact, processes: Mapping[int, Process]) -> Fact:
    process = processes.get(int(fact.attrs.get("pid", -1)))
    if process is None:
        return fact
    own = {"ppid": process.ppid, "user": process.user, "job": process.job, "state": process.state, "seconds": process.seconds}
    own |= {"args": redact(process.args)} if process.args else {}
    return replace(fact, attrs={**fact.attrs, **own})


def _build_orphan_fact(fact: Fact, processes: Mapping[int, Process], live_jobs: frozenset[str], own_pids: frozenset[int]) -> Fact | None:
    if fact.status is not Status.OK or "pid" not in fact.attrs or int(fact.attrs["pid"]) in own_pids:
        return None
    explanation = _explain_orphan(processes.get(int(fact.attrs["pid"])), live_jobs)
    return replace(fact, key="proc.orphan", attrs={**fact.attrs, "why": explanation}) if explanation else None


def _explain_orphan(process: Process | None, live_jobs: frozenset[str]) -> str:
    """Return why the process is an orphan; an empty text if it is none."""
    if process is None:
        return "the process is gone, its memory is not"
    if process.state.startswith("Z") or "<defunct>" in process.comm:
        return "a zombie"
    if process.ppid != 1 or _SERVICE_PATTERN.search(process.cgroup):
        return ""
    if not process.job:
        return "its parent is gone and no job holds it"
    if process.job == "container" or process.job in live_jobs:
        return ""
    return f"its parent is gone, and nothing of job {process.job} supervises it"


def _find_live_jobs(processes: Mapping[int, Process]) -> frozenset[str]:
    """Return the jobs that something still supervises.

    That is a Slurm step daemon, or a parent other than pid 1 that is unknown or outside the job.
    """

    def is_supervised(process: Process) -> bool:
        if process.comm.startswith("slurmstepd"):
            return True
        parent = processes.get(process.ppid)
        return process.ppid != 1 and (parent is None or parent.job != process.job)

    return frozenset(process.job for process in processes.values() if process.job and is_supervised(process))


_COMPUTE_APPS_COMMAND = "nvidia-smi --query-compute-apps=gpu_bus_id,pid,process_name,used_memory --format=csv,noheader,nounits"

CHECKS = (
    Check(
        id=CHECK,
        asks="Which processes hold GPU memory, do they belong to a running job, is one stuck in the kernel?",
        commands=(Command("gpus", tuple(_COMPUTE_APPS_COMMAND.split()), optional=True), Command("list", tuple(_PS_COMMAND.split()))),
        formats=(Format("compute apps", is_gpu_apps, parse_gpu_apps), Format("ps", is_process_list, parse_process_list)),
        establishes=("proc.gpu_memory", "proc.orphan", "proc.blocked", "proc.stopped", "proc.busy_kernel", "proc.listed"),
        seconds=2.0,
        damage="ignore",
        settle=join_gpu_processes,
    ),
)
