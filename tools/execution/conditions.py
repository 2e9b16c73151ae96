"""Conditions, read from outside: those of the controller just before a claim, those of the node for a dry run. Reading changes nothing.

The kit reads a node's conditions again under its lock, so what is seen here promises nothing; it saves people from approving the impossible.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from kb.scan import split_lines
from tools.action import Action, Condition
from tools.checks.containers import split_container_answers
from tools.nodekit.generate import LOOK_COMMAND
from tools.remedies.remedy import fill_slots
from tools.transport import CommandResult, Transport, Unreachable

READ_TIMEOUT_SECONDS = 15.0
MAX_OUTPUT_BYTES = 256 * 1024

PLAIN_READS: Mapping[str, tuple[str, ...]] = {
    "@proc_start": ("cat", "/proc/{0}/stat"),
    "@module_loaded": ("cat", "/proc/modules"),
    "@module_users": ("cat", "/proc/modules"),
    "@container_gpus": (*LOOK_COMMAND, "docker.devices"),
}
"""What answers a function of the acting script without it. `{0}` is the function's argument, which was matched when the action was built."""


@dataclass(frozen=True, slots=True)
class ConditionResult:
    """One condition as it is now. `ok` is None where it could not be looked at; `saw` is what was printed, or why nothing was."""

    says: str
    ok: bool | None
    saw: str
    id: str = ""


def is_condition_met(condition: Condition, printed: str) -> bool:
    """Whether this output fulfils the condition. Slurm prints a line for each partition of a node: all of them must fulfil it."""
    lines = set(printed.split("\n")) if condition.kind == "controller" else {printed}
    return all(any(fnmatchcase(line.strip(), pattern) for pattern in condition.expects.split("|")) for line in lines)


async def read_condition(condition: Condition, host: str, transport: Transport) -> ConditionResult:
    """Read one condition on `host`."""
    name, *words = condition.argv
    argv = tuple(word.format(*words) for word in PLAIN_READS[name]) if name in PLAIN_READS else condition.argv
    try:
        ran = await transport.run(host, argv, timeout=READ_TIMEOUT_SECONDS, cap=MAX_OUTPUT_BYTES)
    except Unreachable as why:
        return ConditionResult(condition.says, None, why.why, condition.id)
    complaint = ran.stderr.decode("utf-8", "replace").strip()
    if ran.exit_status is None or ran.timed_out or ran.truncated:
        return ConditionResult(condition.says, None, complaint or "no whole answer in time", condition.id)
    printed = _emulate_kit_function(name, words, ran, complaint) if name in PLAIN_READS else ran.text.strip()
    if printed is None or (ran.exit_status != 0 and name not in PLAIN_READS):
        return ConditionResult(condition.says, None, complaint or ran.text.strip()[:200] or f"exit status {ran.exit_status}", condition.id)
    return ConditionResult(condition.says, is_condition_met(condition, printed), _format_printed(condition, printed)[:200], condition.id)


def _format_printed(condition: Condition, printed: str) -> str:
    """What a scheduler says of each partition alike is shown once, and without the blanks that make columns of it."""
    return "\n".join(dict.fromkeys(" ".join(line.split()) for line in split_lines(printed))) if condition.kind == "controller" else printed


async def read_process_start(pid: str, host: str, transport: Transport) -> ConditionResult:
    """When a process of that number started: `saw` is its start in ticks since boot, or `gone`; `ok` is None where it could not be read."""
    return await read_condition(Condition("node", "the process lives", ("@proc_start", pid), "*"), host, transport)


def is_job_forgotten(seen: ConditionResult) -> bool:
    """Whether squeue does not know the job any more: Slurm forgets one some minutes after it ended (MinJobAge), and then fails."""
    return seen.ok is None and "Invalid job id" in seen.saw


def fill_condition(condition: Condition, values: Mapping[str, str]) -> Condition:
    """With its slots replaced by checked values."""
    return replace(
        condition, argv=tuple(fill_slots(word, values) for word in condition.argv), expects=fill_slots(condition.expects, values)
    )


async def find_unmet_conditions(action: Action, transport: Transport, *, controller: str = "") -> list[ConditionResult]:
    """The controller's conditions that do not hold now, or could not be looked at. Read just before the claim; any of them ends the action."""
    asked = [condition for condition in action.conditions if condition.kind == "controller"]
    seen = [await read_condition(condition, controller or action.via, transport) for condition in asked]
    return [one for one in seen if one.ok is not True]


def _emulate_kit_function(name: str, words: Sequence[str], ran: CommandResult, complaint: str) -> str | None:
    """What the kit's function would print; None where these reads cannot tell."""
    if name == "@proc_start":
        return _parse_process_start(ran, complaint)
    return _KIT_FUNCTION_PARSERS[name](words[0], ran.text) if ran.exit_status == 0 else None


def _parse_process_start(ran: CommandResult, complaint: str) -> str | None:
    if ran.exit_status != 0:
        return "gone" if "No such file" in complaint or "No such process" in complaint else None
    fields = ran.text.rpartition(") ")[2].split()
    return fields[19] if len(fields) > 19 else None


def _parse_module_loaded(module: str, text: str) -> str:
    return "yes" if any(line.split(" ", 1)[0] == module for line in split_lines(text)) else "no"


def _parse_module_users(module: str, text: str) -> str | None:
    rows = [line.split(" ") for line in split_lines(text) if line.split(" ", 1)[0] == module]
    return "0" if not rows else rows[0][2] if len(rows[0]) > 2 else None


def _parse_container_gpus(container: str, text: str) -> str | None:
    """Of a container that is not among those that were asked nothing is known."""
    said = next((words for name, words, _ in split_container_answers(text) if name == container), None)
    return "lost" if said and "Failed to initialize NVML: Unknown Error" in said else said


_KIT_FUNCTION_PARSERS: Mapping[str, Callable[[str, str], str | None]] = {
    "@module_loaded": _parse_module_loaded,
    "@module_users": _parse_module_users,
    "@container_gpus": _parse_container_gpus,
}
