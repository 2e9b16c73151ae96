"""Answer which jobs run on hosts, and whose they are, from the scheduler's list and the GPU processes."""

from collections.abc import Sequence
from dataclasses import dataclass

from graph.incident.answers.answer_context import (
    AnswerContext,
    build_answer,
    clean_text,
    format_age,
    get_check_name,
    get_read_time,
    render_recheck_offer,
    render_unknown_names,
    resolve_target_hosts,
)
from graph.incident.turn_result import TurnResult
from tools.fact import Fact, Status
from tools.inventory.host_ranges import fold_host_names

JOB_CHECKS = ("sched", "procs")
MAX_NAMES = 8  # jobs, pods or users named in a line
MAX_PROCESSES = 4


@dataclass(frozen=True, slots=True)
class HostJobs:
    """What was read of the jobs on one host.

    Attributes:
        job_ids: Running jobs, by the scheduler or by the processes that hold GPUs.
        users: Users of these jobs.
        pods: Pods, as namespace/name.
        loose_processes: Processes that hold GPU memory and belong to no job.
        last_job: The scheduler's fact about the latest job.
        read_checks: Checks that could look.
        failure: Why the first check that could not look failed.
    """

    host: str
    job_ids: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    pods: tuple[str, ...] = ()
    loose_processes: tuple[Fact, ...] = ()
    state: str = ""
    last_job: Fact | None = None
    read_checks: tuple[str, ...] = ()
    failure: str = ""

    @property
    def is_read(self) -> bool:
        return bool(self.read_checks)

    @property
    def is_busy(self) -> bool:
        return bool(self.job_ids or self.pods or self.loose_processes)

    def has_job(self, job: str) -> bool:
        return job in self.job_ids or (self.last_job is not None and self.last_job.attrs.get("job") == job)


def read_host_jobs(context: AnswerContext, host: str) -> HostJobs:
    coverage = context.assessment.coverage
    read_checks = tuple(check for check in JOB_CHECKS if coverage.has_observed(host, check))
    facts = [fact for fact in context.incident.facts if fact.host == host and not fact.stale and fact.check in read_checks]
    known = [fact for fact in facts if fact.status is Status.OK]
    processes = [fact for fact in known if fact.key == "proc.gpu_memory"]
    running = [fact for fact in known if fact.key == "sched.running"]
    listed = [str(job) for fact in running for job in _get_list(fact)]
    users = [str(user) for fact in running for user in fact.attrs.get("users", ())]
    return HostJobs(
        host,
        job_ids=tuple(dict.fromkeys([*listed, *(str(fact.attrs["job"]) for fact in processes if fact.attrs.get("job"))])),
        users=tuple(dict.fromkeys([*users, *(str(fact.attrs["user"]) for fact in processes if fact.attrs.get("user"))])),
        pods=tuple(str(pod) for fact in known if fact.key == "sched.pods" for pod in _get_list(fact)),
        loose_processes=tuple(fact for fact in processes if not fact.attrs.get("job")),
        state=next((str(fact.value) for fact in known if fact.key == "sched.state"), ""),
        last_job=next((fact for fact in known if fact.key == "sched.job" and fact.attrs.get("job")), None),
        read_checks=read_checks,
        failure=next((reason for check in JOB_CHECKS if (reason := coverage.unobserved.get((host, check)))), ""),
    )


def _get_list(fact: Fact) -> Sequence[str]:
    return fact.value if isinstance(fact.value, list) else ()


async def answer_jobs_on_host(context: AnswerContext) -> TurnResult:
    """Answer with the jobs on each host, or with the hosts and the user of the job named."""
    job, targets = context.message.job, resolve_target_hosts(context)
    if job and not targets.named:
        return _answer_named_job(context, job)
    hosts = targets.hosts
    if not hosts:
        text = "I cannot tell: I have read no host yet. Name one, for example “which jobs run on gpu-002?”."
        return build_answer(context, [*render_unknown_names(context), text])
    host_jobs = [read_host_jobs(context, host) for host in hosts]
    reported = context.incident.brief.job
    is_reported_missing = (
        reported and all("sched" in jobs.read_checks for jobs in host_jobs) and not any(jobs.has_job(reported) for jobs in host_jobs)
    )
    missing_note = f"The report names job {clean_text(reported, 40)}; the scheduler lists it on none of these hosts." if reported else ""
    return build_answer(
        context,
        [
            *render_unknown_names(context),
            *render_jobs(context, host_jobs),
            missing_note if is_reported_missing else "",
            render_recheck_offer(context, hosts),
        ],
    )


