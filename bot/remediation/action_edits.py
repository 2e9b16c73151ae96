"""Which arguments of an action people may change: values that affect only its target."""

from collections.abc import Callable, Mapping, Sequence

from graph.state import RemediationStep
from tools.action import Action
from tools.fact import Fact, Status
from tools.remedies import REMEDIES
from tools.remedies.remedy import BadArgument, check_args

# Every valid value affects only the target.
FREE_ARGUMENT_KINDS = frozenset({"watts", "signal", "check", "hours", "service"})
# The target must show the value: an incident changes no other host's GPU, job or process.
SHOWN_VALUE_READERS: Mapping[str, Callable[[Fact], str]] = {
    "bdf": lambda fact: str(fact.value).lower() if fact.key == "gpu.bdf" else "",
    "job": lambda fact: str(fact.attrs.get("job") or "") if fact.key == "proc.gpu_memory" else "",
    "container": lambda fact: str(fact.attrs.get("id") or "") if fact.key == "container.nvml" else "",
    "pid": lambda fact: str(fact.attrs.get("pid") or "") if fact.key in ("proc.gpu_memory", "proc.orphan") else "",
}


def build_edited_step(action: Action, args: Mapping[str, str], facts: Sequence[Fact]) -> RemediationStep:
    """Return the step with other arguments. Raise BadArgument that names every field that may not change so."""
    remedy = REMEDIES[action.remedy]
    checked = check_args(remedy, {**action.args, **args})
    own = [fact for fact in facts if fact.host == action.target and fact.status is Status.OK and not fact.stale]
    changed = {name: value for name, value in checked.items() if value != action.args.get(name)}
    problems = [
        problem for name, value in changed.items() if (problem := _find_edit_problem(name, remedy.args[name], value, own, action.target))
    ]
    if problems:
        raise BadArgument("; ".join(problems))
    if not changed:
        raise BadArgument("nothing was changed")
    keep = {name: value for name, value in checked.items() if remedy.args[name] != "approval"}
    return RemediationStep(remedy=remedy.id, args=keep, devices=_get_edited_devices(action, changed, own))


def _find_edit_problem(name: str, kind: str, value: str, facts: Sequence[Fact], target: str) -> str:
    if kind in FREE_ARGUMENT_KINDS or kind == "ticks":  # the start of a process is read again when it is proposed
        return ""
    if kind in SHOWN_VALUE_READERS and value in {SHOWN_VALUE_READERS[kind](fact) for fact in facts}:
        return ""
    return f"{name}={value!r}: {target} shows no such {kind}" if kind in SHOWN_VALUE_READERS else f"{name}: cannot be edited"


def _get_edited_devices(action: Action, changed: Mapping[str, str], facts: Sequence[Fact]) -> tuple[str, ...]:
    if "bdf" not in changed:
        return action.devices
    return tuple(f"{action.target}/{fact.device}" for fact in facts if SHOWN_VALUE_READERS["bdf"](fact) == changed["bdf"] and fact.device)
