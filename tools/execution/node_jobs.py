"""Read which jobs and users an action would disturb, before approval."""

import asyncio
import re
from dataclasses import dataclass

from kb.needle_search import split_lines
from tools.action import Action
from tools.checks.scheduler import NODE_HOLDING_STATES
from tools.inventory.inventory import Host, Inventory
from tools.remedies import REMEDIES
from tools.remedies.conditions import KUBE_EMPTY
from tools.remedies.remedy import fill_slots
from tools.transport import Transport, Unreachable

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
    jobs = tuple(dict.fromkeys(job for answer in answers for job in answer.jobs))
    return NodeJobs(jobs, "; ".join(dict.fromkeys([*(answer.why for answer in answers if answer.why), *unasked_notes])))


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
    matches = [_SLURM_JOB_PATTERN.fullmatch(line.strip()) for line in split_lines(text) if line.strip()]
    if not all(matches):
        return NodeJobs(why="squeue: an answer of another shape")
    return NodeJobs(tuple(dict.fromkeys(RunningJob(match[1], match[3]) for match in matches if match and match[2] in NODE_HOLDING_STATES)))


def _parse_pods(text: str) -> NodeJobs:
    """Parse `Job  training  bert-0` (owner kind, namespace, pod). DaemonSet and static pods do not count."""
    matches = [_POD_PATTERN.fullmatch(line.strip()) for line in split_lines(text) if line.strip()]
    if not all(matches):
        return NodeJobs(why="kubectl: an answer of another shape")
    return NodeJobs(tuple(RunningJob(match[3], match[2]) for match in matches if match and match[1] not in ("DaemonSet", "Node")))
