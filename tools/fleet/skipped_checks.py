"""What is said of a check that was not run: its tool is not installed, or its GPUs are not free. Neither healthy nor sick."""

import re
from collections.abc import Mapping
from typing import Literal

from tools.checks.check import Check, Command
from tools.fact import Fact, Status
from tools.transport import CommandResult

SkipReason = Literal["busy", "not_known", "no_tool"]
"""Why a check was not run, as its fact says it; a parser may say `no_device` of what it would be asked through."""


def build_skipped_fact(check: Check, why: SkipReason, says: str) -> Fact:
    """The fact that a check was not run. Neither healthy nor sick: nothing was established but this."""
    return Fact(check.id, "check.skipped", why, line=says[:300], attrs={"text": check.tool} if why == "no_tool" else {})


def find_missing_tool(check: Check, rans: Mapping[Command, CommandResult]) -> Fact | None:
    """The fact that a command is not installed, with how to get it; None where all are."""
    for command, ran in rans.items():
        if not command.optional and is_missing_program(ran):
            return build_skipped_fact(check, "no_tool", f"{explain_not_started(command, ran)}; {check.id} needs {check.tool or 'it'}")
    return None


def find_nothing_installed(check: Check, rans: Mapping[Command, CommandResult]) -> Fact | None:
    """The fact that not one program that a passive check asks is there: of what only such a program knows, that it is not there either.
    None where one was, or where a command that was not to be missed is told by itself."""
    if not rans or not all(command.optional and is_missing_program(ran) for command, ran in rans.items()):
        return None
    says = "; ".join(dict.fromkeys(explain_not_started(command, ran) for command, ran in rans.items()))
    if check.without:
        return Fact(check.id, check.without, status=Status.ABSENT, line=says[:300])
    return build_skipped_fact(check, "no_tool", says)


_SHELL = r"-?(?:/(?:usr/)?bin/)?(?:ba|da|a|k|z)?sh"
_PROGRAM = r"['\"‘]?(?P<{}>[^'\"’:\s]{{1,200}})['\"’]?"
_MISSING_PATTERN = re.compile(
    rf"(?:^|: )(?:timeout|stdbuf|nohup|chroot): failed to run command {_PROGRAM.format('run')}: No such file"
    rf"|^(?:setpriv|ionice|runuser|taskset): failed to execute {_PROGRAM.format('executed')}: No such file"
    rf"|^(?:env|nice|xargs): {_PROGRAM.format('env')}: No such file"
    rf"|^sudo: {_PROGRAM.format('sudo')}: command not found$"
    rf"|^(?:{_SHELL}|(?:/\S{{1,200}}/)?rackmedic-(?:look|act)): (?:(?:line )?\d+: )?(?:exec: )?{_PROGRAM.format('shell')}: (?:command )?not found$"
    rf"|(?:^|: )execve?\(\): {_PROGRAM.format('execve')}: No such file",
    re.MULTILINE,
)
"""What launchers say of a program that is not there: coreutils, util-linux, sudo, Slurm's step daemon, and the shell that runs our words. A file
that a login shell reads says the same of its own lines (`/etc/profile.d/x.sh: line 3: pyenv: command not found`), and many a tool has a thing
that is `not found`: those are no programs of ours."""
_BROKEN_PATTERN = re.compile(r"(?m)^.{0,200}error while loading shared libraries.{0,200}$")
"""Started, and a part of it is not there: for whoever asks it is as good as not installed."""
NODE_KIT_PROGRAMS = ("rackmedic-look", "rackmedic-act")


def is_missing_program(ran: CommandResult) -> bool:
    """Whether a command did not even start because it is not there: shells say 127, launchers say it in words."""
    return ran.exit_status == 127 or (
        not ran.stdout.strip() and bool(_MISSING_PATTERN.search(_decode_stderr(ran)) or _BROKEN_PATTERN.search(_decode_stderr(ran)))
    )


def explain_not_started(command: Command, ran: CommandResult) -> str:
    """Why such a command did not start, in words, by the name of the program that is not there."""
    if broken := _BROKEN_PATTERN.search(_decode_stderr(ran)):
        return f"{_get_program_name(command.argv[0])} cannot be run: {broken[0].strip()}"[:300]
    named = _MISSING_PATTERN.search(_decode_stderr(ran))
    name = _get_program_name(next((word for word in named.groups() if word), command.argv[0]) if named else command.argv[0])
    return "the node kit is not installed" if name in NODE_KIT_PROGRAMS else f"{name} is not installed"


def _decode_stderr(ran: CommandResult) -> str:
    return ran.stderr.decode("utf-8", "replace")


def _get_program_name(path: str) -> str:
    return path.rpartition("/")[2]
