"""Memory, limits and processes of the host."""

from deploy.sandbox.cluster.answer import ShellAnswer, text_answer
from deploy.sandbox.cluster.render.query import Query

GIB = 1 << 30


def render_free(query: Query) -> ShellAnswer:
    """`free -b`."""
    node = query.node
    shared, cache = 3 * GIB, min(node.memory_total // 12, node.memory_total - node.memory_used)
    unused = node.memory_total - node.memory_used - cache
    available = max(unused + cache - shared, 512 << 20)
    swap = 8 * GIB
    lines = (
        f"{'':<15}{'total':>16}{'used':>16}{'free':>16}{'shared':>16}{'buff/cache':>16}{'available':>16}",
        f"{'Mem:':<15}{node.memory_total:>16}{node.memory_used:>16}{unused:>16}{shared:>16}{cache:>16}{available:>16}",
        f"{'Swap:':<15}{swap:>16}{node.swap_used:>16}{swap - node.swap_used:>16}",
    )
    return text_answer("\n".join(lines) + "\n")


def render_memlock(query: Query) -> ShellAnswer:
    """Print names, parents, uids and memlock limits below /proc.

    Only daemons that start jobs pass their limit on; the session that runs the check has PAM's.
    """
    limit = query.node.memlock_kib
    job_limit = "unlimited" if limit < 0 else str(limit * 1024)
    default_limit = str(8 << 20)
    processes = [
        (1, 0, "", True, default_limit),
        (1187, 1, "slurmd", True, job_limit),
        (1203, 1, "containerd", True, "unlimited"),
        (1311, 1, "dockerd", True, "unlimited"),
        (48211, 48200, "", False, default_limit),
    ]
    lines = []
    for pid, parent, name, is_root, memlock in processes:
        if name:
            lines.append(f"/proc/{pid}/comm:{name}\n")
        lines.append(f"/proc/{pid}/status:PPid:\t{parent}\n")
        if is_root:
            lines.append(f"/proc/{pid}/status:Uid:\t0\t0\t0\t0\n")
        lines.append(f"/proc/{pid}/limits:Max locked memory         {memlock:<20} {memlock:<20} bytes     \n")
    return text_answer("".join(lines))


def render_oom_events(query: Query) -> ShellAnswer:
    """`grep -rs --include=memory.events -H oom /sys/fs/cgroup`. A cgroup's counts include its descendants'."""
    kills, hits = query.node.oom_kills, query.node.oom_hits
    lines = []
    for path in kills:
        subtree = [cgroup for cgroup in kills if cgroup == path or cgroup.startswith(f"{path}/")]
        counts = {
            "oom": max(hits.get(cgroup, 0) for cgroup in subtree),
            "oom_kill": max(kills[cgroup] for cgroup in subtree),
            "oom_group_kill": 0,
        }
        lines += [f"/sys/fs/cgroup{path}/memory.events:{name} {count}\n" for name, count in counts.items()]
    return text_answer("".join(lines))


def render_processes(query: Query) -> ShellAnswer:
    """`ps -ww -eo pid,ppid,user:32,stat,etimes,pcpu,cgroup:160,comm:32,args`."""
    lines = [f"{'PID':>7} {'PPID':>7} {'USER':<32} {'STAT':<4} {'ELAPSED':>7} {'%CPU':>4} {'CGROUP':<160} {'COMMAND':<32} COMMAND"]
    for proc in sorted(query.node.procs, key=lambda proc: proc.pid):
        elapsed = int(query.at - proc.started)
        lines.append(
            f"{proc.pid:>7} {proc.ppid:>7} {proc.user:<32} {proc.stat:<4} {elapsed:>7} {proc.cpu:>4} {'0::' + proc.cgroup:<160} {proc.comm:<32} {proc.args}"
        )
    return text_answer("\n".join(lines) + "\n")
