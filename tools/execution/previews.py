"""What an approver must know before approval: jobs and users on the nodes, tasks of a job, files to be deleted. Read-only."""

import asyncio
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from kb.needle_search import split_lines
from tools.action import Action
from tools.checks.scheduler import NODE_HOLDING_STATES
from tools.inventory.host_ranges import BadRange, expand_host_range
from tools.inventory.inventory import Host, Inventory
from tools.nodekit.generate import LOOK_COMMAND
from tools.remedies import REMEDIES
from tools.remedies.conditions import KUBE_EMPTY
from tools.remedies.remedy import fill_slots
from tools.transport import Transport, Unreachable

# Read which jobs and users an action would disturb, before approval. Read-only.

JOBS_TIMEOUT_SECONDS = 15.0
MAX_JOBS_BYTES = 256 * 1024
MAX_NODES = 16
NODE_JOBS_COMMAND = ("squeue", "-h", "-w", "{target}", "-o", "%A|%T|%u")
_SLURM_JOB_PATTERN = re.compile(r"([0-9]{1,12})\|([A-Z_]{2,20})\|([A-Za-z0-9_][\w.@$-]{0,63})")
_POD_PATTERN = re.compile(r"(\S{1,200}) +(\S{1,253}) +(\S{1,253})")


@dataclass(frozen=True, slots=True)
class RunningJob:
    """A Slurm job and its user, or a pod and its namespace."""

    job: str
    user: str


@dataclass(frozen=True, slots=True)
class NodeJobs:
    """The jobs on the action's nodes; incomplete if `why` names a failure."""

    jobs: tuple[RunningJob, ...] = ()
    why: str = ""


async def read_node_jobs(action: Action, inventory: Inventory, transport: Transport) -> NodeJobs | None:
    """Return the jobs on the action's nodes; None for a remedy that disturbs no jobs."""
    remedy = REMEDIES.get(action.remedy)
    if remedy is None or not remedy.names_jobs:
        return None
    names = action.target.split(",")
    answers = await asyncio.gather(*(_read_jobs_of_node(name, inventory, transport) for name in names[:MAX_NODES]))
    unasked_notes = [f"{len(names) - MAX_NODES} more nodes were not asked about"] if len(names) > MAX_NODES else []
    jobs = tuple(dict.fromkeys(job for one in answers for job in one.jobs))
    return NodeJobs(jobs, "; ".join(dict.fromkeys([*(one.why for one in answers if one.why), *unasked_notes])))


async def _read_jobs_of_node(name: str, inventory: Inventory, transport: Transport) -> NodeJobs:
    host = inventory.hosts.get(name)
    if host is None or not host.controller:
        return NodeJobs(why=f"the inventory names no controller for {name}")
    argv = tuple(fill_slots(word, {"target": host.node_name, "node": host.node_name}) for word in _build_job_query(host))
    try:
        result = await transport.run(host.controller, argv, timeout=JOBS_TIMEOUT_SECONDS, cap=MAX_JOBS_BYTES)
    except Unreachable as error:
        return NodeJobs(why=error.why)
    if result.timed_out or result.truncated or result.exit_status is None:
        return NodeJobs(why="no whole answer in time")
    if result.exit_status != 0:
        return NodeJobs(why=result.stderr.decode("utf-8", "replace").strip()[:200] or f"exit status {result.exit_status}")
    return _parse_pods(result.text) if host.scheduler == "kubernetes" else _parse_slurm_jobs(result.text)


def _build_job_query(host: Host) -> tuple[str, ...]:
    return KUBE_EMPTY.argv if host.scheduler == "kubernetes" else NODE_JOBS_COMMAND


def _parse_slurm_jobs(text: str) -> NodeJobs:
    """Parse `4711|RUNNING|alice`."""
    rows = [_SLURM_JOB_PATTERN.fullmatch(line.strip()) for line in split_lines(text) if line.strip()]
    if not all(rows):
        return NodeJobs(why="squeue: an answer of another shape")
    return NodeJobs(tuple(dict.fromkeys(RunningJob(row[1], row[3]) for row in rows if row and row[2] in NODE_HOLDING_STATES)))


def _parse_pods(text: str) -> NodeJobs:
    """Parse `Job  training  bert-0` (owner kind, namespace, pod). DaemonSet and static pods do not count."""
    rows = [_POD_PATTERN.fullmatch(line.strip()) for line in split_lines(text) if line.strip()]
    if not all(rows):
        return NodeJobs(why="kubectl: an answer of another shape")
    return NodeJobs(tuple(RunningJob(row[3], row[2]) for row in rows if row and row[1] not in ("DaemonSet", "Node")))


# Preview of a job cancellation: tasks by state, owners and hosts.
#
# A job id includes all tasks of its array or heterogeneous job.

TASKS_TIMEOUT_SECONDS = 15.0
MAX_TASKS_BYTES = 1 << 20
MAX_TASKS = 10_000
JOB_TASKS_COMMAND = ("squeue", "-h", "-r", "-j", "{job}", "-o", "%i|%T|%u|%N")


