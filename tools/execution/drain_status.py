"""A node's drain status with its scheduler, and who drained it. Slurm needs one query, Kubernetes two."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from kb.needle_search import split_lines
from tools.action import Condition
from tools.execution.conditions import ConditionResult, fill_condition, read_condition
from tools.inventory.inventory import Host
from tools.remedies.conditions import DRAINED_BY_US, KUBE_CORDONED, KUBE_EMPTY, KUBE_MARK
from tools.transport import Transport

MAX_NAMED_PODS = 3
# Slurm drains a node that registers with less than slurm.conf says, for example after a reboot that a GPU did not
# survive. Its state is then `inval` with or without a running job (22.05), so StateComplete is read too. Each column
# needs a width, because -O truncates at 20 characters.
SLURM_DRAINED = Condition(
    "controller",
    "the node is drained and runs no job",
    ("sinfo", "-h", "-N", "-n", "{target}", "-O", "StateLong:20,StateComplete:80"),
    "drained *|drained[*] *|inval* idle+drain+invalid_reg|inval* idle+drain+invalid_reg+not_responding"
    "|inval* down+drain+invalid_reg|inval* down+drain+invalid_reg+not_responding",
    id="drained",
)


@dataclass(frozen=True, slots=True)
class DrainConditions:
    """A scheduler's queries: all of `drained` must hold; `reason` prints who drained the node."""

    drained: tuple[Condition, ...]
    reason: Condition


DRAIN_CONDITIONS: Mapping[str, DrainConditions] = {
    "slurm": DrainConditions((SLURM_DRAINED,), DRAINED_BY_US),
    "kubernetes": DrainConditions((KUBE_CORDONED, KUBE_EMPTY), KUBE_MARK),
}


def get_drain_conditions(target: Host) -> DrainConditions:
    """Return the queries for the target's scheduler."""
    return DRAIN_CONDITIONS.get(target.scheduler, DRAIN_CONDITIONS["slurm"])


async def read_drain_status(target: Host, transport: Transport) -> ConditionResult:
    """Return whether the host is drained and empty. `saw` is the scheduler's state name."""
    result = ConditionResult("", None, "")
    for condition in get_drain_conditions(target).drained:
        result = await read_condition(_fill_for_host(condition, target), target.controller, transport)
        if result.ok is not True:
            break
    return result if result.ok is None else replace(result, saw=format_drain_status(result))


def format_drain_status(result: ConditionResult) -> str:
    """Return Slurm's state (complete for `inval`), or Kubernetes' cordon and remaining pods."""
    if result.says == SLURM_DRAINED.says:
        return "\n".join(dict.fromkeys(_format_slurm_state(line.split()) for line in split_lines(result.saw) if line.strip()))
    if result.says == KUBE_CORDONED.says:
        return result.saw.split(" ", 1)[0]
    if result.says != KUBE_EMPTY.says:
        return result.saw
    pods = [line.split() for line in split_lines(result.saw) if line and not line.startswith(("DaemonSet ", "Node "))]
    if not pods:
        return "cordoned and empty"
    pod_names = ", ".join("/".join(words[-2:]) for words in pods[:MAX_NAMED_PODS])
    return f"cordoned, with pods: {pod_names}{' …' if len(pods) > MAX_NAMED_PODS else ''}"


def _format_slurm_state(columns: Sequence[str]) -> str:
    return f"{columns[0]} ({columns[1]})" if columns[0].startswith("inval") and columns[1:] else columns[0]


async def read_drain_reason(target: Host, transport: Transport) -> str:
    """Return the scheduler's reason for the host's state, or ""."""
    condition = await read_condition(_fill_for_host(get_drain_conditions(target).reason, target), target.controller, transport)
    return condition.saw.split("\n", 1)[0].strip() if condition.ok is not None else ""


def _fill_for_host(condition: Condition, target: Host) -> Condition:
    return fill_condition(condition, {"node": target.node_name, "target": target.node_name})