def _answer_named_job(context: AnswerContext, job: str) -> TurnResult:
    host_jobs = [read_host_jobs(context, host) for host in context.observed_hosts]
    with_job = [jobs for jobs in host_jobs if jobs.has_job(job)]
    if with_job:
        return build_answer(context, [*render_jobs(context, with_job), render_recheck_offer(context, [jobs.host for jobs in with_job])])
    read_hosts = [jobs.host for jobs in host_jobs if jobs.is_read]
    scope = (
        f"it is on none of the hosts that I read ({_render_source(context, read_hosts)})" if read_hosts else "I have read no host's jobs"
    )
    return build_answer(context, [f"I cannot tell whose job {clean_text(job, 40)} is: {scope}. Name a host of it, or say `hosts RANGE`."])


def render_jobs(context: AnswerContext, host_jobs: Sequence[HostJobs]) -> list[str]:
    """Return a line for each group of hosts with the same jobs."""
    hosts_by_text: dict[str, list[str]] = {}
    for jobs in host_jobs:
        hosts_by_text.setdefault(_describe_jobs(context, jobs), []).append(jobs.host)
    lines: list[str] = []
    for text, hosts in hosts_by_text.items():
        source = _render_source(context, hosts)
        lines.append(f"{fold_host_names(hosts)}: {text}{f' ({source})' if source else ''}.")
        lines += _render_processes(context, [jobs for jobs in host_jobs if jobs.host in hosts])
    return lines


def _describe_jobs(context: AnswerContext, jobs: HostJobs) -> str:
    if not jobs.is_read:
        reason = f" ({clean_text(jobs.failure, 80)})" if jobs.failure else ""
        return f"I did not see whether jobs run there{reason}. Say `recheck {jobs.host}`"
    if jobs.job_ids or jobs.pods:
        names = _join_names([*(f"job {job}" for job in jobs.job_ids), *(f"pod {pod}" for pod in jobs.pods)])
        verb = "runs" if len(jobs.job_ids) + len(jobs.pods) == 1 else "run"
        return f"{names} {verb} there{_describe_users(context, jobs)}"
    if jobs.loose_processes:
        return f"no job is listed, but processes hold GPUs{_describe_users(context, jobs)}"
    state = f", its state is {jobs.state}" if jobs.state else ""
    return f"no job runs there{state}{_describe_last_job(jobs)}"


def _describe_users(context: AnswerContext, jobs: HostJobs) -> str:
    if context.is_read_by_tenant:
        return ""
    if not jobs.users:
        return "; the user was not read"
    return f"; user{'s' * (len(jobs.users) > 1)} {_join_names(jobs.users)}"


def _describe_last_job(jobs: HostJobs) -> str:
    if jobs.last_job is None:
        return ""
    ended = jobs.last_job.attrs.get("ended")
    return f"; the last one was job {jobs.last_job.attrs['job']}, {jobs.last_job.value}{f', ended {ended}' if ended else ''}, whose user no check reads"


def _join_names(names: Sequence[str]) -> str:
    shown = ", ".join(clean_text(name, 60) for name in names[:MAX_NAMES])
    return shown + (f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else "")


def _render_processes(context: AnswerContext, host_jobs: Sequence[HostJobs]) -> list[str]:
    """Return a line for processes outside of jobs, which no scheduler lists."""
    processes = [fact for jobs in host_jobs for fact in jobs.loose_processes]
    if context.is_read_by_tenant or not processes:
        return []
    parts = [
        f"{fact.host}/{fact.device}: {clean_text(str(fact.attrs.get('name') or 'a process'), 40)} (pid {fact.attrs.get('pid', '?')})"
        f"{' of ' + clean_text(str(fact.attrs['user']), 40) if fact.attrs.get('user') else ''}"
        for fact in processes[:MAX_PROCESSES]
    ]
    more = f" and {len(processes) - MAX_PROCESSES} more" if len(processes) > MAX_PROCESSES else ""
    return [f"• Outside of jobs: {'; '.join(parts)}{more} ({_render_source(context, [fact.host for fact in processes], ('procs',))})."]


def _render_source(context: AnswerContext, hosts: Sequence[str], checks: Sequence[str] = JOB_CHECKS) -> str:
    """Return `sched, procs on gpu-002, read 4 min ago`, or an empty text if no check could look."""
    names = [check for check in checks if any(context.assessment.coverage.has_observed(host, check) for host in hosts)]
    if not names:
        return ""
    read_times = [time for host in hosts for check in names if (time := get_read_time(context, host, check))]
    age = format_age(min(read_times, default=None), context.current_time)
    return f"{', '.join(map(get_check_name, names))} on {fold_host_names(dict.fromkeys(hosts))}, read {age}"
