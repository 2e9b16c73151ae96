"""Find the hosts of a Slurm job. Read-only; only if the inventory names a Slurm controller or source.

"Unknown job" and "could not ask" are different answers. A job that the controller forgot (MinJobAge, 5 minutes by
default) is looked up in the accounting, which a site may have switched off.
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
from tools.inventory.sources.source import BadSource
from tools.transport import Transport

Accounting = Literal["", "asked", "off", "could_not"]  # the accounting's answer about a job unknown to the controller
# why a job has no hosts: no scheduler; unknown to Slurm and its accounting; unknown to Slurm, with accounting off or
# not answering; Slurm not answering; job not started; all hosts outside the caller's scope
NoHostsReason = Literal["", "nobody", "not_known", "accounting_off", "accounting_silent", "could_not", "no_hosts", "other_hosts"]


@dataclass(frozen=True, slots=True)
class JobLookup:
    """Result of a lookup, all empty if there is no place to ask.

    `unknown`: every place answered and none knows the job. `could_not`: why a place could not be asked.
    """

    job: SlurmJob | None = None
    unknown: bool = False
    accounting: Accounting = ""
    could_not: str = ""


@dataclass(frozen=True, slots=True)
class JobHosts:
    """A job's hosts, or why there are none."""

    hosts: tuple[str, ...] = ()
    why: NoHostsReason = ""


JobFilter = Callable[[Sequence[str]], bool]  # whether the caller may see a job on these hosts


def allow_any_job(hosts: Sequence[str]) -> bool:
    """Accept every job."""
    return True


class SlurmJobFinder:
    """Lookup over all Slurm places, until one knows the job."""

    def __init__(self, transport: Transport, inventory: Inventory) -> None:
        self._transport = transport
        self._inventory = inventory

    async def find_job(self, job: str, is_visible: JobFilter = allow_any_job) -> JobLookup:
        """Look up the job; never raises.

        A job that `is_visible` rejects costs the same commands as an unknown one, so timing does not reveal it.
        """
        lookups: list[JobLookup] = []
        for place in self._inventory.slurm:
            lookup = await self._find_job_at(place, job, is_visible)
            if lookup.job and is_visible(lookup.job.hosts):
                return lookup
            lookups.append(lookup)
        foreign = [lookup for lookup in lookups if lookup.job]
        if foreign:
            return foreign[0]
        troubles = "; ".join(dict.fromkeys(lookup.could_not for lookup in lookups if lookup.could_not))
        unknown = bool(lookups) and all(lookup.unknown for lookup in lookups)
        return JobLookup(unknown=unknown, accounting=_pick_least_certain(lookups) if unknown else "", could_not=troubles)

    async def find_job_hosts(self, job: str, is_visible: JobFilter = allow_any_job) -> JobHosts:
        """Return the job's hosts, or why there are none."""
        lookup = await self.find_job(job, is_visible)
        if lookup.job:
            return JobHosts(lookup.job.hosts, "" if lookup.job.hosts else "no_hosts")
        if lookup.unknown:
            reasons: dict[Accounting, NoHostsReason] = {"off": "accounting_off", "could_not": "accounting_silent"}
            return JobHosts(why=reasons.get(lookup.accounting, "not_known"))
        return JobHosts(why="could_not" if lookup.could_not else "nobody")

    async def _find_job_at(self, place: str, job: str, is_visible: JobFilter) -> JobLookup:
        try:
            slurm_job = parse_job(await self._run_query(place, build_job_argv(job)))
            if not is_visible(slurm_job.hosts):
                await self._find_in_accounting(place, job)
            return JobLookup(slurm_job)
        except CommandFailed as error:
            if UNKNOWN_JOB_TEXT not in error.complaint.lower():
                return JobLookup(could_not=str(error))
        except BadSource as error:
            return JobLookup(could_not=str(error))
        return await self._find_in_accounting(place, job)

    async def _find_in_accounting(self, place: str, job: str) -> JobLookup:
        try:
            text = await self._run_query(place, build_accounting_argv(job))
            accounting = parse_accounting(text)
        except CommandFailed as error:
            off = ACCOUNTING_OFF_TEXT in error.complaint.lower()
            return JobLookup(unknown=True, accounting="off") if off else _build_unobserved_lookup(error)
        except BadSource as error:
            return _build_unobserved_lookup(error)
        if accounting:
            return JobLookup(replace(accounting, id=job))
        return JobLookup(unknown=True, accounting="off" if ACCOUNTING_OFF_TEXT in text.lower() else "asked")

    async def _run_query(self, place: str, argv: Sequence[str]) -> str:
        return await (run_on_host(self._transport, place, argv) if place else run_here(argv))


def _build_unobserved_lookup(error: BadSource) -> JobLookup:
    return JobLookup(unknown=True, accounting="could_not", could_not=str(error))


def _pick_least_certain(lookups: Sequence[JobLookup]) -> Accounting:
    order: tuple[Accounting, ...] = ("could_not", "off", "asked")
    return next((answer for answer in order if any(lookup.accounting == answer for lookup in lookups)), "")
