"""Read conditions: the controller's just before a claim, the node's for a dry run. Changes nothing.

Advisory for node conditions: the kit reads them again under its lock.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from kb.needle_search import split_lines
from tools.action import Action, Condition
from tools.checks.containers import split_container_answers
from tools.nodekit.generate import LOOK_COMMAND
from tools.remedies.remedy import fill_slots
from tools.transport import CommandResult, Transport, Unreachable

READ_TIMEOUT_SECONDS = 15.0
MAX_OUTPUT_BYTES = 256 * 1024
# Read-only command for each function of the acting script. `{0}` is the argument, which was validated when the action
# was built.
PLAIN_READS: Mapping[str, tuple[str, ...]] = {
    "@proc_start": ("cat", "/proc/{0}/stat"),
    "@module_loaded": ("cat", "/proc/modules"),
    "@module_users": ("cat", "/proc/modules"),
    "@container_gpus": (*LOOK_COMMAND, "docker.devices"),
}


@dataclass(frozen=True, slots=True)
class ConditionResult:
    """One condition now. `ok` is None if unobserved; `saw` is the output, or why there is none."""

    says: str
    ok: bool | None
    saw: str
    id: str = ""


def is_condition_met(condition: Condition, printed: str) -> bool:
    """Return whether the output matches. Slurm prints one line per partition of a node; every line must match."""
    lines = set(printed.split("\n")) if condition.kind == "controller" else {printed}
    return all(any(fnmatchcase(line.strip(), pattern) for pattern in condition.expects.split("|")) for line in lines)


async def read_condition(condition: Condition, host: str, transport: Transport) -> ConditionResult:
    """Read one condition on `host`."""
    name, *words = condition.argv
    argv = tuple(word.format(*words) for word in PLAIN_READS[name]) if name in PLAIN_READS else condition.argv
    try:
        result = await transport.run(host, argv, timeout=READ_TIMEOUT_SECONDS, cap=MAX_OUTPUT_BYTES)
    except Unreachable as error:
        return ConditionResult(condition.says, None, error.why, condition.id)
    complaint = result.stderr.decode("utf-8", "replace").strip()
    if result.exit_status is None or result.timed_out or result.truncated:
        return ConditionResult(condition.says, None, complaint or "no whole answer in time", condition.id)
    if name in PLAIN_READS:
        printed = _emulate_kit_function(name, words, result, complaint)
    elif result.exit_status == 0:
        printed = result.text.strip()
    else:
        printed = None
    if printed is None:
        reason = complaint or result.text.strip()[:200] or f"exit status {result.exit_status}"
        return ConditionResult(condition.says, None, reason, condition.id)
    return ConditionResult(condition.says, is_condition_met(condition, printed), _format_printed(condition, printed)[:200], condition.id)


def _format_printed(condition: Condition, printed: str) -> str:
    """Return the controller's distinct lines with single spaces; the node's output as printed."""
    if condition.kind != "controller":
        return printed
    return "\n".join(dict.fromkeys(" ".join(line.split()) for line in split_lines(printed)))


async def read_process_start(pid: str, host: str, transport: Transport) -> ConditionResult:
    """Read a process's start: `saw` is in clock ticks since boot, or `gone`."""
    return await read_condition(Condition("node", "the process lives", ("@proc_start", pid), "*"), host, transport)


def is_job_forgotten(result: ConditionResult) -> bool:
    """Return whether squeue no longer knows the job: it fails some minutes after the job's end (MinJobAge)."""
    return result.ok is None and "Invalid job id" in result.saw


def fill_condition(condition: Condition, values: Mapping[str, str]) -> Condition:
    """Replace the slots by checked values."""
    return replace(
        condition, argv=tuple(fill_slots(word, values) for word in condition.argv), expects=fill_slots(condition.expects, values)
    )


async def find_unmet_conditions(action: Action, transport: Transport, *, controller: str = "") -> list[ConditionResult]:
    """Return the controller's unmet or unobserved conditions. Any of them ends the action before its claim."""
    conditions = [condition for condition in action.conditions if condition.kind == "controller"]
    results = [await read_condition(condition, controller or action.via, transport) for condition in conditions]
    return [result for result in results if result.ok is not True]


def _emulate_kit_function(name: str, words: Sequence[str], result: CommandResult, complaint: str) -> str | None:
    """Return what the kit's function would print; None if the output does not tell."""
    if name == "@proc_start":
        return _parse_process_start(result, complaint)
    return _KIT_FUNCTION_PARSERS[name](words[0], result.text) if result.exit_status == 0 else None


def _parse_process_start(result: CommandResult, complaint: str) -> str | None:
    if result.exit_status != 0:
        return "gone" if "No such file" in complaint or "No such process" in complaint else None
    fields = result.text.rpartition(") ")[2].split()
    return fields[19] if len(fields) > 19 else None


def _parse_module_loaded(module: str, text: str) -> str:
    return "yes" if any(line.split(" ", 1)[0] == module for line in split_lines(text)) else "no"


def _parse_module_users(module: str, text: str) -> str | None:
    for line in split_lines(text):
        columns = line.split(" ")
        if columns[0] == module:
            return columns[2] if len(columns) > 2 else None
    return "0"


def _parse_container_gpus(container: str, text: str) -> str | None:
    """Return None for a container that was not asked."""
    gpu_words = next((words for name, words, _ in split_container_answers(text) if name == container), None)
    return "lost" if gpu_words and "Failed to initialize NVML: Unknown Error" in gpu_words else gpu_words


_KIT_FUNCTION_PARSERS: Mapping[str, Callable[[str, str], str | None]] = {
    "@module_loaded": _parse_module_loaded,
    "@module_users": _parse_module_users,
    "@container_gpus": _parse_container_gpus,
}
