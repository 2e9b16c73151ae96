"""Why a command's output is incomplete or missing: transport, sudo, a missing program or setting."""

import re

from kb.needle_search import split_lines
from tools.checks.check_types import Check, Command
from tools.checks.output_cleaning import clean_output
from tools.fact import Fact, Status, build_unobserved_fact
from tools.fleet.skipped_checks import explain_not_started, is_missing_program
from tools.transport import CommandResult

REFUSAL_TEXTS = (
    "a password is required",
    "not allowed to execute",
    "is not in the sudoers",
    "permission denied",
    "operation not permitted",
    "access denied",
)
# the node kit's answer to a query that is newer than the kit
OLD_KIT_PATTERN = re.compile(r"rackmedic-look: no such question: this kit is ([0-9a-f]{12})")


def build_no_target_fact(check: Check, setting: str) -> Fact:
    """Return the fact that the site configured no target. Neither healthy nor sick."""
    return Fact(check.id, "check.no_target", setting, line=f"could not look: no target is set ({setting} in the inventory)")


def build_truncated_fact(check: Check, command: Command, stand_in: Command) -> Fact:
    """Return the fact that an output exceeded its cap and its stand-in was read instead."""
    line = f"{check.id}.{command.name} is longer than {check.cap} bytes: read were only {stand_in.only}; all else was left out"
    return Fact(check.id, "check.left_out", command.name, line=line)


def is_incomplete(result: CommandResult) -> bool:
    """Return whether the output may be cut: counts from half a table are wrong."""
    return result.timed_out or result.truncated or result.exit_status is None


def find_trouble(check: Check, command: Command, result: CommandResult) -> Fact | None:
    """Return why the answer is not fully trusted, or None. Exit statuses with output are left to the parser."""
    name = f"{check.id}.{command.name}"
    if result.timed_out:
        return build_unobserved_fact(check.id, Status.TIMEOUT, f"{name}: no answer within {check.timeout:g} s")
    if result.exit_status is None and not result.truncated:
        return build_unobserved_fact(check.id, Status.UNREACHABLE, f"{name}: connection lost before the command ended")
    if result.truncated:
        note = "; what is older was left out" if command.stands_in_for else ""
        return build_unobserved_fact(check.id, Status.UNREADABLE, f"{name}: output cut at {check.cap} bytes{note}")
    return _explain_failure(check, command, result, name)


def find_telling_line(complaint: str) -> str:
    """Return the first refusal in a complaint, else its first line."""
    lines = [line.strip() for line in split_lines(clean_output(complaint)) if line.strip()]
    refusals = [line for line in lines if any(text in line.lower() for text in REFUSAL_TEXTS)]
    return (refusals or lines or ["no reason given"])[0][:200]


def _explain_failure(check: Check, command: Command, result: CommandResult, name: str) -> Fact | None:
    has_output = bool(result.stdout.strip())
    complaint = result.stderr.decode("utf-8", "replace").strip()
    if kit_match := OLD_KIT_PATTERN.search(complaint):
        reason = f"its node kit is {kit_match[1]}, another than this RackMedic's, and does not know this question: install the newest (`rackmedic node-kit`)"
        return build_unobserved_fact(check.id, Status.DENIED, f"{name}: {reason}")
    was_started = not is_missing_program(result)
    is_refusal = result.exit_status and not has_output and any(text in complaint.lower() for text in REFUSAL_TEXTS)
    if was_started and is_refusal:
        return build_unobserved_fact(check.id, Status.DENIED, f"{name}: {find_telling_line(complaint)}")
    if command.optional:
        return None
    if not was_started:
        return build_unobserved_fact(check.id, Status.UNREADABLE, f"{name}: {explain_not_started(command, result)}")
    if result.exit_status == 126:
        return build_unobserved_fact(check.id, Status.UNREADABLE, f"{name}: cannot be run: {find_telling_line(complaint)}")
    if not has_output and not complaint:
        return build_unobserved_fact(check.id, Status.UNREADABLE, f"{name}: no output (exit status {result.exit_status})")
    return None
