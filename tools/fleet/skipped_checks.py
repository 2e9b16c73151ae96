"""Facts for checks that did not run: missing tool, or GPUs in use. Neither healthy nor sick."""

import re
from collections.abc import Mapping
from typing import Literal

from tools.checks.check_types import Check, Command
from tools.fact import Fact, Status
from tools.transport import CommandResult

# value of the `check.skipped` fact; a parser may also use `no_device`
SkipReason = Literal["busy", "not_known", "no_tool"]


def build_skipped_fact(check: Check, why: SkipReason, says: str) -> Fact:
    """Return the fact that a check did not run."""
    return Fact(check.id, "check.skipped", why, line=says[:300], attrs={"text": check.tool} if why == "no_tool" else {})


def find_missing_tool(check: Check, results: Mapping[Command, CommandResult]) -> Fact | None:
    """Return the fact that a required command is not installed, with how to get it, or None."""
    for command, result in results.items():
        if not command.optional and is_missing_program(result):
            return build_skipped_fact(check, "no_tool", f"{explain_not_started(command, result)}; {check.id} needs {check.tool or 'it'}")
    return None


def find_nothing_installed(check: Check, results: Mapping[Command, CommandResult]) -> Fact | None:
    """Return the fact that no program of a passive check is installed, or None.

    With `check.without`, what only such a program would know is absent.
    """
    if not results or not all(command.optional and is_missing_program(result) for command, result in results.items()):
        return None
    text = "; ".join(dict.fromkeys(explain_not_started(command, result) for command, result in results.items()))
    if check.without:
        return Fact(check.id, check.without, status=Status.ABSENT, line=text[:300])
    return build_skipped_fact(check, "no_tool", text)


_SHELL = r"-?(?:/(?:usr/)?bin/)?(?:ba|da|a|k|z)?sh"
_PROGRAM = r"['\"‘]?(?P<{}>[^'\"’:\s]{{1,200}})['\"’]?"
# Launchers' messages for a missing program: coreutils, util-linux, sudo, Slurm's step daemon and the shell of our
# command. Lines of login scripts (`/etc/profile.d/x.sh: line 3: pyenv: command not found`) and a tool's own `not found`
# must not match.
_MISSING_PATTERN = re.compile(
    rf"(?:^|: )(?:timeout|stdbuf|nohup|chroot): failed to run command {_PROGRAM.format('run')}: No such file"
    rf"|^(?:setpriv|ionice|runuser|taskset): failed to execute {_PROGRAM.format('executed')}: No such file"
    rf"|^(?:env|nice|xargs): {_PROGRAM.format('env')}: No such file"
    rf"|^sudo: {_PROGRAM.format('sudo')}: command not found$"
    rf"|^(?:{_SHELL}|(?:/\S{{1,200}}/)?rackmedic-(?:look|act)): (?:(?:line )?\d+: )?(?:exec: )?{_PROGRAM.format('shell')}: (?:command )?not found$"
    rf"|(?:^|: )execve?\(\): {_PROGRAM.format('execve')}: No such file",
    re.MULTILINE,
)
# a program whose shared library is missing counts as not installed
_BROKEN_PATTERN = re.compile(r"(?m)^.{0,200}error while loading shared libraries.{0,200}$")
NODE_KIT_PROGRAMS = ("rackmedic-look", "rackmedic-act")


def is_missing_program(result: CommandResult) -> bool:
    """Return whether the program is missing: exit status 127, or a launcher's message."""
    if result.exit_status == 127:
        return True
    stderr = _decode_stderr(result)
    return not result.stdout.strip() and bool(_MISSING_PATTERN.search(stderr) or _BROKEN_PATTERN.search(stderr))


def explain_not_started(command: Command, result: CommandResult) -> str:
    """Return why the command did not start, naming the program."""
    stderr = _decode_stderr(result)
    if broken_match := _BROKEN_PATTERN.search(stderr):
        return f"{_get_program_name(command.argv[0])} cannot be run: {broken_match[0].strip()}"[:300]
    missing_match = _MISSING_PATTERN.search(stderr)
    quoted_names = list(filter(None, missing_match.groups())) if missing_match else []
    name = _get_program_name(quoted_names[0] if quoted_names else command.argv[0])
    return "the node kit is not installed" if name in NODE_KIT_PROGRAMS else f"{name} is not installed"


def _decode_stderr(result: CommandResult) -> str:
    return result.stderr.decode("utf-8", "replace")


def _get_program_name(path: str) -> str:
    return path.rpartition("/")[2]
