"""Which hosts a scheduler's job runs on. Asked only where the inventory names a Slurm controller or source; looks, never changes."""

from dataclasses import dataclass

from tools.inventory.hosts import Inventory
from tools.inventory.sources.commands import here, there
from tools.inventory.sources.rows import BadSource
from tools.inventory.sources.slurm import SlurmJob, job_argv, read_job
from tools.transport import Transport


@dataclass(frozen=True, slots=True)
class JobSeen:
    """`job` where a controller knew it; else why not, in words. Neither where nobody can be asked."""

    job: SlurmJob | None = None
    could_not: str = ""


class SlurmJobs:
    """Asks every place of the inventory where Slurm's commands run, until one knows the job."""

    def __init__(self, transport: Transport, inventory: Inventory) -> None:
        self._transport, self._inventory = transport, inventory

    async def find(self, job: str) -> JobSeen:
        """The job; trouble is a value."""
        troubles = []
        for place in self._inventory.slurm:
            try:
                argv = job_argv(job)
                return JobSeen(read_job(await (there(self._transport, place, argv) if place else here(argv))))
            except BadSource as why:
                troubles.append(str(why))
        return JobSeen(could_not="; ".join(dict.fromkeys(troubles)))

    async def hosts(self, job: str) -> tuple[str, ...]:
        """Its hosts; none where it is not known or waits."""
        seen = await self.find(job)
        return seen.job.hosts if seen.job else ()
