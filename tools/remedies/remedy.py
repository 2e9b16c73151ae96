"""A remedy as one row: change, command, conditions and proof. Every remedy needs approval.

Python matches an argument in full and the node kit checks it again byte by byte; both must accept it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from tools.action import Condition, Risk


@dataclass(frozen=True, slots=True)
class ArgumentKind:
    """A type of argument. `pattern` is a Python regex for the full value.

    The other fields state the same for the kit: at most `longest` bytes, a POSIX `case` pattern of `admits` matches,
    none of `refuses`. LC_ALL=C applies, so character classes are byte classes.
    """

    pattern: str
    says: str
    longest: int
    admits: tuple[str, ...]
    refuses: tuple[str, ...] = ()


_HEX = "[0-9a-f]"
_DIGIT = "[0-9]"
_BDF = f"{_HEX * 4}:{_HEX * 2}:{_HEX * 2}.[0-7]"
_WATTS = tuple(f"[1-9]{_DIGIT * more}{rest}" for more in (1, 2, 3) for rest in ("", f".{_DIGIT}", f".{_DIGIT * 2}"))
HOURS_CASE_PATTERNS = ("2[4-9]", f"[3-9]{_DIGIT}", f"[1-9]{_DIGIT * 2}")
# Services that may be restarted. Not openibd (it carries our own connection), not slurmd (the scheduler decides).
RESTARTABLE_SERVICES = ("docker", "nvidia-persistenced", "nvidia-dcgm")

ARGUMENT_KINDS: Mapping[str, ArgumentKind] = {
    "bdf": ArgumentKind(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", "a PCI address such as 0000:9b:00.0", 12, (_BDF,)),
    "node": ArgumentKind(
        r"(?![Aa][Ll][Ll]\Z)[A-Za-z0-9][A-Za-z0-9._-]{0,62}",
        "a host name, and not ALL, which Slurm takes for every node",
        63,
        ("[A-Za-z0-9]*",),
        ("*[!A-Za-z0-9._-]*", "[Aa][Ll][Ll]"),
    ),
    "job": ArgumentKind(
        r"[0-9]{1,12}(_[0-9]{1,6})?",
        "a Slurm job id such as 4711 or 4711_3",
        19,
        ("[0-9]*",),
        ("*[!0-9_]*", "*_*_*", "*_", f"{_DIGIT * 13}*", f"*_{_DIGIT * 7}*"),
    ),
    "pid": ArgumentKind(r"[1-9][0-9]{1,9}", "a process id, and not one of the first nine", 10, (f"[1-9]{_DIGIT}*",), ("*[!0-9]*",)),
    "ticks": ArgumentKind(r"[0-9]{1,20}", "a process start time in clock ticks since boot", 20, ("[0-9]*",), ("*[!0-9]*",)),
    "watts": ArgumentKind(r"[1-9][0-9]{1,3}(\.[0-9]{1,2})?", "a power limit in watts", 7, _WATTS),
    "signal": ArgumentKind(r"TERM|KILL", "TERM or KILL", 4, ("TERM", "KILL")),
    "container": ArgumentKind(r"[0-9a-f]{64}", "a container's whole id, 64 hex digits", 64, (_HEX * 64,)),
    "hours": ArgumentKind(r"2[4-9]|[3-9][0-9]|[1-9][0-9]{2}", "a whole number of hours from 24 to 999", 3, HOURS_CASE_PATTERNS),
    "service": ArgumentKind("|".join(RESTARTABLE_SERVICES), f"one of {', '.join(RESTARTABLE_SERVICES)}", 19, RESTARTABLE_SERVICES),
    "kube_node": ArgumentKind(
        r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?",
        "a node name of Kubernetes: small letters, digits, '.' and '-'",
        253,
        ("[a-z0-9]*",),
        ("*[!a-z0-9.-]*", "*[.-]"),
    ),
    "approval": ArgumentKind(r"apr-[0-9a-f]{12}", "an approval id", 16, (f"apr-{_HEX * 12}",)),
    "check": ArgumentKind(r"[a-z][a-z0-9]{1,9}", "a check id", 10, ("[a-z][a-z0-9]*",), ("*[!a-z0-9]*",)),
}


class BadArgument(ValueError):
    """A value that will not be put into an action. Names the argument, the value and what it should be."""


@dataclass(frozen=True, slots=True)
class Completion:
    """When the command is done: at exit status 0, or at a new boot id within `seconds`."""

    kind: Literal["exit_zero", "new_boot"] = "exit_zero"
    seconds: int = 120


@dataclass(frozen=True, slots=True)
class Remedy:
    """One row. `args` maps names to kinds; words of `command` and conditions may hold `{name}`.

    `at`: the kit runs on the target, via the group's controller, or nowhere (`fleet`: an exclusive check).
    `needs`: controller conditions, where the site has a controller (`drained`).
    `heavier`: next step if the proof fails. `undo`: remedy that reverts this one. `covers`: remedies made unnecessary.
    `then`: remedy that makes this one take effect.
    `harder`: arguments of the repetition, if `heavier` is the row itself.
    `preview`: the kit's read-only function that lists what would be deleted, and its arguments.
    `back`: how people revert it if no remedy does. `refusals`: text of the tool's refusal → meaning and what to do.
    `outage`: what is unavailable, how long, and why. `waiting`: what continues until approval.
    `files`: what it writes, deletes or loses on disk, or `none`. `ends`: the processes that end, or `nothing`.
    `names_jobs`: the card names the node's jobs and users.
    `only`: the one scheduler that has it. `ways`: rows for other schedulers than Slurm.

    The kit and `argv` use a way's own id, people and remediations this row's id.
    """

    id: str
    does: str
    at: Literal["target", "controller", "fleet"]
    args: Mapping[str, str]
    command: tuple[str, ...]
    risk: Risk
    limit_seconds: int
    proof: tuple[str, ...]
    blast: str
    outage: str
    waiting: str
    files: str
    ends: str
    conditions: tuple[Condition, ...] = ()
    needs: tuple[Literal["drained"], ...] = ()
    completion: Completion = Completion()
    undo: str = ""
    heavier: str = ""
    covers: tuple[str, ...] = ()
    refusals: Mapping[str, str] = field(default_factory=dict)
    then: str = ""
    harder: Mapping[str, str] = field(default_factory=dict)
    back: str = ""
    preview: tuple[str, ...] = ()
    only: str = ""
    ways: Mapping[str, "Remedy"] = field(default_factory=dict)
    names_jobs: bool = False


def check_args(remedy: Remedy, given: Mapping[str, str]) -> dict[str, str]:
    """Return the arguments in row order. BadArgument names every missing, extra or ill-formed one."""
    problems = [f"{name}: not an argument of {remedy.id}" for name in given if name not in remedy.args]
    for name, kind in remedy.args.items():
        value = given.get(name, "")
        if not re.fullmatch(ARGUMENT_KINDS[kind].pattern, value):
            problems.append(f"{name}={value[:80]!r}: must be {ARGUMENT_KINDS[kind].says}")
    if problems:
        raise BadArgument("; ".join(problems))
    return {name: given[name] for name in remedy.args}


def fill_slots(word: str, values: Mapping[str, str]) -> str:
    """Replace `{slot}`s by checked values in one pass: a value that looks like a slot stays."""
    return re.sub(r"{([a-z_]+)}", lambda slot: values[slot[1]], word)
