"""Uniform texts for threads, reports and terminals: confidence, coverage, duration, unknown hosts and jobs. Pure."""

from collections.abc import Iterable, Mapping, Sequence

from graph.report import Report
from graph.state import IncidentCosts
from tools.fact import Fact
from tools.inventory.job_lookup import NoHostsReason
from tools.inventory.name_suggestions import MAX_LISTED_NAMES, UnknownName, format_unknown_names

# Uniform texts for confidence, coverage and duration.


def format_confidence_percent(confidence: float) -> str:
    """Return `93 %`, never below 1 or above 99."""
    return f"{max(1, min(99, round(confidence * 100)))} %"


def format_makespan(stats: IncidentCosts) -> str:
    """Return the checks' duration: `12 s`, `0.4 s`."""
    took = stats.makespan_seconds
    return f"{took:.0f} s" if took >= 1 else f"{took:.1f} s"


def format_coverage(stats: IncidentCosts) -> str:
    """Return `4 hosts looked at with 88 checks`; silent hosts do not count as looked at."""
    if not stats.hosts:
        return "no host looked at"
    if stats.silent >= stats.hosts:
        return f"{_format_hosts(stats.hosts)} asked, none answered" if stats.hosts > 1 else "1 host asked, and it did not answer"
    return f"{_format_answered_hosts(stats)} looked at with {_format_checks(stats)}"


def format_cost(stats: IncidentCosts) -> str:
    """Return `88 checks on 4 hosts in 12 s`; empty without checks."""
    return f"{_format_checks(stats)} on {_format_answered_hosts(stats)} in {format_makespan(stats)}" if stats.checks else ""


def format_hosts_and_makespan(stats: IncidentCosts) -> str:
    """Return `4 hosts in 12 s`; empty without checks."""
    return f"{_format_answered_hosts(stats)} in {format_makespan(stats)}" if stats.checks else ""


def count_unobserved_hosts(facts: Iterable[Fact]) -> int:
    """Return how many hosts were asked and answered nothing."""
    asked_hosts: set[str] = set()
    answering_hosts: set[str] = set()
    for fact in facts:
        if fact.host:
            asked_hosts.add(fact.host)
            if not fact.status.blind:
                answering_hosts.add(fact.host)
    return len(asked_hosts - answering_hosts)


def _format_answered_hosts(stats: IncidentCosts) -> str:
    return f"{stats.hosts - stats.silent} of {_format_hosts(stats.hosts)}" if stats.silent else _format_hosts(stats.hosts)


def _format_hosts(count: int) -> str:
    return f"{count} host{'s' * (count != 1)}"


def _format_checks(stats: IncidentCosts) -> str:
    return f"{stats.checks} check{'s' * (stats.checks != 1)}"


# Sentences about unknown hosts and jobs, the same in threads, reports and terminals.


def format_unknown_hosts(unknown: Sequence[UnknownName]) -> str:
    words = format_unknown_names(unknown)
    return f"{words[0].upper()}{words[1:]}." if words.startswith(("not in", "none of")) else f"{words}." if words else ""


UNKNOWN_JOB_SENTENCES: Mapping[NoHostsReason, str] = {
    "": "No scheduler could tell me where job {job} runs.",
    "nobody": "There is no scheduler that I could ask where job {job} runs.",
    "not_known": "Slurm knows no job {job}, nor does its accounting list one.",
    "accounting_off": "Slurm knows no job {job} now; its accounting is off, so I cannot look up one that has ended.",
    "accounting_silent": "Slurm knows no job {job} now, and its accounting could not be asked about one that has ended.",
    "could_not": "I could not ask Slurm about job {job}: whether there is one I do not know.",
    "no_hosts": "Job {job} has no hosts: it waits, or never began.",
    "other_hosts": "Job {job} is on none of the hosts that I look after here.",
}


def format_unknown_job(job: str, why: NoHostsReason) -> str:
    return UNKNOWN_JOB_SENTENCES[why].format(job=job) if job else ""


def format_name_readings(read_as: Mapping[str, str]) -> str:
    """Return which names were read as which hosts."""
    rows = [f"{name} as {host}" for name, host in read_as.items()]
    more = f", and {len(rows) - MAX_LISTED_NAMES} more likewise" if len(rows) > MAX_LISTED_NAMES else ""
    return f"I read {', '.join(rows[:MAX_LISTED_NAMES])}{more}." if rows else ""


def format_report_unknowns(report: Report) -> tuple[str, ...]:
    return tuple(
        filter(
            None,
            (
                format_name_readings(report.read_as),
                format_unknown_hosts(report.unknown_hosts),
                format_unknown_job(report.unknown_job, report.why_nowhere),
            ),
        )
    )
