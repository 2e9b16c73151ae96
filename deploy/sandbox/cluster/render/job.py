"""The incident's job on one node: environment and rank logs."""

from deploy.sandbox.cluster.answer import ShellAnswer, text_answer
from deploy.sandbox.cluster.machines.log_lines import JobLine, Rank
from deploy.sandbox.cluster.render.kernel import truncate_log
from deploy.sandbox.cluster.render.query import Query
from tools.inventory.host_ranges import fold_host_names

TAIL = 300
JOB_LOGS = "/var/log/jobs"
MARK = 10**19 + 4711  # the probe draws it at random; here it is fixed
OWNER = 1001  # uid of the jobs' owner


def render_environment(query: Query) -> ShellAnswer:
    """`rackmedic-look env`: selected variables of the job's processes, or of its launcher if its ranks are gone."""
    if not query.as_root:
        return text_answer("", 1, "rackmedic-look: must run as root\n")
    if not query.job.has_log:
        return text_answer("")
    live_pids = {proc.pid for proc in query.node.procs}
    ranks = [rank for rank in query.job.of(query.node.name) if rank.pid in live_pids]
    lines = []
    for rank in ranks:
        rank_variables = {"LOCAL_RANK": str(rank.local), "RANK": str(rank.rank)}
        lines += [f"{rank.pid} {name}={value}\n" for name, value in sorted((query.node.env | rank_variables).items())]
    launcher = query.job.of(query.node.name)[0].pid - 5
    if not lines and launcher in live_pids:
        lines = [f"{launcher} {name}={value}\n" for name, value in sorted(query.node.env.items())]
    return text_answer("".join(lines))


def render_logs(query: Query) -> ShellAnswer:
    """Print the ends of the newest log files below the folder, one per rank, as the log probe does."""
    folder = query.slots.get("job_logs", JOB_LOGS).rstrip("/")
    if folder != JOB_LOGS:
        return text_answer("", 1, f"[Errno 2] No such file or directory: '{folder}'\n")
    if not query.job.has_log:
        return text_answer(f"== no log of the last 2 days below {folder}, 0 older\n")
    parts = []
    nodes = fold_host_names(dict.fromkeys(rank.node for rank in query.job.ranks))
    for rank in query.job.of(query.node.name):
        last_lines = _get_visible_lines(query, rank)[-TAIL:]
        text = truncate_log("".join(f"{line}\n" for line in last_lines), query.node.log_keep)
        head = f"==> {JOB_LOGS}/{query.job.id}/rank_{rank.rank:02d}.log <==\n== of uid={OWNER} job={query.job.id} nodes={nodes} {MARK}"
        parts.append(f"{head}\n{text}")
    return text_answer("\n".join([f"== logs {MARK}", *parts]))


def _get_visible_lines(query: Query, rank: Rank) -> list[str]:
    return [_stamp_line(query, line) for line in rank.lines if line.t <= query.at]


def _stamp_line(query: Query, line: JobLine) -> str:
    """Return the line with its writer's timestamp. Python's logging and PyTorch's C++ print local time without a zone."""
    if not line.stamp:
        return line.text
    moment = query.clock(line.t)
    if line.stamp == "python":
        return f"{moment:%Y-%m-%d %H:%M:%S},{moment.microsecond // 1000:03d} {line.text}"
    return line.text.replace("%TIME%", f"{moment.month}{moment.day:02d} {moment:%H:%M:%S}.{moment.microsecond * 1000 + 347:09d}", 1)
