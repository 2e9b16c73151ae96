"""Which hosts a scheduler's job runs or ran on. Asked only where the inventory names a Slurm controller or source; looks, never changes.

What Slurm does not know and what it could not be asked are different answers. A job that the controller has forgotten (MinJobAge, 5 minutes
unless set) is looked for in the accounting, which a site may have switched off.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from tools.inventory.hosts import Inventory
from tools.inventory.sources.commands import Complained, here, there
from tools.inventory.sources.rows import BadSource
from tools.inventory.sources.slurm import ACCOUNTING_OFF, NOT_KNOWN, SlurmJob, accounted_argv, job_argv, read_accounted, read_job
from tools.transport import Transport

Accounting = Literal["", "asked", "off", "could_not"]
"""What the accounting answered of a job that the controller does not know."""
WhyNowhere = Literal["", "nobody", "not_known", "accounting_off", "accounting_silent", "could_not", "no_hosts", "other_hosts"]
"""Why no host of a job is known: there is no scheduler; Slurm and its accounting know no such job; Slurm does not, and its accounting is off, or
could not be asked; Slurm could not be asked; the job waits or never began; all its hosts are others than may be spoken of."""


@dataclass(frozen=True, slots=True)
class JobSeen:
    """`job` where a controller or the accounting knew it. `unknown`: every one was asked and none does. `could_not`: why one could not be
    asked, in words. Nothing of these where nobody can be asked."""

    job: SlurmJob | None = None
    unknown: bool = False
    accounting: Accounting = ""
    could_not: str = ""


@dataclass(frozen=True, slots=True)
class JobPlace:
    """The hosts of a job; without any, why."""

    hosts: tuple[str, ...] = ()
    why: WhyNowhere = ""


Mine = Callable[[Sequence[str]], bool]
"""Whether a job on these hosts may be spoken of."""


def anybodys(hosts: Sequence[str]) -> bool:
    """Every job may."""
    return True


class SlurmJobs:
    """Asks every place of the inventory where Slurm's commands run, until one knows the job."""

    def __init__(self, transport: Transport, inventory: Inventory) -> None:
        self._transport, self._inventory = transport, inventory

    async def find(self, job: str, mine: Mine = anybodys) -> JobSeen:
        """The job; trouble is a value. One that is not `mine` by its hosts is looked for with the very commands that look for one that nobody
        knows, so that how long it takes does not say that it is there."""
        seen: list[JobSeen] = []
        for place in self._inventory.slurm:
            seen.append(await self._at(place, job, mine))
            if (found := seen[-1].job) and mine(found.hosts):
                return seen[-1]
        if foreign := next((row for row in seen if row.job), None):
            return foreign
        troubles = "; ".join(dict.fromkeys(row.could_not for row in seen if row.could_not))
        unknown = bool(seen) and all(row.unknown for row in seen)
        return JobSeen(unknown=unknown, accounting=_least(seen) if unknown else "", could_not=troubles)

    async def place(self, job: str, mine: Mine = anybodys) -> JobPlace:
        """Where it runs or ran."""
        seen = await self.find(job, mine)
        if seen.job:
            return JobPlace(seen.job.hosts, "" if seen.job.hosts else "no_hosts")
        if seen.unknown:
            known: dict[Accounting, WhyNowhere] = {"off": "accounting_off", "could_not": "accounting_silent"}
            return JobPlace(why=known.get(seen.accounting, "not_known"))
        return JobPlace(why="could_not" if seen.could_not else "nobody")

    async def _at(self, place: str, job: str, mine: Mine) -> JobSeen:
        try:
            found = read_job(await self._asked(place, job_argv(job)))
            if not mine(found.hosts):
                await self._accounted(place, job)
            return JobSeen(found)
        except Complained as why:
            if NOT_KNOWN not in why.complaint.lower():
                return JobSeen(could_not=str(why))
        except BadSource as why:
            return JobSeen(could_not=str(why))
        return await self._accounted(place, job)

    async def _accounted(self, place: str, job: str) -> JobSeen:
        """What became of a job that the controller does not know."""
        try:
            text = await self._asked(place, accounted_argv(job))
            found = read_accounted(text)
        except Complained as why:
            off = ACCOUNTING_OFF in why.complaint.lower()
            return JobSeen(unknown=True, accounting="off") if off else _silent(why)
        except BadSource as why:
            return _silent(why)
        if found:
            return JobSeen(replace(found, id=job))
        return JobSeen(unknown=True, accounting="off" if ACCOUNTING_OFF in text.lower() else "asked")

    async def _asked(self, place: str, argv: Sequence[str]) -> str:
        return await (there(self._transport, place, argv) if place else here(argv))


def _silent(why: BadSource) -> JobSeen:
    return JobSeen(unknown=True, accounting="could_not", could_not=str(why))


def _least(seen: Sequence[JobSeen]) -> Accounting:
    """Of several places the answer that leaves most open."""
    order: tuple[Accounting, ...] = ("could_not", "off", "asked")
    return next((answer for answer in order if any(row.accounting == answer for row in seen)), "")
