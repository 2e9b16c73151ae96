"""Sentences about unknown hosts and jobs, the same in threads, reports and terminals. Pure."""

from collections.abc import Mapping, Sequence

from graph.report import Report
from tools.inventory.job_lookup import NoHostsReason
from tools.inventory.name_suggestions import MAX_LISTED_NAMES, UnknownName, format_unknown_names


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
