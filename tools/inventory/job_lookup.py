"""Which hosts a scheduler's job runs or ran on. Asked only where the inventory names a Slurm controller or source; looks, never changes.

What Slurm does not know and what it could not be asked are different answers. A job that the controller has forgotten (MinJobAge, 5 minutes
unless set) is looked for in the accounting, which a site may have switched off.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from tools.inventory.inventory import Inventory
from tools.inventory.sources.commands import CommandFailed, run_here, run_on_host
from tools.inventory.sources.slurm import (
    ACCOUNTING_OFF_TEXT,
    UNKNOWN_JOB_TEXT,
    SlurmJob,
    build_accounting_argv,
    build_job_argv,
    parse_accounting,
    parse_job,
)
from tools.inventory.sources.source_rows import BadSource
from tools.transport import Transport

Accounting = Literal["", "asked", "off", "could_not"]
"""What the accounting answered of a job that the controller does not know."""
NoHostsReason = Literal["", "nobody", "not_known", "accounting_off", "accounting_silent", "could_not", "no_hosts", "other_hosts"]
"""Why no host of a job is known: there is no scheduler; Slurm and its accounting know no such job; Slurm does not, and its accounting is off, or
could not be asked; Slurm could not be asked; the job waits or never began; all its hosts are others than may be spoken of."""


@dataclass(frozen=True, slots=True)
class JobLookup:
    """`job` where a controller or the accounting knew it. `unknown`: every one was asked and none does. `build_unobserved_answer`: why one could not be
    asked, in words. Nothing of these where nobody can be asked."""

    job: SlurmJob | None = None
    unknown: bool = False
    accounting: Accounting = ""
    could_not: str = ""


@dataclass(frozen=True, slots=True)
class JobHosts:
    """The hosts of a job; without any, why."""

    hosts: tuple[str, ...] = ()
    why: NoHostsReason = ""


JobFilter = Callable[[Sequence[str]], bool]
"""Whether a job on these hosts may be spoken of."""


def allow_any_job(hosts: Sequence[str]) -> bool:
    """Every job may."""
    return True


class SlurmJobFinder:
    """Asks every place of the inventory where Slurm's commands run, until one knows the job."""

    def __init__(self, transport: Transport, inventory: Inventory) -> None:
        self._transport, self._inventory = transport, inventory

    async def find_job(self, job: str, mine: JobFilter = allow_any_job) -> JobLookup:
        """The job; trouble is a value. One that is not `mine` by its hosts is looked for with the very commands that look for one that nobody
        knows, so that how long it takes does not say that it is there."""
        seen: list[JobLookup] = []
        for place in self._inventory.slurm:
            seen.append(await self._find_job_at(place, job, mine))
            if (found := seen[-1].job) and mine(found.hosts):
                return seen[-1]
        if foreign := next((row for row in seen if row.job), None):
            return foreign
        troubles = "; ".join(dict.fromkeys(row.could_not for row in seen if row.could_not))
        unknown = bool(seen) and all(row.unknown for row in seen)
        return JobLookup(unknown=unknown, accounting=_pick_least_certain(seen) if unknown else "", could_not=troubles)

    async def find_job_hosts(self, job: str, mine: JobFilter = allow_any_job) -> JobHosts:
        """Where it runs or ran."""
        seen = await self.find_job(job, mine)
        if seen.job:
            return JobHosts(seen.job.hosts, "" if seen.job.hosts else "no_hosts")
        if seen.unknown:
            known: dict[Accounting, NoHostsReason] = {"off": "accounting_off", "could_not": "accounting_silent"}
            return JobHosts(why=known.get(seen.accounting, "not_known"))
        return JobHosts(why="could_not" if seen.could_not else "nobody")

    async def _find_job_at(self, place: str, job: str, mine: JobFilter) -> JobLookup:
        try:
            found = parse_job(await self._run_query(place, build_job_argv(job)))
            if not mine(found.hosts):
                await self._find_in_accounting(place, job)
            return JobLookup(found)
        except CommandFailed as why:
            if UNKNOWN_JOB_TEXT not in why.complaint.lower():
                return JobLookup(could_not=str(why))
        except BadSource as why:
            return JobLookup(could_not=str(why))
        return await self._find_in_accounting(place, job)

    async def _find_in_accounting(self, place: str, job: str) -> JobLookup:
        """What became of a job that the controller does not know."""
        try:
            text = await self._run_query(place, build_accounting_argv(job))
            found = parse_accounting(text)
        except CommandFailed as why:
            off = ACCOUNTING_OFF_TEXT in why.complaint.lower()
            return JobLookup(unknown=True, accounting="off") if off else _build_unobserved_lookup(why)
        except BadSource as why:
            return _build_unobserved_lookup(why)
        if found:
            return JobLookup(replace(found, id=job))
        return JobLookup(unknown=True, accounting="off" if ACCOUNTING_OFF_TEXT in text.lower() else "asked")

    async def _run_query(self, place: str, argv: Sequence[str]) -> str:
        return await (run_on_host(self._transport, place, argv) if place else run_here(argv))


def _build_unobserved_lookup(why: BadSource) -> JobLookup:
    return JobLookup(unknown=True, accounting="could_not", could_not=str(why))


def _pick_least_certain(seen: Sequence[JobLookup]) -> Accounting:
    """Of several places the answer that leaves most open."""
    order: tuple[Accounting, ...] = ("could_not", "off", "asked")
    return next((answer for answer in order if any(row.accounting == answer for row in seen)), "")
