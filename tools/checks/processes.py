"""Processes on the GPUs and stuck processes: `nvidia-smi --query-compute-apps` joined with `ps`.

    00000000:9B:00.0, 41233, python3, 61234
        PID    PPID USER     STAT ELAPSED %CPU CGROUP                                          COMMAND  COMMAND
      41233       1 alice    Sl     90113 98.7 0::/user.slice/user-1000.slice/session-5.scope  python3  python3 train.py

A process is an orphan if its parent is gone and no service or running job holds it, if it is a zombie, or if the driver
lists it and the kernel does not. Names and arguments are tenant text: low trust.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
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
_ROW_PATTERN = re.compile(r" *(\d{1,10}) +(\d{1,10}) (\S{1,64}) +([A-Z][A-Za-z<+]{0,9}) +(\d{1,12}) +([\d.]{1,9}) +(\S{1,300}) +(.*)$")
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
_ROWS_ATTR = "rows"


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
    """Return memory per process and GPU, absent if the driver gives no amount."""
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
    """Return blocked and stopped processes, busy kernel threads, and rows for `join_gpu_processes`."""
    facts: list[Fact] = []
    rows: dict[int, Process] = {}
    count = 0
    for line in split_lines(text)[1:]:
        row = _ROW_PATTERN.match(line)
        if not row:
            continue
        count += 1
        comm, args = _split_command(row[8])
        thread = args.startswith("[") and row[2] in ("0", "2")
        facts += _build_stuck_facts(row, comm, args, thread) or _build_stopped_facts(row, comm, args)
        if not thread:
            rows[int(row[1])] = Process(int(row[2]), row[3], row[4], row[7][:300], comm, int(row[5]), args[:_MAX_ARGS_CHARS])
    own_processes = _find_own_processes(rows)
    facts = [fact for fact in facts if fact.attrs["pid"] not in own_processes]
    keys = {fact.key for fact in facts}
    facts += [
        Fact(CHECK, key, status=Status.ABSENT, line="none is listed") for key in ("proc.blocked", "proc.busy_kernel") if key not in keys
    ]
    return [
        *facts,
        Fact(
            CHECK, "proc.listed", count, line=f"{count} processes", attrs={_ROWS_ATTR: {str(pid): list(row) for pid, row in rows.items()}}
        ),
    ]


def _find_own_processes(rows: Mapping[int, Process]) -> frozenset[int]:
    """Return the processes below our connection's session daemon, so those of parallel checks too.

    Without such a daemon only the ps process is ours.
    """
    children: dict[int, list[int]] = {}
    for pid, process in rows.items():
        children.setdefault(process.ppid, []).append(pid)
    own_pids = {pid for pid, process in rows.items() if process.args == _PS_COMMAND}
    waiting = [_find_session_daemon(pid, rows) for pid in own_pids]
    while waiting:
        pid = waiting.pop()
        waiting += [child for child in children.get(pid, ()) if child not in own_pids]
        own_pids.add(pid)
    return frozenset(own_pids)


def _find_session_daemon(pid: int, rows: Mapping[int, Process]) -> int:
    """Return the nearest sshd ancestor (`sshd-session` since OpenSSH 9.8), else the process."""
    above, visited = pid, {pid}
    while (process := rows.get(above)) and process.ppid in rows and process.ppid not in visited:
        above = process.ppid
        visited.add(above)
        if rows[above].comm in _SESSION_DAEMONS:
            return above
    return pid


def _split_command(text: str) -> tuple[str, str]:
    """Split name and arguments: ps pads the name to 32 characters, and it may contain blanks."""
    if len(text) > _COMM_CHARS and text[_COMM_CHARS] == " ":
        return text[:_COMM_CHARS].strip(), text[_COMM_CHARS + 1 :].strip()
    comm, _, args = text.partition(" ")
    return comm, args.strip()


def _build_stuck_facts(row: re.Match[str], comm: str, args: str, thread: bool) -> list[Fact]:
    line = f"{row[1]} {row[4]} {row[6]}% {args or comm}"[:300]
    attrs = {"pid": int(row[1]), "user": row[3], "seconds": int(row[5])}
    if row[4].startswith("D") and not thread:
        return [Fact(CHECK, "proc.blocked", comm, line=line, attrs=attrs)]
    if thread and (parse_number(row[6]) or 0) >= 90:
        return [Fact(CHECK, "proc.busy_kernel", comm, line=line, attrs={**attrs, "cpu": parse_number(row[6])})]
    return []


def _build_stopped_facts(row: re.Match[str], comm: str, args: str) -> list[Fact]:
    """Only of a service or job: callers wait forever, and systemd calls the unit active."""
    if not row[4].startswith("T"):
        return []
    job = Process(0, row[3], row[4], row[7], comm).job
    service = _SERVICE_PATTERN.search(row[7])
    unit = "" if job or service is None or service[1] in _USER_SESSION_SERVICES else service[1]
    if not (job or unit):
        return []
    attrs = {"pid": int(row[1]), "user": row[3], "seconds": int(row[5]), **({"job": job} if job else {"unit": unit})}
    return [Fact(CHECK, "proc.stopped", comm, line=f"{row[1]} {row[4]} {args or comm}"[:300], attrs=attrs)]


def join_gpu_processes(facts: Sequence[Fact]) -> Sequence[Fact]:
    """Add parent, user and job to GPU processes and report orphans; none without ps output."""
    listed = next((fact for fact in facts if fact.key == "proc.listed" and _ROWS_ATTR in fact.attrs), None)
    if listed is None:
        return facts
    rows = {int(pid): Process(*row) for pid, row in listed.attrs[_ROWS_ATTR].items()}
    joined = [
        _add_process_attrs(fact, rows) if fact.key == "proc.gpu_memory" and fact.status is not Status.UNREADABLE else fact for fact in facts
    ]
    live, own_processes = _find_live_jobs(rows.values(), rows), _find_own_processes(rows)
    orphans = [
        orphan for fact in joined if fact.key == "proc.gpu_memory" and (orphan := _build_orphan_fact(fact, rows, live, own_processes))
    ]
    if not orphans and not any(fact.status.blind for fact in facts):
        orphans = [
            replace(
                listed,
                key="proc.orphan",
                value=None,
                status=Status.ABSENT,
                unit="MiB",
                line="every GPU process belongs to a job or service",
            )
        ]
    plain = [replace(fact, attrs={}) if fact is listed else fact for fact in joined]
    return [*plain, *(replace(orphan, attrs={k: v for k, v in orphan.attrs.items() if k != _ROWS_ATTR}) for orphan in orphans)]


def _add_process_attrs(fact: Fact, rows: Mapping[int, Process]) -> Fact:
    process = rows.get(int(fact.attrs.get("pid", -1)))
    if process is None:
        return fact
    own = {"ppid": process.ppid, "user": process.user, "job": process.job, "state": process.state, "seconds": process.seconds}
    own |= {"args": redact(process.args)} if process.args else {}
    return replace(fact, attrs={**fact.attrs, **own})


def _build_orphan_fact(fact: Fact, rows: Mapping[int, Process], live: frozenset[str], ours: frozenset[int]) -> Fact | None:
    if fact.status is not Status.OK or "pid" not in fact.attrs or int(fact.attrs["pid"]) in ours:
        return None
    explanation = _explain_orphan(rows.get(int(fact.attrs["pid"])), live)
    return replace(fact, key="proc.orphan", attrs={**fact.attrs, "why": explanation}) if explanation else None


def _explain_orphan(process: Process | None, live: frozenset[str]) -> str:
    if process is None:
        return "the process is gone, its memory is not"
    if process.state.startswith("Z") or "<defunct>" in process.comm:
        return "a zombie"
    if process.ppid != 1 or _SERVICE_PATTERN.search(process.cgroup):
        return ""
    if not process.job:
        return "its parent is gone and no job holds it"
    if process.job == "container" or process.job in live:
        return ""
    return f"its parent is gone, and nothing of job {process.job} supervises it"


def _find_live_jobs(processes: Iterable[Process], rows: Mapping[int, Process]) -> frozenset[str]:
    """Return jobs with a step daemon, or with a process below an unknown parent or one outside the job (not pid 1)."""

    def led(process: Process) -> bool:
        parent = rows.get(process.ppid)
        return process.comm.startswith("slurmstepd") or (process.ppid != 1 and (parent is None or parent.job != process.job))

    return frozenset(process.job for process in processes if process.job and led(process))


_COMPUTE_APPS_COMMAND = "nvidia-smi --query-compute-apps=gpu_bus_id,pid,process_name,used_memory --format=csv,noheader,nounits"

CHECKS = (
    Check(
        id="procs",
        asks="Which processes hold GPU memory, do they belong to a running job, is one stuck in the kernel?",
        commands=(Command("gpus", tuple(_COMPUTE_APPS_COMMAND.split()), optional=True), Command("list", tuple(_PS_COMMAND.split()))),
        formats=(Format("compute apps", is_gpu_apps, parse_gpu_apps), Format("ps", is_process_list, parse_process_list)),
        establishes=("proc.gpu_memory", "proc.orphan", "proc.blocked", "proc.stopped", "proc.busy_kernel", "proc.listed"),
        seconds=2.0,
        damage="ignore",
        settle=join_gpu_processes,
    ),
)
