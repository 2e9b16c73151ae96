"""`rackmedic job`: a job's hosts, ranks, state and environment. Read-only.

A job that could not be asked about differs from an unknown one.
"""

from collections.abc import Mapping
from pathlib import Path

from rich.table import Table
from rich.text import Text

from bot.app.diagnosis_runtime import DiagnosisRuntime
from bot.cli.cluster_access import open_command_runtime, open_stage, refuse_without_inventory
from bot.cli.command_runtime import print_text
from bot.cli.safe_console import format_json_line, open_table_console
from bot.refusal import Refusal
from bot.settings import Settings
from tools.inventory.host_ranges import fold_host_names
from tools.inventory.inventory import Inventory
from tools.inventory.job_lookup import Accounting, SlurmJobFinder
from tools.inventory.sources.slurm import SlurmJob

ACCOUNTING_TEXTS: Mapping[Accounting, str] = {
    "": "and its accounting was not asked",
    "asked": "and its accounting lists none",
    "off": "and its accounting is off, so that a job which ended cannot be looked up",
    "could_not": "and its accounting could not be asked",
}


async def find_slurm_job(runtime: DiagnosisRuntime, job: str) -> SlurmJob:
    """Return the job."""
    inventory = runtime.services.inventory
    if not inventory.slurm:
        raise Refusal("no scheduler can be asked: give a group of the inventory a `controller:`, or its `sources:` a `slurm:`", 2)
    lookup = await SlurmJobFinder(runtime.transport, inventory).find_job(job)
    if lookup.job is None and lookup.unknown:
        rest = f" ({lookup.could_not})" if lookup.could_not else ""
        raise Refusal(f"job {job}: Slurm has no such job (Invalid job id), {ACCOUNTING_TEXTS[lookup.accounting]}{rest}", 1)
    if lookup.job is None:
        raise Refusal(f"job {job}: Slurm could not be asked: {lookup.could_not}", 1)
    return lookup.job


async def resolve_job_hosts(runtime: DiagnosisRuntime, job: str) -> str:
    """Return the hosts as a range. Raises Refusal if none or not in the inventory."""
    job_lookup = await find_slurm_job(runtime, job)
    if not job_lookup.hosts:
        raise Refusal(f"job {job_lookup.id} is {job_lookup.state or 'in no known state'} and has no hosts", 1)
    if strange := list_unknown_hosts(job_lookup, runtime.services.inventory):
        raise Refusal(f"job {job_lookup.id} runs on {fold_host_names(strange)}, which the inventory does not have: add them there first", 2)
    return fold_host_names(job_lookup.hosts)


def list_unknown_hosts(job: SlurmJob, inventory: Inventory) -> tuple[str, ...]:
    return tuple(host for host in job.hosts if host not in inventory.hosts)


async def run_job_command(settings: Settings, job: str, inventory: Path | None, case: Path | None, *, as_json: bool) -> int:
    refuse_without_inventory(settings, inventory, case)
    async with open_command_runtime(settings, inventory, open_stage(case)) as world:
        return await print_job(world, job, as_json=as_json)


async def print_job(runtime: DiagnosisRuntime, job: str, *, as_json: bool) -> int:
    """Print a JSON row or a table."""
    job_lookup = await find_slurm_job(runtime, job)
    row = _build_job_row(job_lookup, runtime.services.inventory)
    if as_json:
        print_text(format_json_line({"schema": 1, **row}))
        return 0
    table = Table(show_header=False, box=None)
    for name, value in row.items():
        table.add_row(Text(name.replace("_", " "), "bold"), Text(_format_job_value(name, value)))
    open_table_console().print(table)
    return 0


def _build_job_row(job: SlurmJob, inventory: Inventory) -> dict[str, object]:
    return {
        "job": job.id,
        "state": job.state,
        "hosts": list(job.hosts),
        "ranks": job.ranks,
        "tasks": job.tasks,
        "environment": dict(job.environment),
        "not_in_inventory": list(list_unknown_hosts(job, inventory)),
    }


def _format_job_value(name: str, value: object) -> str:
    if isinstance(value, list):
        return f"{fold_host_names(value)} ({len(value)})" if value else "none"
    if isinstance(value, Mapping):
        return "\n".join(f"{key}={text}" for key, text in value.items()) or "none told"
    return str(value) if value or name == "ranks" else "not told"
