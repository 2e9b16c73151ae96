"""What the cancelling of a job would end, read before anybody decides: how many tasks in which states, whose, and on which hosts.

`4711` of an array or a job of several parts is all of its tasks; Slurm is asked on the controller and nothing is changed.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from kb.scan import lines_in
from tools.action import Action
from tools.inventory.ranges import BadRange, expand
from tools.transport import Transport, Unreachable

SECONDS, CAP, MOST = 15.0, 1 << 20, 10_000
QUESTION = ("squeue", "-h", "-r", "-j", "{job}", "-o", "%i|%T|%u|%N")


@dataclass(frozen=True, slots=True)
class Cancels:
    """What would end. `states` counts the tasks by state; `why` says why it could not be read."""

    states: Mapping[str, int] = field(default_factory=dict)
    owners: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    why: str = ""


async def would_cancel(action: Action, transport: Transport) -> Cancels | None:
    """What this action would end if it began now; None where it cancels nothing."""
    if action.remedy != "cancel_job":
        return None
    argv = tuple(word.format(job=action.args["job"]) for word in QUESTION)
    try:
        ran = await transport.run(action.via, argv, timeout=SECONDS, cap=CAP)
    except Unreachable as why:
        return Cancels(why=why.why)
    complaint = ran.stderr.decode("utf-8", "replace").strip()
    if ran.timed_out or ran.truncated or ran.exit_status is None:
        return Cancels(why="no whole answer in time")
    if ran.exit_status != 0:
        return Cancels(why=complaint[:200] or f"exit status {ran.exit_status}")
    return read_cancels(ran.text)


def read_cancels(text: str) -> Cancels:
    """`4711_3|RUNNING|alice|gpu-[001-002]`, a row for each task or part."""
    rows = [parts for line in lines_in(text)[:MOST] if len(parts := line.strip().split("|")) == 4]
    try:
        hosts = tuple(dict.fromkeys(host for *_, nodes in rows if nodes for host in expand(nodes)))
    except BadRange as why:
        return Cancels(why=f"squeue: {why}")
    return Cancels(Counter(state for _, state, _, _ in rows), tuple(dict.fromkeys(user for _, _, user, _ in rows)), hosts)
