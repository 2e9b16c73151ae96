"""What is said of names that nobody knows: the same sentence in a thread, a report and a terminal. Pure."""

from collections.abc import Sequence

from graph.report import Report
from tools.inventory.nearest import UnknownName, in_words


def hosts_said(unknown: Sequence[UnknownName]) -> str:
    """One sentence; empty without any."""
    words = in_words(unknown)
    return f"{words[0].upper()}{words[1:]}." if words.startswith("not in") else f"{words}." if words else ""


def job_said(job: str) -> str:
    """One sentence; empty without a job. Whether nobody knows it or nobody could be asked is the scheduler's to say."""
    return f"No scheduler could tell me where job {job} runs." if job else ""


def said_in(report: Report) -> tuple[str, ...]:
    """What a report has to say of such names."""
    return tuple(filter(None, (hosts_said(report.unknown_hosts), job_said(report.unknown_job))))
