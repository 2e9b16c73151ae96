"""What is said of names that nobody knows: the same sentence in a thread, a report and a terminal. Pure."""

from collections.abc import Mapping, Sequence

from graph.report import Report
from tools.inventory.jobs import WhyNowhere
from tools.inventory.nearest import MOST_SAID, UnknownName, in_words


def hosts_said(unknown: Sequence[UnknownName]) -> str:
    """One sentence; empty without any."""
    words = in_words(unknown)
    return f"{words[0].upper()}{words[1:]}." if words.startswith(("not in", "none of")) else f"{words}." if words else ""


NOWHERE: Mapping[WhyNowhere, str] = {
    "": "No scheduler could tell me where job {job} runs.",
    "nobody": "There is no scheduler that I could ask where job {job} runs.",
    "not_known": "Slurm knows no job {job}, nor does its accounting list one.",
    "accounting_off": "Slurm knows no job {job} now; its accounting is off, so I cannot look up one that has ended.",
    "accounting_silent": "Slurm knows no job {job} now, and its accounting could not be asked about one that has ended.",
    "could_not": "I could not ask Slurm about job {job}: whether there is one I do not know.",
    "no_hosts": "Job {job} has no hosts: it waits, or never began.",
    "other_hosts": "Job {job} is on none of the hosts that I look after here.",
}


def job_said(job: str, why: WhyNowhere) -> str:
    """One sentence; empty without a job."""
    return NOWHERE[why].format(job=job) if job else ""


def readings_said(read_as: Mapping[str, str]) -> str:
    """Say which names were taken for which hosts; empty without any."""
    rows = [f"{name} as {host}" for name, host in read_as.items()]
    more = f", and {len(rows) - MOST_SAID} more likewise" if len(rows) > MOST_SAID else ""
    return f"I read {', '.join(rows[:MOST_SAID])}{more}." if rows else ""


def said_in(report: Report) -> tuple[str, ...]:
    """What a report has to say of such names."""
    return tuple(
        filter(None, (readings_said(report.read_as), hosts_said(report.unknown_hosts), job_said(report.unknown_job, report.why_nowhere)))
    )
