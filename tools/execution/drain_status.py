"""Where a node stands with its scheduler: out of service and empty, back, and by whose word. Slurm says it in one line, Kubernetes in two."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from kb.scan import split_lines
from tools.action import Condition
from tools.execution.conditions import ConditionResult, fill_condition, read_condition
from tools.inventory.inventory import Host
from tools.remedies.conditions import DRAINED_BY_US, KUBE_CORDONED, KUBE_EMPTY, KUBE_MARK
from tools.transport import Transport

SLURM_DRAINED = Condition(
    "controller",
    "the node is drained and runs no job",
    ("sinfo", "-h", "-N", "-n", "{target}", "-O", "StateLong:20,StateComplete:80"),
    "drained *|drained[*] *|inval* idle+drain+invalid_reg|inval* idle+drain+invalid_reg+not_responding"
    "|inval* down+drain+invalid_reg|inval* down+drain+invalid_reg+not_responding",
    id="drained",
)
"""Slurm drains by itself a node that registers with less than slurm.conf says (after a reboot that a GPU did not survive, say), and calls it
`inval` then, whether a job runs there or not (22.05): only the whole state tells. Each has its own width, for -O cuts at 20 by itself."""


@dataclass(frozen=True, slots=True)
class DrainConditions:
    """What one scheduler is asked of a node. `drained`: all must hold; `reason`: what prints by whose word it is out of service."""

    drained: tuple[Condition, ...]
    reason: Condition


DRAIN_CONDITIONS: Mapping[str, DrainConditions] = {
    "slurm": DrainConditions((SLURM_DRAINED,), DRAINED_BY_US),
    "kubernetes": DrainConditions((KUBE_CORDONED, KUBE_EMPTY), KUBE_MARK),
}


def get_drain_conditions(target: Host) -> DrainConditions:
    """Of the scheduler that the target has."""
    return DRAIN_CONDITIONS.get(target.scheduler, DRAIN_CONDITIONS["slurm"])


async def read_drain_status(target: Host, transport: Transport) -> ConditionResult:
    """Whether a scheduler has the host out of service and without jobs. `saw` is the state in the scheduler's word."""
    seen = ConditionResult("", None, "")
    for condition in get_drain_conditions(target).drained:
        seen = await read_condition(_fill_for_host(condition, target), target.controller, transport)
        if seen.ok is not True:
            break
    return seen if seen.ok is None else replace(seen, saw=format_drain_status(seen))


def format_drain_status(seen: ConditionResult) -> str:
    """What is said of a node that should be drained and empty, and of one that is: a word of Slurm's, with the whole state where that hides
    something; of Kubernetes whether it is cordoned, and which pods are left."""
    if seen.says == SLURM_DRAINED.says:
        return "\n".join(dict.fromkeys(_format_slurm_state(line.split()) for line in split_lines(seen.saw) if line.strip()))
    if seen.says == KUBE_CORDONED.says:
        return seen.saw.split(" ", 1)[0]
    if seen.says != KUBE_EMPTY.says:
        return seen.saw
    pods = [row.split() for row in split_lines(seen.saw) if row and not row.startswith(("DaemonSet ", "Node "))]
    named = ", ".join("/".join(words[-2:]) for words in pods[:3])
    return f"cordoned, with pods: {named}{' …' if len(pods) > 3 else ''}" if pods else "cordoned and empty"


def _format_slurm_state(row: Sequence[str]) -> str:
    return f"{row[0]} ({row[1]})" if row[0].startswith("inval") and row[1:] else row[0]


async def read_drain_reason(target: Host, transport: Transport) -> str:
    """The reason that a scheduler gives for the host's state; empty where it gives none or cannot be asked."""
    seen = await read_condition(_fill_for_host(get_drain_conditions(target).reason, target), target.controller, transport)
    return seen.saw.split("\n", 1)[0].strip() if seen.ok is not None else ""


def _fill_for_host(condition: Condition, target: Host) -> Condition:
    return fill_condition(condition, {"node": target.node_name, "target": target.node_name})
