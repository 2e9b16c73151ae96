"""Why the answer of a command cannot be trusted whole, or was not had: what the transport, sudo, a missing program or setting left behind."""

import re

from kb.scan import lines_in
from tools.checks.clean import clean
from tools.checks.row import Check, Command
from tools.fact import Fact, Status, blind
from tools.fleet.skipped import is_missing, unstarted
from tools.transport import Ran

REFUSALS = (
    "a password is required",
    "not allowed to execute",
    "is not in the sudoers",
    "permission denied",
    "operation not permitted",
    "access denied",
)


OLD_KIT = re.compile(r"rackmedic-look: no such question: this kit is ([0-9a-f]{12})")
"""What the node kit says of a question that came into the catalogue after it was installed."""


def no_target(check: Check, setting: str) -> Fact:
    """The fact that a question was not asked because the site names nobody to ask. Neither healthy nor sick."""
    return Fact(check.id, "check.no_target", setting, line=f"could not look: no target is set ({setting} in the inventory)")


def left_out(check: Check, command: Command, stand_in: Command) -> Fact:
    """The fact that an output was longer than its cap and what matters of it was read whole: what else it said nobody has looked at."""
    line = f"{check.id}.{command.name} is longer than {check.cap} bytes: read were only {stand_in.only}; all else was left out"
    return Fact(check.id, "check.left_out", command.name, line=line)


def broke_off(ran: Ran) -> bool:
    """Whether the output may end anywhere: half a table counts wrong."""
    return ran.timed_out or ran.truncated or ran.exit_status is None


def trouble_of(check: Check, command: Command, ran: Ran) -> Fact | None:
    """Why a command's answer cannot be trusted whole; None when it can. Exit statuses of tools that print their error are the parser's business."""
    name = f"{check.id}.{command.name}"
    if ran.timed_out:
        return blind(check.id, Status.TIMEOUT, f"{name}: no answer within {check.timeout:g} s")
    if ran.exit_status is None and not ran.truncated:
        return blind(check.id, Status.UNREACHABLE, f"{name}: connection lost before the command ended")
    if ran.truncated:
        kept = "; what is older was left out" if command.stands_in_for else ""
        return blind(check.id, Status.UNREADABLE, f"{name}: output cut at {check.cap} bytes{kept}")
    return _failed(check, command, ran, name)


def telling(complaint: str) -> str:
    """The first line of a complaint that says why: a refusal where one stands there, and never what ssh, sudo and the shell say around it."""
    lines = [line.strip() for line in lines_in(clean(complaint)) if line.strip()]
    refusal = (line for line in lines if any(word in line.lower() for word in REFUSALS))
    return next(refusal, lines[0] if lines else "no reason given")[:200]


def _failed(check: Check, command: Command, ran: Ran, name: str) -> Fact | None:
    silent = not ran.stdout.strip()
    complaint = ran.stderr.decode("utf-8", "replace").strip()
    if old := OLD_KIT.search(complaint):
        why = f"its node kit is {old[1]}, another than this RackMedic's, and does not know this question: install the newest (`rackmedic node-kit`)"
        return blind(check.id, Status.DENIED, f"{name}: {why}")
    if is_missing(ran):
        return None if command.optional else blind(check.id, Status.UNREADABLE, f"{name}: {unstarted(command, ran)}")
    if ran.exit_status and silent and any(word in complaint.lower() for word in REFUSALS):
        return blind(check.id, Status.DENIED, f"{name}: {telling(complaint)}")
    if ran.exit_status == 126:
        return None if command.optional else blind(check.id, Status.UNREADABLE, f"{name}: cannot be run: {telling(complaint)}")
    if silent and not complaint:
        return None if command.optional else blind(check.id, Status.UNREADABLE, f"{name}: no output (exit status {ran.exit_status})")
    return None
