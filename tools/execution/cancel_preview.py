"""Preview of a job cancellation: tasks by state, owners and hosts.

A job id includes all tasks of its array or heterogeneous job.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from kb.needle_search import split_lines
from tools.action import Action
from tools.inventory.host_ranges import BadRange, expand_host_range
from tools.transport import Transport, Unreachable

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
    """Parse squeue lines such as `4711_3|RUNNING|alice|gpu-[001-002]`, one per task."""
    columns_of_lines = (line.strip().split("|") for line in split_lines(text)[:MAX_TASKS])
    tasks = [columns for columns in columns_of_lines if len(columns) == 4]
    states = Counter(state for _, state, _, _ in tasks)
    owners = tuple(dict.fromkeys(user for _, _, user, _ in tasks))
    try:
        hosts = tuple(dict.fromkeys(host for *_, nodes in tasks if nodes for host in expand_host_range(nodes)))
    except BadRange as error:
        return CancelPreview(why=f"squeue: {error}")
    return CancelPreview(states, owners, hosts)
