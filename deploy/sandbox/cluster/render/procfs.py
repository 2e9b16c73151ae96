"""Files below /proc: a process as the kernel shows it."""

from deploy.sandbox.cluster.answer import ShellAnswer, text_answer
from deploy.sandbox.cluster.machines.log_lines import Job
from deploy.sandbox.cluster.machines.state import HostProcess, NodeState
from deploy.sandbox.cluster.render.query import Query

TICKS_PER_SECOND = 100


def render_stat(query: Query) -> ShellAnswer:
    """`cat /proc/PID/stat`."""
    pid = query.slots["pid"]
    proc = next((proc for proc in query.node.procs if str(proc.pid) == pid), None)
    if proc is None:
        return text_answer("", 1, f"cat: /proc/{pid}/stat: No such file or directory\n")
    return text_answer(format_stat_line(query.node, proc))


def get_start_ticks(node: NodeState, proc: HostProcess) -> int:
    """Return the start in clock ticks since boot; together with the pid it identifies a process."""
    return max(round((proc.started - node.booted) * TICKS_PER_SECOND), 0)


def format_stat_line(node: NodeState, proc: HostProcess) -> str:
    """Return all 52 fields; unused ones are 0."""
    before = [str(proc.pid), f"({proc.comm[:15]})", proc.stat[:1], str(proc.ppid), str(proc.pid), str(proc.pid), "0", "-1", "4194304"]
    fields = before + ["0"] * 10 + ["1", "0", str(get_start_ticks(node, proc))]
    return " ".join(fields + ["0"] * (52 - len(fields))) + "\n"


def build_environments(node: NodeState, job: Job) -> dict[int, str]:
    """Return /proc/PID/environ of every live rank."""
    if not job.has_log:
        return {}
    alive_pids = {proc.pid for proc in node.procs}
    environments = {}
    for rank in job.of(node.name):
        if rank.pid in alive_pids:
            variables = node.env | {"LOCAL_RANK": str(rank.local), "RANK": str(rank.rank)}
            environments[rank.pid] = "".join(f"{name}={value}\0" for name, value in sorted(variables.items()))
    return environments