@dataclass(frozen=True, slots=True)
class CancelPreview:
    """The tasks that would end, counted by state. `why` says why they could not be read."""

    states: Mapping[str, int] = field(default_factory=dict)
    owners: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    why: str = ""


async def preview_cancel(action: Action, transport: Transport) -> CancelPreview | None:
    """Return what the action would end now; None for other remedies."""
    if action.remedy != "cancel_job":
        return None
    argv = tuple(word.format(job=action.args["job"]) for word in JOB_TASKS_COMMAND)
    try:
        result = await transport.run(action.via, argv, timeout=TASKS_TIMEOUT_SECONDS, cap=MAX_TASKS_BYTES)
    except Unreachable as error:
        return CancelPreview(why=error.why)
    complaint = result.stderr.decode("utf-8", "replace").strip()
    if result.timed_out or result.truncated or result.exit_status is None:
        return CancelPreview(why="no whole answer in time")
    if result.exit_status != 0:
        return CancelPreview(why=complaint[:200] or f"exit status {result.exit_status}")
    return parse_cancel_preview(result.text)


def parse_cancel_preview(text: str) -> CancelPreview:
    """Parse squeue rows such as `4711_3|RUNNING|alice|gpu-[001-002]`, one per task."""
    rows = [parts for line in split_lines(text)[:MAX_TASKS] if len(parts := line.strip().split("|")) == 4]
    try:
        hosts = tuple(dict.fromkeys(host for *_, nodes in rows if nodes for host in expand_host_range(nodes)))
    except BadRange as error:
        return CancelPreview(why=f"squeue: {error}")
    return CancelPreview(Counter(state for _, state, _, _ in rows), tuple(dict.fromkeys(user for _, _, user, _ in rows)), hosts)


# Preview of a deletion: file count, size, and the largest files with owner, age and open state.
#
# The node kit applies the remedy's own tests. No text from a ticket or log enters the query.

# the kit prints 100 lines with paths of at most 600 characters
LISTING_TIMEOUT_SECONDS = 9.5
MAX_LISTING_BYTES = 80 * 1024
MAX_LISTED_FILES = 100
_END_PATTERN = re.compile(r"end ([0-9]{1,3})")
_TOTAL_PATTERN = re.compile(r"total ([0-9]{1,12}) ([0-9]{1,18})")
_OPENS_PATTERN = re.compile(r"opens ([0-9]{1,3})")
_FILE_PATTERN = re.compile(r"(file|open) ([0-9]{1,9}) ([0-9]{1,18}) ([^ ]{1,64}) (.{1,600})")


@dataclass(frozen=True, slots=True)
class OldFile:
    """A file to delete: `size` in bytes on disk, `minutes` since its last write, `open` None if unobserved."""

    path: str
    size: int
    owner: str
    minutes: int
    open: bool | None = None


@dataclass(frozen=True, slots=True)
class DeletePreview:
    """The files to delete. `why` says why they could not be read; `whole` is False after a timeout."""

    files: int = 0
    size: int = 0
    largest: tuple[OldFile, ...] = ()
    whole: bool = True
    why: str = ""


async def preview_delete(action: Action, transport: Transport) -> DeletePreview | None:
    """Return what the action would delete now; None for a remedy without preview."""
    remedy = REMEDIES.get(action.remedy)
    if remedy is None or not remedy.preview:
        return None
    argv = (*LOOK_COMMAND, f"{remedy.id}.preview", *action.args.values())
    try:
        result = await transport.run(action.via, argv, timeout=LISTING_TIMEOUT_SECONDS, cap=MAX_LISTING_BYTES)
    except Unreachable as error:
        return DeletePreview(why=error.why)
    if result.timed_out or result.exit_status is None:
        return DeletePreview(why="no answer in time")
    complaint = result.stderr.decode("utf-8", "replace").strip()
    if result.exit_status != 0:
        old = "usage: rackmedic-look" in complaint
        return DeletePreview(
            why="its node kit is older than this question" if old else complaint[:200] or f"exit status {result.exit_status}"
        )
    return parse_delete_preview(result.text) or DeletePreview(why=complaint[:200] or "an answer of another shape")


def parse_delete_preview(text: str) -> DeletePreview | None:
    """Parse the kit's answer; None for an unknown format. Older kits do not report open files."""
    lines = text.removesuffix("\n").split("\n")
    end, total = _END_PATTERN.fullmatch(lines[0]), _TOTAL_PATTERN.fullmatch(lines[1]) if len(lines) > 1 else None
    opens = _OPENS_PATTERN.fullmatch(lines[2]) if len(lines) > 2 else None
    files = [_FILE_PATTERN.fullmatch(line) for line in lines[3 if opens else 2 :]]
    if end is None or total is None or len(files) > MAX_LISTED_FILES or not all(files):
        return None
    is_complete = opens is not None and int(opens[1]) < 124  # timeout(1) exits with 124 or more
    largest = tuple(
        OldFile(row[5], int(row[3]), row[4], int(row[2]), True if row[1] == "open" else False if is_complete else None)
        for row in files
        if row
    )
    return DeletePreview(int(total[1]), int(total[2]), largest, whole=int(end[1]) < 124)
