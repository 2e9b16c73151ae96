"""Which hosts and job an item makes the incident's, and which of its names nobody knows. Pure.

A name that nobody knows replaces nothing and is never taken for another; what a command names it means exactly.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from graph.reading.reports import Understanding
from graph.state import Brief, Item


@dataclass(frozen=True, slots=True)
class Concerned:
    """`looked_at` is what this turn alone looks at; empty where that is as usual. `unknown` is said in this turn."""

    hosts: tuple[str, ...]
    job: str
    unknown: tuple[str, ...] = ()
    unknown_job: str = ""
    looked_at: tuple[str, ...] = ()
    refused: bool = False
    """What the item names is all unknown: there is nothing to look at."""


def asks_scheduler(old: Brief, new: Understanding) -> str:
    """The job whose hosts must be known to read the item; empty where none is."""
    return (new.job or old.job) if _other_job(old, new) or not (old.hosts or new.hosts) else ""


def concerned(item: Item, old: Brief, new: Understanding, of_job: Sequence[str], *, scheduled: bool = False) -> Concerned:
    """`of_job`: visible hosts of the job that `asks_scheduler` named; `scheduled`: there is a scheduler that could be asked."""
    asked = _other_job(old, new) or (scheduled and asks_scheduler(old, new))
    lost_job = (new.job or old.job) if asked and not of_job else ""
    hosts = _hosts(item, old, new, () if lost_job else of_job)
    nameless = bool(new.unknown_hosts or (lost_job and "job" in item.data)) and not (new.hosts or of_job)
    return Concerned(
        hosts=hosts,
        job=(old.job or new.job) if lost_job else (new.job or old.job),
        unknown=new.unknown_hosts or (() if hosts else old.unknown_hosts),
        unknown_job=lost_job,
        looked_at=new.hosts if item.kind == "recheck" or {"hosts", "wider"} & set(item.data) else (),
        refused=nameless and not item.attachments,
    )


def _other_job(old: Brief, new: Understanding) -> bool:
    """Another job than the incident's is named, or a first one beside hosts that are known already."""
    return bool(new.job) and new.job != old.job and bool(old.job or old.hosts)


def _hosts(item: Item, old: Brief, new: Understanding, of_job: Sequence[str]) -> tuple[str, ...]:
    if item.kind == "recheck" and new.hosts:
        return old.hosts
    if "hosts" in item.data and new.hosts and not item.data.get("wider"):
        return new.hosts
    if "job" in item.data and of_job:
        return tuple(of_job)
    return tuple(dict.fromkeys((*old.hosts, *new.hosts, *of_job)))
