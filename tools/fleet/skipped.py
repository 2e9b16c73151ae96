"""What is said of a check that was not run: its tool is not installed, or its GPUs are not free. Neither healthy nor sick."""

import re
from collections.abc import Mapping
from typing import Literal

from tools.checks.row import Check, Command
from tools.fact import Fact
from tools.transport import Ran

Why = Literal["busy", "not_known", "no_tool"]
"""Why a check was not run, as its fact says it."""


def skipped(check: Check, why: Why, says: str) -> Fact:
    """The fact that a check was not run. Neither healthy nor sick: nothing was established but this."""
    return Fact(check.id, "check.skipped", why, line=says[:300], attrs={"text": check.tool} if why == "no_tool" else {})


def no_tool(check: Check, rans: Mapping[Command, Ran]) -> Fact | None:
    """The fact that a command is not installed, with how to get it; None where all are."""
    for command, ran in rans.items():
        if not command.optional and is_missing(ran):
            return skipped(
                check, "no_tool", f"{command.argv[0].rpartition('/')[2]} is not installed; {check.id} needs {check.tool or 'it'}"
            )
    return None


_MISSING = re.compile(
    r"(?:failed to run command|bash: line \d+:).{0,200}(?:No such file|not found)|error while loading shared libraries|^execve?\(\): .{0,80}No such file",
    re.MULTILINE,
)


def is_missing(ran: Ran) -> bool:
    """Whether a command did not even start: shells say 127, launchers say it in words."""
    return ran.exit_status in (126, 127) or (not ran.stdout.strip() and bool(_MISSING.search(ran.stderr.decode("utf-8", "replace"))))
