"""Resolve the hosts and the job of an incident after an item. Pure.

An unknown name replaces nothing and is never read as another; names in a command are exact.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from graph.extraction.reports import ParsedReport
from graph.state import InboxItem, IncidentBrief


@dataclass(frozen=True, slots=True)
class IncidentScope:
    """`looked_at`: hosts that only this turn checks, empty for the usual ones. `unknown`: names to report in this turn."""

    hosts: tuple[str, ...]
    job: str
    unknown: tuple[str, ...] = ()
    unknown_job: str = ""
    looked_at: tuple[str, ...] = ()
    refused: bool = False  # All names in the item are unknown, so there is nothing to check.


def get_job_to_look_up(old: IncidentBrief, report: ParsedReport) -> str:
    """Return the job whose hosts are needed, or ""."""
    return (report.job or old.job) if _names_other_job(old, report) or not (old.hosts or report.hosts) else ""


def resolve_scope(
    item: InboxItem, old: IncidentBrief, report: ParsedReport, of_job: Sequence[str], *, scheduled: bool = False
) -> IncidentScope:
    """Return the scope. `of_job`: visible hosts of the looked-up job; `scheduled`: a scheduler could be asked."""
    changes_job = _names_other_job(old, report) or (scheduled and get_job_to_look_up(old, report))
    lost_job = (report.job or old.job) if changes_job and not of_job else ""
    hosts = _select_hosts(item, old, report, () if lost_job else of_job)
    nameless = bool(report.unknown_hosts or (lost_job and "job" in item.data)) and not (report.hosts or of_job)
    return IncidentScope(
        hosts=hosts,
        job=(old.job or report.job) if lost_job else (report.job or old.job),
        unknown=report.unknown_hosts or (() if hosts else old.unknown_hosts),
        unknown_job=lost_job,
        looked_at=report.hosts if item.kind == "recheck" or {"hosts", "wider"} & set(item.data) else (),
        refused=nameless and not item.attachments,
    )


def _names_other_job(old: IncidentBrief, report: ParsedReport) -> bool:
    """A first job counts as another one if hosts are known already."""
    return bool(report.job) and report.job != old.job and bool(old.job or old.hosts)


def _select_hosts(item: InboxItem, old: IncidentBrief, report: ParsedReport, of_job: Sequence[str]) -> tuple[str, ...]:
    if item.kind == "recheck" and report.hosts:
        return old.hosts
    if "hosts" in item.data and report.hosts and not item.data.get("wider"):
        return report.hosts
    if "job" in item.data and of_job:
        return tuple(of_job)
    return tuple(dict.fromkeys((*old.hosts, *report.hosts, *of_job)))
